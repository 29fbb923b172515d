"""Every test gets a home of its own; nothing of the developer's machine leaks in."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def twinrig_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``TWINRIG_HOME`` for this test: config, state, cache and logs go below it."""
    home = tmp_path / "twinrig-home"
    monkeypatch.setenv("TWINRIG_HOME", str(home))
    monkeypatch.delenv("TWINRIG_RUN_ID", raising=False)
    return home
