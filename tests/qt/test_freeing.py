"""Free the cards and load again: on the Overview, in the tray, with what came back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QWidget

from qt.panel_rig import GIB, NOW_S, record, sample, snapshot
from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import ServerState
from twinrig.messages import Translator, message
from twinrig.qt.pages.overview import OverviewPage
from twinrig.qt.tray_model import MenuEntry, TrayIcon, menu, tooltip, tray_icon
from twinrig.qt.viewmodels.overview import state_view

S = ServerState
TR = Translator("en").text


def entry(state: ServerState, **changes) -> MenuEntry:
    entries = menu(snapshot(record(state, **changes)), (), "", False)
    return next(e for e in entries if e.action in ("free", "load"))


def shot(state: ServerState, gib: float, at_s: float = NOW_S, **changes) -> Snapshot:
    made = snapshot(record(state, updated_at_s=at_s, **changes), tps=None, taken_at_s=at_s)
    samples = tuple(sample(i, 1, at_s, memory_used_bytes=round(gib * GIB)) for i in range(2))
    return replace(made, samples=samples)


@pytest.fixture
def page(qtbot, context) -> OverviewPage:
    page = OverviewPage(context)
    qtbot.addWidget(page)
    page.show()
    return page


def test_the_menu_says_what_freeing_would_do() -> None:
    assert TR(entry(S.READY, can_sleep=True).text) == "Free the cards"
    assert TR(entry(S.READY).text) == "Free the cards (stops the server)"
    assert entry(S.READY).enabled and entry(S.DEGRADED).enabled
    assert not entry(S.LOADING).enabled and not entry(S.STOPPED).enabled
    asleep = entry(S.SLEEPING, can_sleep=True)
    assert (asleep.action, TR(asleep.text), asleep.enabled) == ("load", "Load again", True)


def test_the_tray_of_a_sleeping_server() -> None:
    asleep = snapshot(record(S.SLEEPING), tps=None)
    assert tray_icon(asleep) is TrayIcon.STOPPED
    assert "20.1 GiB given back" in tooltip(asleep, TR, round(20.1 * GIB))
    assert "given back" not in tooltip(asleep, TR)


def test_the_button_frees_and_loads(qtbot, page: OverviewPage, context, rig) -> None:
    context.live.take(shot(S.READY, 10.0, can_sleep=True))
    assert page._free.isVisible() and page._free.text() == "Free the cards"
    page._free.click()
    qtbot.waitUntil(lambda: rig.controller.asked == [("free", "qwen")])
    context.live.take(shot(S.SLEEPING, 0.5, NOW_S + 1, can_sleep=True))
    assert page._detail.text() == "Given back: 19.0 GiB of video memory."
    assert page._free.text() == "Load again" and page._free.accessibleName() == "Load again"
    qtbot.waitUntil(page._free.isEnabled)
    page._free.click()
    qtbot.waitUntil(lambda: rig.controller.asked[1:] == [("start", "qwen")])
    context.live.take(shot(S.LOADING, 3.0, NOW_S + 2, can_sleep=True))
    assert not page._free.isVisible()


def test_why_it_did_not_sleep_is_said(page: OverviewPage, context) -> None:
    fault = message("The server refused to free the cards (status {status}).", status=404)
    context.live.take(shot(S.READY, 10.0, sleep_fault=fault, can_sleep=True))
    assert page._detail.text() == "The server refused to free the cards (status 404)."


def test_a_server_back_after_a_reboot_says_so(page: OverviewPage, context) -> None:
    back = shot(S.READY, 10.0, back_after_reboot=True)
    context.live.take(back)
    assert page._detail.text().startswith("Back by itself after the computer's restart.")
    assert "Back after the computer's restart" in tooltip(back, TR)
    assert "Back" not in tooltip(shot(S.READY, 10.0), TR)
    assert "Back" not in str(state_view(record(), NOW_S).detail)


def test_what_the_button_does_is_in_its_tip(page: OverviewPage, context) -> None:
    context.live.take(shot(S.READY, 10.0))
    assert "Stops the server" in page._free.toolTip()
    context.live.take(shot(S.READY, 10.0, NOW_S + 1, can_sleep=True))
    assert "Stops the server" not in page._free.toolTip()
    assert isinstance(page._free, QWidget)
