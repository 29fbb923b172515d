"""Arguments, system libraries, apt, the lock, the meter and the progress line."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bootstrap import apt, libraries, lock, main, packages, work
from bootstrap.arguments import panel_wanted
from bootstrap.places import Places
from bootstrap.problems import Problem
from bootstrap.progress import Silent, Terminal


@pytest.mark.parametrize(
    ("arguments", "panel"),
    [
        ([], True),
        (["panel"], True),
        (["--target", "demo"], True),
        (["--target=demo"], True),
        (["--target", "demo", "panel"], True),
        (["--target", "panel", "doctor"], False),
        (["doctor"], False),
        (["--json", "doctor"], False),
        (["--language", "ja"], True),
        (["--target", "demo", "doctor", "--json"], False),
        (["--version"], False),
        (["-h"], False),
    ],
)
def test_who_opens_the_panel(arguments: list[str], panel: bool) -> None:
    assert panel_wanted(arguments) is panel


def test_each_missing_library_names_its_debian_package() -> None:
    absent = {"libxcb-cursor.so.0", "libEGL.so.1"}
    found = libraries.missing(True, lambda soname: soname not in absent)
    assert found == ("libegl1", "libxcb-cursor0")


def test_without_a_window_only_drawing_libraries_count() -> None:
    assert set(libraries.missing(False, lambda _: False)) == set(libraries.DRAWING.values())
    assert "libxcb-cursor0" in libraries.missing(True, lambda _: False)


def test_a_library_that_does_not_exist_does_not_load() -> None:
    assert not libraries.loads("libtwinrig-no-such.so.9")
    assert libraries.loads("libc.so.6")


@pytest.fixture
def fake_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt-get that notes its arguments; ``fails`` beside it makes the installation fail."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "apt-get"
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/calls\n'
        f'case "$*" in *install*) [ -e {folder}/fails ] && {{ echo "E: Unable to locate package"; '
        "exit 100; };; esac\nexit 0\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_root_installs_after_an_update(
    fake_apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "is_root", lambda: True)
    apt.install(["libegl1"], "why", Places(str(tmp_path)), Silent(), 1)
    calls = (fake_apt / "calls").read_text().splitlines()
    assert [c.split()[3] for c in calls] == ["update", "install"]
    assert calls[1].endswith("--no-install-recommends libegl1")


def test_apt_that_fails_tells_its_reason(
    fake_apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "is_root", lambda: True)
    (fake_apt / "fails").touch()
    with pytest.raises(Problem) as caught:
        apt.install(["libegl1"], "why", Places(str(tmp_path)), Silent(), 1)
    assert "E: Unable to locate package" in caught.value.text


def test_others_are_told_the_one_command(
    fake_apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "is_root", lambda: False)
    with pytest.raises(Problem) as caught:
        apt.install(["libegl1", "libgl1"], "why", Places(str(tmp_path)), Silent(), 1)
    assert "sudo apt-get install -y libegl1 libgl1" in caught.value.next_step
    assert not (fake_apt / "calls").exists()


def test_a_machine_without_apt_is_told_the_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem) as caught:
        apt.install(["libegl1"], "why", Places(str(tmp_path)), Silent(), 1)
    assert "apt-get" not in caught.value.next_step
    assert "libegl1" in caught.value.next_step


def test_libraries_missing_after_their_installation_are_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work.environment, "ensure", lambda *_: None)
    monkeypatch.setattr(work.apt, "install", lambda *_: None)
    monkeypatch.setattr(work.libraries, "missing", lambda window: ("libegl1",))
    with pytest.raises(Problem) as caught:
        work.set_up(Places(str(tmp_path)), ("runtime",), True, Silent())
    assert "still missing after their installation: libegl1" in caught.value.text


def test_a_read_only_folder_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system", str(tmp_path / ".venv"))

    monkeypatch.setattr(work.environment.os, "makedirs", refuse)
    folder = tmp_path / "installer" / "requirements"
    folder.mkdir(parents=True)
    (folder / "linux.txt").write_text("")
    code = work.prepare_telling(Places(str(tmp_path)), ("runtime",), None, Silent())
    told = capsys.readouterr().err.splitlines()
    assert code == 1
    assert len(told) == 2
    assert str(tmp_path) in told[0] and "cannot be written" in told[0]


def test_an_interruption_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(work.environment, "ensure", interrupt)
    assert work.prepare_telling(Places(str(tmp_path)), (), None, Silent()) == 130
    assert capsys.readouterr().err == "Setting up was interrupted; the next start goes on.\n"


def test_only_one_holds_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    waited, order = threading.Event(), []

    def second() -> None:
        with lock.exclusive(path, waited.set):
            order.append("second")

    with lock.exclusive(path, lambda: None):
        thread = threading.Thread(target=second)
        thread.start()
        assert waited.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        f"import fcntl, os; f=open({str(path)!r},'a'); fcntl.flock(f, 2); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)

    def waits() -> None:
        raise AssertionError("nobody holds it")

    with lock.exclusive(str(path), waits):
        pass


def test_variables_that_redirect_pip_are_dropped_and_mirrors_kept() -> None:
    environ = {"PIP_TARGET": "/x", "PYTHONPATH": "/y", "PIP_INDEX_URL": "i", "HTTPS_PROXY": "p"}
    assert packages.clean_environment(environ) == {"PIP_INDEX_URL": "i", "HTTPS_PROXY": "p"}
    assert main.child_environment({**environ, "A": "b"})["A"] == "b"
    assert "PYTHONPATH" not in main.child_environment(environ)


def test_the_meter_never_falls_and_weighs_the_large_package(tmp_path: Path) -> None:
    pins = tmp_path / "linux.txt"
    pins.write_text("a==1 \\\n    --hash=x\nPySide6-Essentials==6 \\\nz==1\n")
    meter = packages._Meter(str(pins), Places(str(tmp_path)))
    shares = [meter.share()]
    for line in (
        "Collecting a==1 (from -r linux.txt (line 1))",
        "Collecting pyside6-essentials==6 (from -r linux.txt (line 2))",
        "  Downloading pyside6_essentials-6-cp310-abi3-manylinux_2_34_x86_64.whl (80.3 MB)",
        "Collecting z==1 (from -r linux.txt (line 3))",
        "Installing collected packages: a, pyside6-essentials, z",
    ):
        meter.line(line)
        shares.append(meter.share())
    assert shares == sorted(shares)
    assert shares[-2] - shares[-3] > 0.5
    assert shares[-1] == pytest.approx(0.7)
    library = Path(Places(str(tmp_path)).site_packages())
    for name in ("a-1.dist-info", "z-1.dist-info", "p-6.dist-info", "pip-1.dist-info"):
        (library / name).mkdir(parents=True)
    assert meter.share() == pytest.approx(1.0)


def test_the_download_names_package_and_size(tmp_path: Path) -> None:
    pins = tmp_path / "linux.txt"
    pins.write_text("a==1\n")
    meter = packages._Meter(str(pins), Places(str(tmp_path)))
    meter.line("  Downloading pyside6_essentials-6.11.3-cp310-abi3-x.whl.metadata (4.2 kB)")
    assert meter.text == "Downloading pyside6_essentials (4.2 kB)"


class Tty(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_line_that_changes() -> None:
    stream = Tty()
    progress = Terminal(stream)
    progress.show(10, "one")
    progress.show(5, "two")
    progress.close()
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.count("\r") == 2
    assert "10%" in text.split("\r")[2], "percent never falls"


def test_elsewhere_a_line_is_printed_once() -> None:
    stream = io.StringIO()
    progress = Terminal(stream)
    for _ in range(3):
        progress.show(10, "one")
    progress.show(20, "two")
    progress.close()
    assert stream.getvalue() == "[ 10%] one\n[ 20%] two\n"
