@echo off
rem Double-click start: hands over to start.pyw with the newest suitable Python, without a console.
setlocal
for %%V in (3.13 3.12 3.11) do (
    pyw -%%V -c "" >nul 2>nul && (
        start "" /b pyw -%%V "%~dp0start.pyw" %*
        exit /b 0
    )
)
where pythonw.exe >nul 2>nul && (
    start "" /b pythonw.exe "%~dp0start.pyw" %*
    exit /b 0
)
mshta "javascript:alert('Twinrig needs Python 3.11, 3.12 or 3.13. Install Python 3.13 from the Microsoft Store or from python.org, then open this file again.');close()"
exit /b 1
