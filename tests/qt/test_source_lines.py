"""What PySide reads of each module is not kept: it was 16 MiB of the panel's memory."""

from __future__ import annotations

import importlib
import linecache
import sys
from pathlib import Path

import pytest

from twinrig.qt.source_lines import keep_no_source_lines


@pytest.fixture
def finders(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    return sys.meta_path


def load(folder: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]) -> list[str]:
    """Load modules of these names; returns the ones whose lines are kept."""
    monkeypatch.syspath_prepend(folder)
    for name in names:
        (folder / f"{name}.py").write_text(f"WORD = '{name}'\n")
    importlib.invalidate_caches()
    for name in names:
        # As a statement would: this is the way that PySide watches.
        assert name == __import__(name).WORD
        monkeypatch.delitem(sys.modules, name)
    return [name for name in names if str(folder / f"{name}.py") in linecache.cache]


def test_no_more_than_the_last_module_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finders: list[object]
) -> None:
    finders[:] = [f for f in finders if type(f).__name__ != "_Forget"]
    names = [f"without_{number}" for number in range(5)]
    assert load(tmp_path, monkeypatch, names) == names, "PySide reads no more: drop the module"
    keep_no_source_lines()
    names = [f"with_{number}" for number in range(5)]
    assert load(tmp_path, monkeypatch, names) in ([], names[-1:])


def test_once_is_enough(finders: list[object]) -> None:
    keep_no_source_lines()
    before = list(finders)
    keep_no_source_lines()
    assert finders == before


def test_a_trace_still_shows_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finders: list[object]
) -> None:
    keep_no_source_lines()
    path = tmp_path / "read_again.py"
    path.write_text("FIRST = 1\nSECOND = 2\n")
    load(tmp_path, monkeypatch, ["any_other"])
    assert linecache.getline(str(path), 2) == "SECOND = 2\n"
