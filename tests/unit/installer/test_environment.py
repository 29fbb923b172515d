"""What is kept, what is remade, and what is never touched."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bootstrap import environment, stamp
from bootstrap.places import Places
from bootstrap.problems import Problem
from bootstrap.progress import Silent


class Recorder:
    """Progress that remembers."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, str]] = []

    def show(self, percent: float, text: str) -> None:
        self.seen.append((percent, text))

    def close(self) -> None:
        pass


@pytest.fixture
def places(tmp_path: Path) -> Places:
    root = tmp_path / "my checkout"
    folder = root / "installer" / "requirements"
    folder.mkdir(parents=True)
    (folder / "linux.txt").write_text("# nothing\n")
    (folder / "dev-linux.txt").write_text("# nothing\n")
    return Places(str(root), windows=False)


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch, places: Places) -> list[str]:
    """Making and installing, without Python's venv and pip; tells what was done."""
    done: list[str] = []

    def make(at: Places, progress: object) -> tuple[int, int]:
        done.append("make")
        Path(at.marker).write_text("")
        Path(at.scripts).mkdir(parents=True)
        Path(at.site_packages((3, 11))).mkdir(parents=True)
        Path(at.python).symlink_to(sys.executable)
        return (3, 11)

    monkeypatch.setattr(environment, "_make", make)
    monkeypatch.setattr(environment, "_has_ensurepip", lambda: True)
    monkeypatch.setattr(environment, "ask_version", lambda at: (3, 11))
    monkeypatch.setattr(
        environment.packages, "install", lambda at, name, *rest: done.append(f"pip {name}")
    )
    return done


def test_a_first_start_makes_everything_and_a_second_nothing(
    places: Places, cheap: list[str]
) -> None:
    environment.ensure(places, ("runtime",), Silent())
    assert cheap == ["make", "pip runtime"]
    environment.ensure(places, ("runtime",), Silent())
    assert cheap == ["make", "pip runtime"]


def test_tests_add_the_development_pins_to_the_same_environment(
    places: Places, cheap: list[str]
) -> None:
    environment.ensure(places, ("runtime",), Silent())
    environment.ensure(places, ("runtime", "dev"), Silent())
    assert cheap == ["make", "pip runtime", "pip dev"]
    assert stamp.matches(places, ("runtime",))


def test_new_pins_are_installed_into_the_old_environment(places: Places, cheap: list[str]) -> None:
    environment.ensure(places, ("runtime",), Silent())
    Path(places.requirements("runtime")).write_text("a==1\n")
    environment.ensure(places, ("runtime",), Silent())
    assert cheap == ["make", "pip runtime", "pip runtime"]


def test_a_half_made_environment_is_made_again(places: Places, cheap: list[str]) -> None:
    environment.ensure(places, ("runtime",), Silent())
    stamp.remove(places)  # as an interruption between pip and the end leaves it
    leftover = Path(places.site_packages((3, 11))) / "half"
    leftover.mkdir()
    environment.ensure(places, ("runtime",), Silent())
    assert cheap[2:] == ["make", "pip runtime"]
    assert not leftover.exists()


def test_an_installation_that_fails_leaves_no_stamp(
    places: Places, cheap: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.ensure(places, ("runtime",), Silent())
    Path(places.requirements("runtime")).write_text("a==1\n")

    def fail(*_: object) -> None:
        raise Problem("no network", "wait")

    monkeypatch.setattr(environment.packages, "install", fail)
    with pytest.raises(Problem):
        environment.ensure(places, ("runtime",), Silent())
    assert stamp.read(places) == {}


def test_an_environment_of_a_python_that_is_gone_is_made_again(
    places: Places, cheap: list[str]
) -> None:
    environment.ensure(places, ("runtime",), Silent())
    Path(places.python).unlink()
    Path(places.python).symlink_to("/nowhere/python3.11")
    environment.ensure(places, ("runtime",), Silent())
    assert cheap[2:] == ["make", "pip runtime"]


def test_somebody_elses_environment_is_used_and_kept(places: Places, cheap: list[str]) -> None:
    Path(places.site_packages((3, 11))).mkdir(parents=True)
    Path(places.scripts).mkdir()
    Path(places.python).symlink_to(sys.executable)
    treasure = Path(places.venv) / "treasure"
    treasure.write_text("mine")
    environment.ensure(places, ("runtime",), Silent())
    assert cheap == ["pip runtime"]
    assert treasure.read_text() == "mine"
    assert not Path(places.marker).exists()


def test_somebody_elses_broken_folder_is_named_and_not_touched(
    places: Places, cheap: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "ask_version", lambda at: None)
    treasure = Path(places.venv) / "treasure"
    treasure.parent.mkdir()
    treasure.write_text("mine")
    with pytest.raises(Problem) as caught:
        environment.ensure(places, ("runtime",), Silent())
    assert "not made by Twinrig" in caught.value.text
    assert "Rename or delete" in caught.value.next_step
    assert treasure.read_text() == "mine"
    assert cheap == []


def test_a_full_disk_is_told_before_anything_is_made(
    places: Places, cheap: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 100_000_000})
    monkeypatch.setattr(environment.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(Problem) as caught:
        environment.ensure(places, ("runtime",), Silent())
    assert "not enough free space" in caught.value.text
    assert cheap == []


def test_a_python_without_ensurepip_that_is_not_debians_is_named(
    places: Places, cheap: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_has_ensurepip", lambda: False)
    monkeypatch.setattr(environment.sys, "base_prefix", "/opt/python")
    with pytest.raises(Problem) as caught:
        environment.ensure(places, ("runtime",), Silent())
    assert "lacks ensurepip" in caught.value.text
    assert "complete Python" in caught.value.next_step


def test_debians_python_gets_its_venv_package(
    places: Places, cheap: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    answers = iter([False, True])
    monkeypatch.setattr(environment, "_has_ensurepip", lambda: next(answers))
    monkeypatch.setattr(environment.sys, "base_prefix", "/usr")
    monkeypatch.setattr(environment.apt, "install", lambda names, *rest: asked.append(names))
    environment.ensure(places, ("runtime",), Silent())
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert asked == [[f"python{version}-venv"]]
    assert cheap == ["make", "pip runtime"]


def test_progress_ends_at_a_hundred(places: Places, cheap: list[str]) -> None:
    progress = Recorder()
    environment.ensure(places, ("runtime",), progress)
    assert progress.seen[-1] == (100, "Ready")
    assert [p for p, _ in progress.seen] == sorted(p for p, _ in progress.seen)


def test_the_link_is_plain_ascii_whatever_the_folder_is_called(tmp_path: Path) -> None:
    places = Places(str(tmp_path / "私の 箱"), windows=False)
    library = Path(places.site_packages((3, 12)))
    library.mkdir(parents=True)
    Path(places.scripts).mkdir()
    environment.link(places, (3, 12))
    text = (library / "twinrig-checkout.pth").read_bytes()
    assert text == b"../../../../app\n"
    assert os.access(Path(places.scripts) / "twinrig", os.X_OK)


def test_the_windows_link_is_a_command_file(tmp_path: Path) -> None:
    places = Places(str(tmp_path), windows=True)
    Path(places.site_packages()).mkdir(parents=True)
    Path(places.scripts).mkdir()
    environment.link(places, (3, 13))
    script = (Path(places.scripts) / "twinrig.cmd").read_bytes()
    assert script == b'@"%~dp0python.exe" -m twinrig %*\r\n'


@pytest.mark.parametrize(
    ("answer", "version"),
    [("3 11", (3, 11)), ("3 13", (3, 13)), ("3 10", None), ("3 14", None), ("", None), ("x", None)],
)
def test_only_supported_pythons_that_answer_count(
    tmp_path: Path, answer: str, version: tuple[int, int] | None
) -> None:
    places = Places(str(tmp_path), windows=False)
    Path(places.scripts).mkdir(parents=True)
    Path(places.python).write_text(f"#!/bin/sh\necho {answer}\n")
    Path(places.python).chmod(0o755)
    assert environment.ask_version(places) == version


def test_no_python_at_all_has_no_version(tmp_path: Path) -> None:
    assert environment.ask_version(Places(str(tmp_path), windows=False)) is None
