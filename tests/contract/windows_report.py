"""Looks at a real Windows with WSL and prints what Twinrig rests on and could not be seen on Linux.

    python tests\\contract\\windows_report.py [--distro NAME] [--out FILE]

Needs Python 3.11 and this checkout, nothing else; changes nothing but one scheduled task of its
own, which it deletes, and stops no distribution. Points that need eyes or a restart are listed with
what to do; write what you saw behind them and send the file.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "app"))

from twinrig.hosts.wsl.call import WslCall, wsl_environment
from twinrig.hosts.wsl.decoding import decode_own
from twinrig.hosts.wsl.executable import find_wsl
from twinrig.hosts.wsl.framing import Frame, read_frame
from twinrig.hosts.wsl.listing import parse_names, parse_verbose

TASK = r"\Twinrig-check\probe"
WINDOWS = sys.platform == "win32"
LIMIT_S = 120
BY_HAND: tuple[tuple[str, str], ...] = (
    ("8", "S4U task in session 0 (needs an administrator): does WSL start, is the GPU visible?"),
    (
        "9",
        "Sleep for a minute while a server runs: does it answer afterwards? If not, what does "
        '"wsl -l --running -q" say, and does it hang?',
    ),
    ("10", 'Run "wsl --update" while a server runs: is it restarted, and what does the panel say?'),
    (
        "12",
        "Put kernelCommandLine = sysctl.kernel.yama.ptrace_scope=0 into .wslconfig, run "
        '"wsl --shutdown": does "cat /proc/sys/kernel/yama/ptrace_scope" say 0?',
    ),
    (
        "13b",
        "Shut Windows down with fast start-up on, switch it on: does 127.0.0.1 still reach a "
        "server in WSL?",
    ),
    ("14", "Does a notice of the tray icon appear, with Twinrig's name and icon?"),
    ("15", "What does SmartScreen say when the installer is started, word for word?"),
)


class Report:
    """Collects points; one that fails is told and does not keep the others from being tried."""

    def __init__(self, executable: str, distro: str) -> None:
        self.executable, self.distro = executable, distro
        self.environ = wsl_environment(os.environ)
        self.lines: list[str] = []

    def point(self, number: str, title: str, look: Callable[[], str]) -> None:
        """Run one look and keep what it found."""
        sys.stderr.write(f"{number} {title} ...\n")
        try:
            found = look()
        except Exception as error:  # noqa: BLE001
            found = f"COULD NOT TELL: {error!r}"
        self.lines.append(f"- **{number} {title}**: {found}")

    def run(self, argv: list[str], **settings: object) -> subprocess.CompletedProcess[bytes]:
        """One program to its end, without a window."""
        settings.setdefault("input", b"")
        return subprocess.run(  # type: ignore[call-overload, no-any-return]
            argv,
            capture_output=True,
            env=self.environ,
            timeout=LIMIT_S,
            check=False,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            **settings,
        )

    def linux(self, *words: str) -> str:
        """Standard output of a command in the distribution, by Twinrig's own frame."""
        frame = Frame(uuid.uuid4().hex, words)
        done = self.run(list(WslCall(self.executable, self.distro).argv()), input=frame.request())
        framed = read_frame(frame.nonce, done.stdout, done.stderr)
        if framed.status is None:
            raise RuntimeError(
                f"no END line, rc {done.returncode}, {done.stdout!r} {done.stderr!r}"
            )
        return framed.stdout.decode("utf-8", "replace").strip()

    # What can be looked at without a person.

    def versions(self) -> str:
        text = decode_own(
            self.run([self.executable, "--version"]).stdout, "oem" if WINDOWS else "cp437"
        )
        return f"{platform.platform()}; {'; '.join(text.strip().splitlines())}"

    def raw_list(self) -> str:
        wide = {k: v for k, v in self.environ.items() if k != "WSL_UTF8"}
        raw = subprocess.run(
            [self.executable, "-l", "-v"], capture_output=True, env=wide, check=False
        )
        running = parse_names(
            decode_own(self.run([self.executable, "-l", "--running", "-q"]).stdout)
        )
        read = parse_verbose(decode_own(raw.stdout), running)
        return f"rc {raw.returncode}, bytes {raw.stdout[:160]!r}, read as {read}"

    def frame(self) -> str:
        words = ['a"b', "c\\", "$HOME", "日本", "", "x y"]
        got = self.linux("printf", "%s|", *words)
        return "unchanged" if got == "".join(f"{w}|" for w in words) else f"CHANGED: {got!r}"

    def stub(self) -> str:
        """F.4 point 1: is a second wsl.exe started, and does it outlive the first?"""
        mark = f"{time.time_ns() % 10**9}"
        started = subprocess.Popen(
            [self.executable, "-d", self.distro, "--cd", "/", "--exec", "/bin/sleep", f"9{mark}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self.environ,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        time.sleep(5)
        before = processes()
        below = [name for pid, parent, name in before if parent == started.pid]
        started.kill()
        started.wait()
        time.sleep(3)
        after = {pid for pid, _, _ in processes()}
        left = [name for pid, parent, name in before if parent == started.pid and pid in after]
        linux = self.linux("sh", "-c", f"pgrep -f '[s]leep 9{mark}' || echo gone")
        return f"children {below}, left after kill {left}, Linux side: {linux}"

    def devnull(self) -> str:
        """F.4 point 7."""
        done = self.run(
            [self.executable, "-d", self.distro, "--cd", "/", "--exec", "/bin/cat"],
            input=None,
            stdin=subprocess.DEVNULL,
        )
        return f"ends by itself, rc {done.returncode}"

    def utilisation(self) -> str:
        """F.4 point 11."""
        query = ["--query-gpu=index,name,utilization.gpu,memory.used", "--format=csv,noheader"]
        inside = self.linux(
            "sh", "-c", f"/usr/lib/wsl/lib/nvidia-smi {' '.join(query)} 2>&1 | head -4"
        )
        outside = decode_own(self.run(["nvidia-smi", *query]).stdout).strip()
        return f"in WSL {inside!r}; on Windows {outside!r}"

    def relay(self) -> str:
        """F.4 point 13: does 127.0.0.1 of Windows reach a server in WSL?"""
        port = str(20000 + time.time_ns() % 20000)
        server = subprocess.Popen(
            [
                self.executable,
                "-d",
                self.distro,
                "--cd",
                "/tmp",
                "--exec",
                "/usr/bin/python3",
                "-m",
                "http.server",
                port,
                "--bind",
                "127.0.0.1",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self.environ,
        )
        try:
            import urllib.request

            for _ in range(40):
                time.sleep(0.5)
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2) as answer:
                        return f"reached, status {answer.status}"
                except OSError:
                    continue
            return "NOT reached within 20 s"
        finally:
            server.kill()

    def task(self) -> str:
        """F.4 points 2 to 6: own folder, own SID, encodings, what /End leaves."""
        sid = self.run(["whoami", "/user", "/fo", "csv", "/nh"]).stdout.decode("ascii", "replace")
        sid = sid.strip().rpartition(",")[2].strip('"')
        found = []
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "task.xml"
            command = f'"{Path(__file__).resolve()}" --sleeper "{self.executable}" {self.distro}'
            file.write_bytes(
                b"\xff\xfe"
                + _XML.format(sid=sid, program=sys.executable, words=_escaped(command)).encode(
                    "utf-16-le"
                )
            )
            made = self.run(["schtasks", "/Create", "/TN", TASK, "/XML", str(file), "/F"])
        found.append(f"create rc {made.returncode} {made.stdout!r} {made.stderr!r}")
        query = self.run(["schtasks", "/Query", "/TN", TASK, "/XML"])
        found.append(f"/XML begins {query.stdout[:60]!r}")
        text = self.run(["schtasks", "/Query", "/TN", TASK])
        found.append(f"text {text.stdout[:200]!r}")
        missing = self.run(["schtasks", "/Query", "/TN", r"\Twinrig-check\none"])
        found.append(f"missing task rc {missing.returncode} {missing.stderr!r}")
        self.run(["schtasks", "/Run", "/TN", TASK])
        time.sleep(8)
        before = self._sleepers()
        self.run(["schtasks", "/End", "/TN", TASK])
        time.sleep(8)
        found.append(f"before /End {before}, after /End {self._sleepers()}")
        self.run(["schtasks", "/Delete", "/TN", TASK, "/F"])
        self.linux("sh", "-c", "pkill -f '[s]leep 987654' ; true")
        return "; ".join(found)

    def _sleepers(self) -> str:
        return self.linux("sh", "-c", "pgrep -c -f '[s]leep 987654' || true") + " in Linux"


_XML = """<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.4" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
<Triggers><LogonTrigger><Enabled>false</Enabled><UserId>{sid}</UserId></LogonTrigger></Triggers>
<Principals><Principal id="Author"><UserId>{sid}</UserId><LogonType>InteractiveToken</LogonType>
<RunLevel>LeastPrivilege</RunLevel></Principal></Principals>
<Settings><ExecutionTimeLimit>PT5M</ExecutionTimeLimit></Settings>
<Actions Context="Author"><Exec><Command>{program}</Command><Arguments>{words}</Arguments></Exec>
</Actions></Task>
"""


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def processes() -> list[tuple[int, int, str]]:
    """Pid, parent and name of every process; on Windows by a snapshot, without a tool."""
    if not WINDOWS:
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    head, _, rest = (folder / "stat").read_text().rpartition(")")
                except OSError:
                    continue
                found.append((int(folder.name), int(rest.split()[1]), head.partition("(")[2]))
        return found
    return _snapshot()


def _snapshot() -> list[tuple[int, int, str]]:
    import ctypes
    from ctypes import wintypes

    class Entry(ctypes.Structure):
        _fields_ = (
            ("dwSize", wintypes.DWORD),
            ("cntUsage", wintypes.DWORD),
            ("pid", wintypes.DWORD),
            ("heap", ctypes.c_size_t),
            ("module", wintypes.DWORD),
            ("threads", wintypes.DWORD),
            ("parent", wintypes.DWORD),
            ("priority", wintypes.LONG),
            ("flags", wintypes.DWORD),
            ("name", wintypes.WCHAR * 260),
        )

    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined, unused-ignore]
    kernel.CreateToolhelp32Snapshot.restype = wintypes.HANDLE
    handle = wintypes.HANDLE(kernel.CreateToolhelp32Snapshot(2, 0))
    entry, found = Entry(dwSize=ctypes.sizeof(Entry)), []
    more = kernel.Process32FirstW(handle, ctypes.byref(entry))
    while more:
        found.append((int(entry.pid), int(entry.parent), str(entry.name)))
        more = kernel.Process32NextW(handle, ctypes.byref(entry))
    kernel.CloseHandle(handle)
    return found


def build(executable: str, distro: str) -> str:
    """The whole report as Markdown."""
    report = Report(executable, distro)
    report.point("0a", "versions", report.versions)
    report.point("0b", "the list as bytes and as read", report.raw_list)
    report.point("0c", "words through a frame", report.frame)
    report.point("1", "stub and child of wsl.exe", report.stub)
    report.point("7", "an empty standard input", report.devnull)
    report.point("11", "utilisation inside and outside", report.utilisation)
    report.point("13a", "127.0.0.1 reaches WSL", report.relay)
    if WINDOWS:
        report.point("2-6", "a task: folder, trigger, encodings, what /End leaves", report.task)
    hand = [f"- **{number}** {text}\n  Seen: " for number, text in BY_HAND]
    return "\n".join(
        [
            "# Twinrig on a real Windows",
            "",
            f"wsl.exe: {executable}, distribution: {distro}",
            "",
            "## Looked at",
            "",
            *report.lines,
            "",
            "## To be looked at by you",
            "",
            *hand,
            "",
        ]
    )


def main() -> int:
    """0 = the report was made."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--distro", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--sleeper", nargs=2, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.sleeper:  # the task's action: a supervisor that holds a wsl.exe
        exe, name = words.sleeper
        argv = [exe, "-d", name, "--cd", "/", "--exec", "/bin/sleep", "987654"]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode
    executable = find_wsl(os.environ)
    if executable is None:
        sys.stderr.write("There is no wsl.exe here.\n")
        return 3
    names = parse_names(
        decode_own(
            subprocess.run(
                [executable, "-l", "-q"],
                capture_output=True,
                env=wsl_environment(os.environ),
                check=False,
            ).stdout
        )
    )
    text = build(executable, words.distro or (names[0] if names else "Ubuntu"))
    if words.out:
        Path(words.out).write_text(text, encoding="utf-8")
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
