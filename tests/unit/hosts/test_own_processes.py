"""Which processes are of one installation; ending them is seen under Wine."""

from __future__ import annotations

from pathlib import PureWindowsPath

from twinrig.hosts.windows.own_processes import of_folder

FOLDER = PureWindowsPath(r"C:\Users\山田 太郎\AppData\Local\Programs\Twinrig\python")


def test_only_programs_below_the_folder_and_never_this_one() -> None:
    images = [
        (10, r"C:\Users\山田 太郎\AppData\Local\Programs\Twinrig\python\pythonw.exe"),
        (11, r"c:\users\山田 太郎\appdata\local\programs\TWINRIG\Python\python.exe"),
        (12, r"C:\Users\山田 太郎\AppData\Local\Programs\Twinrig\python2\pythonw.exe"),
        (13, r"C:\Python313\pythonw.exe"),
        (14, r"C:\Users\山田 太郎\AppData\Local\Programs\Twinrig\python\pythonw.exe"),
        (15, ""),
        (2**20, r"C:\Users\山田 太郎\AppData\Local\Programs\Twinrig\python\pythonw.exe"),
    ]
    assert of_folder(images, FOLDER, 14) == (10, 11, 2**20)  # type: ignore[arg-type]
