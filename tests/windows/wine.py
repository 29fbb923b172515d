"""A Windows of its own under Wine, with what Wine lacks for Qt and the doubles in place."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMPILER = "x86_64-w64-mingw32-gcc"
UI_SETTINGS = "Windows.UI.ViewManagement.UISettings"
REGISTRY = r"""REGEDIT4

[HKEY_CURRENT_USER\Software\Wine]
"Version"="win10"

[HKEY_CURRENT_USER\Software\Wine\Fonts\Replacements]
"Segoe UI"="DejaVu Sans"
"Tahoma"="DejaVu Sans"
"MS Shell Dlg"="DejaVu Sans"
"MS Shell Dlg 2"="DejaVu Sans"
"MS UI Gothic"="Noto Sans CJK JP"
"Yu Gothic UI"="Noto Sans CJK JP"

"""
ACTIVATION = r"""[HKEY_LOCAL_MACHINE\Software\Microsoft\WindowsRuntime\ActivatableClassId\{name}]
"DllPath"="C:\\windows\\system32\\uisettings.dll"
"""


class WineError(Exception):
    """Wine, or a Windows program under it, did not do what it should."""


class Program:
    """A Windows program that was started, and what it printed so far.

    Services that Wine starts beside the first program inherit its output and keep it open as long
    as anything runs: the end of the program counts, not that of its output.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def end(self, limit_s: float) -> str:
        """Wait for it, kill it when it is late; what it printed. Raises WineError when late."""
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            raise WineError(f"{self.process.args!r} did not end within {limit_s:.0f} s") from error
        self._reader.join(1.0)
        return "".join(self._lines)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.append(line)


class Wine:
    """One prefix below ``folder``; ``environ`` is added for every Windows program."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.prefix = folder / "prefix"
        runtime = folder / "run"
        runtime.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.environ = {
            **os.environ,
            "WINEPREFIX": str(self.prefix),
            "WINEARCH": "win64",
            "WINEDEBUG": "-all",
            # Nothing is downloaded, and no menu entries are made on the Linux side.
            # Wine's own schtasks.exe starts nothing.
            "WINEDLLOVERRIDES": "mscoree=;mshtml=;winemenubuilder.exe=;schtasks.exe=n",
            "XDG_RUNTIME_DIR": str(runtime),
            **environ,
        }

    @property
    def system32(self) -> Path:
        """Where programs of Windows lie."""
        return self.prefix / "drive_c" / "windows" / "system32"

    @property
    def user(self) -> Path:
        """The profile folder of the only user."""
        (found,) = (p for p in (self.prefix / "drive_c" / "users").iterdir() if p.name != "Public")
        return found

    def prepare(self) -> None:
        """Make the prefix; put the stand-ins in place. Raises WineError."""
        self.run("wineboot", "-i", timeout_s=180)
        build(HERE / "icuuc.c", self.system32 / "icuuc.dll", "-shared")
        stub = self.system32 / "wsl.exe"
        build(HERE / "double_stub.c", stub, "-municode", libraries=("-lws2_32",))
        shutil.copy(stub, self.system32 / "schtasks.exe")
        text = REGISTRY
        # Wine 10 has this class itself.
        if UI_SETTINGS not in self._registry():
            build(HERE / "uisettings.c", self.system32 / "uisettings.dll", "-shared")
            text += ACTIVATION.format(name=UI_SETTINGS)
        file = self.prefix / "drive_c" / "settings.reg"
        file.write_text(text, "ascii")
        self.run("regedit", "/S", r"C:\settings.reg")
        file.unlink()

    def _registry(self) -> str:
        """Wine's server writes its file when it ends or half a minute has passed, not at once."""
        file = self.prefix / "system.reg"
        deadline = time.monotonic() + 90
        while not file.exists():
            if time.monotonic() > deadline:
                raise WineError(f"Wine has not written {file}")
            time.sleep(0.2)
        return file.read_text("utf-8", "replace")

    def run(self, *words: str, timeout_s: float = 120, fine: tuple[int, ...] = (0,)) -> str:
        """Output of a Windows program, its errors too. Raises WineError with them."""
        program = self.start(*words)
        output = program.end(timeout_s * slack())
        if program.process.returncode not in fine:
            raise WineError(f"{words} gave {program.process.returncode}:\n{output}")
        return output

    def start(self, *words: str) -> Program:
        """Start a Windows program. Its output is a pipe: Python refuses a file under Wine."""
        return Program(
            subprocess.Popen(
                ["wine", *words],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
            )
        )

    def windows_path(self, path: Path) -> str:
        """``C:\\...`` for a file in the prefix, ``Z:\\...`` for any other."""
        drive_c = self.prefix / "drive_c"
        if path.is_relative_to(drive_c):
            return "C:\\" + str(path.relative_to(drive_c)).replace("/", "\\")
        return "Z:" + str(path).replace("/", "\\")

    def user_sid(self) -> str:
        """Identifier of the only user, from the head of its registry file."""
        head = (self.prefix / "user.reg").read_text("utf-8", "replace")[:400]
        found = re.search(r"S-1-5-[0-9-]+", head)
        if found is None:
            raise WineError(f"the user is not named in {head!r}")
        return found[0]

    def registry(self) -> str:
        """The user's registry as text, once everything is written."""
        self.run("reg", "export", "HKCU", r"C:\user.reg", "/y")
        data = (self.prefix / "drive_c" / "user.reg").read_bytes()
        return data.decode("utf-16" if data[:2] == b"\xff\xfe" else "utf-8", "replace")

    def end(self) -> None:
        """End everything of this prefix."""
        subprocess.run(["wineserver", "-k"], env=self.environ, capture_output=True, check=False)


def build(source: Path, target: Path, *options: str, libraries: tuple[str, ...] = ()) -> None:
    """Compile one of the stand-ins. Raises WineError."""
    command = [COMPILER, "-Os", "-s", *options, "-o", str(target), str(source), *libraries]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise WineError(f"{source.name}: {done.stderr}")


def slack() -> float:
    """How much longer things may take because other work waits for the same cores."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def until(condition: Callable[[], object], limit_s: float, what: str) -> None:
    """Wait until ``condition`` is true. Raises WineError."""
    deadline_s = time.monotonic() + limit_s * slack()
    while not condition():
        if time.monotonic() > deadline_s:
            raise WineError(f"not within {limit_s:.0f} s: {what}")
        time.sleep(0.1)
