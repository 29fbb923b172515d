"""The pinned files fit pyproject.toml, and their check notices when they do not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from unit.house.source_tree import ROOT


@pytest.fixture
def pins() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pins", ROOT / ".ci" / "requirements.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_they_fit(pins: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert pins.main(["check"]) == 0, capsys.readouterr().out


def test_windows_has_no_linux_packages(pins: ModuleType) -> None:
    windows = dict(pins.PIN.findall((pins.FOLDER / "windows.txt").read_text()))
    assert "pywin32-ctypes" in windows
    assert not {"secretstorage", "jeepney", "cryptography"} & set(windows)


def test_the_runtime_is_the_same_for_users_and_developers(pins: ModuleType) -> None:
    runtime, dev = (
        dict(pins.PIN.findall((pins.FOLDER / name).read_text()))
        for name in ("linux.txt", "dev-linux.txt")
    )
    assert runtime.items() <= dev.items()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("httpx==0.28.1", "httpx==0.29.0", "httpx 0.29.0 is outside"),
        ("platformdirs==", "otherdirs==", "platformdirs is not pinned"),
        ("--hash=sha256:", "--hash=md5:", "has no hash"),
        ("# Made by", "--index-url x\n# Made by", "names an address"),
    ],
)
def test_the_check_can_fail(
    pins: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    says: str,
) -> None:
    for name in pins.FILES:
        text = (pins.FOLDER / name).read_text()
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new))
    monkeypatch.setattr(pins, "FOLDER", tmp_path)
    assert pins.main(["check"]) == 1
    assert says in capsys.readouterr().out
