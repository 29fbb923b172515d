"""One panel: the second start shows the first one, and a killed one is no obstacle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from twinrig.qt import single_instance
from twinrig.qt.single_instance import Role, SingleInstance, instance_name

HOLDER = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from twinrig.qt.single_instance import SingleInstance
app = QCoreApplication([])
instance = SingleInstance(Path(sys.argv[1]))
instance.show_requested.connect(lambda: print("show", flush=True))
print(instance.elect().value, flush=True)
app.exec()
"""


@pytest.fixture
def holder(tmp_path: Path):
    """A panel in another process; ended by its own id."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "first"
    yield process
    process.kill()
    process.wait(10)
    process.stdout.close()


def test_the_second_start_shows_the_first(qapp, tmp_path: Path, holder) -> None:
    assert SingleInstance(tmp_path).elect() is Role.SECOND
    assert holder.stdout.readline().strip() == "show"


def test_recovers_after_kill_9(qapp, tmp_path: Path, holder) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait(10)
    instance = SingleInstance(tmp_path)
    assert instance.elect() is Role.FIRST
    instance.close()


def test_another_configuration_is_another_panel(qapp, tmp_path: Path, holder) -> None:
    other = SingleInstance(tmp_path / "other")
    assert other.elect() is Role.FIRST
    other.close()


def test_after_a_close_the_next_is_first(qapp, tmp_path: Path) -> None:
    first = SingleInstance(tmp_path)
    assert first.elect() is Role.FIRST
    first.close()
    second = SingleInstance(tmp_path)
    assert second.elect() is Role.FIRST
    second.close()


def test_a_hung_panel_is_named_as_such(qapp, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(single_instance, "TIMEOUT_MS", 100)
    mute = QLocalServer()
    assert mute.listen(instance_name(tmp_path))
    assert SingleInstance(tmp_path).elect() is Role.UNANSWERED
    mute.close()


def test_a_newer_start_may_ask_too_and_nonsense_may_not(qtbot, tmp_path: Path) -> None:
    instance = SingleInstance(tmp_path)
    assert instance.elect() is Role.FIRST
    shown: list[bool] = []
    instance.show_requested.connect(lambda: shown.append(True))
    for line in (b"GET / HTTP/1.1\n", b"x" * 5000 + b"\n", b"\xff\xfe\n"):
        with_line = QLocalSocket()
        with_line.connectToServer(instance.name)
        with_line.write(line)
        with qtbot.waitSignal(with_line.disconnected):
            with_line.flush()
    assert shown == []
    newer = QLocalSocket()
    newer.connectToServer(instance.name)
    newer.write(b"twinrig-panel/7 show\n")
    with qtbot.waitSignal(instance.show_requested):
        newer.flush()
    instance.close()


def test_names_differ_by_folder_and_fit_a_socket_path(tmp_path: Path) -> None:
    assert instance_name(tmp_path / "a") != instance_name(tmp_path / "b")
    assert len(instance_name(tmp_path)) < 40


def test_of_four_starts_at_once_one_is_first(tmp_path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    try:
        roles = [process.stdout.readline().strip() for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait(10)
            process.stdout.close()
    assert sorted(roles) == ["first", "second", "second", "second"]
