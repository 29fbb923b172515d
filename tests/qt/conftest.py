"""Fixtures of the panel's tests: everything a page needs, without a real machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from qt.panel_rig import RigFolders, RigWorkbench
from twinrig.qt.bridge import Bridge
from twinrig.qt.icons import Icons
from twinrig.qt.live import LiveData
from twinrig.qt.pages.base import PageContext
from twinrig.qt.settings import PanelSettings
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme


@pytest.fixture(autouse=True)
def no_language_stays() -> Iterator[None]:
    """All tests share one QApplication: a translator that one leaves behind speaks in the next."""
    yield
    if QApplication.instance() is not None:
        assert QApplication.translate("QPlatformTheme", "Cancel") == "Cancel"


@pytest.fixture
def folders(tmp_path: Path) -> RigFolders:
    return RigFolders.below(tmp_path / "twinrig-home")


@pytest.fixture
def bridge(qapp: QApplication) -> Iterator[Bridge]:
    bridge = Bridge()
    yield bridge
    assert bridge.shutdown(), "work was left that did not end"


@pytest.fixture
def rig() -> RigWorkbench:
    return RigWorkbench()


@pytest.fixture
def reported() -> Iterator[list[BaseException]]:
    """Failures shown to the user; a test that expects one takes it out."""
    errors: list[BaseException] = []
    yield errors
    assert errors == []


@pytest.fixture
def context(
    qapp: QApplication,
    rig: RigWorkbench,
    bridge: Bridge,
    folders: RigFolders,
    reported: list[BaseException],
) -> Iterator[PageContext]:
    """A context whose live data are not started."""
    texts = Texts()
    settings = PanelSettings(folders.config / "panel.ini")
    live = LiveData(rig, bridge, 1.0)
    yield PageContext(
        workbench=rig,
        bridge=bridge,
        texts=texts,
        theme=Theme(qapp, "light"),
        icons=Icons(),
        live=live,
        settings=settings,
        navigate=lambda _page_id: None,
        report=reported.append,
        folders=folders,
        apply_language=texts.set_language,
    )
    live.stop()
