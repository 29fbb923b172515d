"""The tray as data: icon, tool tip and menu of each state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject
from PySide6.QtWidgets import QMenu

from qt.panel_rig import NOW_S, loading_record, record, sample, snapshot
from twinrig import assets
from twinrig.domain.metrics import Throughput
from twinrig.domain.server import ServerState
from twinrig.messages import Translator, message
from twinrig.qt.icons import Icons
from twinrig.qt.text import Texts
from twinrig.qt.tray import Tray, tray_picture
from twinrig.qt.tray_model import (
    TOOLTIP_LIMIT,
    MenuEntry,
    ProfileChoice,
    TrayIcon,
    menu,
    tooltip,
    tray_icon,
    tray_model,
)
from twinrig.services.verdict_words import Verdict

TR = Translator("en").text
TWO = [ProfileChoice("qwen", "Qwen 27B"), ProfileChoice("gemma", "Gemma & co")]


def entry(entries: tuple[MenuEntry, ...], action: str) -> MenuEntry:
    return next(each for each in entries if each.action == action)


@pytest.mark.parametrize(
    ("state", "icon"),
    [
        (ServerState.STOPPED, TrayIcon.STOPPED),
        (ServerState.STARTING, TrayIcon.LOADING),
        (ServerState.LOADING, TrayIcon.LOADING),
        (ServerState.READY, TrayIcon.READY),
        (ServerState.DEGRADED, TrayIcon.WARNING),
        (ServerState.BACKOFF, TrayIcon.WARNING),
        (ServerState.SLEEPING, TrayIcon.STOPPED),
        (ServerState.STOPPING, TrayIcon.LOADING),
        (ServerState.FAILED, TrayIcon.FAILED),
    ],
)
def test_icon_of_each_state(state: ServerState, icon: TrayIcon) -> None:
    assert tray_icon(snapshot(record(state))) is icon


def test_every_state_has_an_icon_and_every_icon_a_picture() -> None:
    pictures = {assets.read_bytes(f"icons/tray-{icon}.svg") for icon in TrayIcon}
    assert len(pictures) == len(TrayIcon)
    for state in ServerState:
        assert tray_icon(snapshot(record(state))) in TrayIcon


def test_no_server_and_no_reading_is_stopped() -> None:
    assert tray_icon(None) is TrayIcon.STOPPED
    assert tray_icon(snapshot(None)) is TrayIcon.STOPPED


def test_a_silent_supervisor_is_a_warning_not_ready() -> None:
    assert tray_icon(snapshot(record(updated_at_s=NOW_S - 31))) is TrayIcon.WARNING
    assert tray_icon(snapshot(record(updated_at_s=NOW_S - 29))) is TrayIcon.READY


def test_tooltip_has_state_model_speed_and_both_loads() -> None:
    lines = tooltip(snapshot(record()), TR).split("\n")
    assert lines == [
        "Twinrig: Ready (Demo rig)",
        "Qwen3.6-27B",
        "42.5 T/s",
        "GPU 0 63 %  GPU 1 61 %",
    ]


def test_tooltip_never_shows_unknown_as_zero() -> None:
    picture = snapshot(record(), loads=(None, 61), tps=None, running=None)
    text = tooltip(picture, TR)
    assert "T/s" not in text
    assert "GPU 0 —  GPU 1 61 %" in text
    stale = replace(picture, samples=(sample(0, 99, stale=True), sample(1, 61)))
    assert "GPU 0 —" in tooltip(stale, TR)


def test_a_real_zero_is_shown() -> None:
    assert "0 T/s" in tooltip(snapshot(record(), loads=(0, 0), tps=0.0), TR)
    assert "GPU 0 0 %" in tooltip(snapshot(record(), loads=(0, 0), tps=0.0), TR)


def test_tooltip_stays_within_the_limit_and_keeps_the_loads() -> None:
    picture = snapshot(record(model_id="a-very-long-model-name/" * 12))
    text = tooltip(picture, TR)
    assert len(text) <= TOOLTIP_LIMIT
    assert "GPU 1 61 %" in text and "…" in text
    eight = snapshot(record(model_id="m" * 300), loads=(100,) * 16)
    assert len(tooltip(eight, TR)) <= TOOLTIP_LIMIT


def test_real_data_are_not_called_demo() -> None:
    assert "Demo" not in tooltip(snapshot(record(), demo=False), TR)


def test_menu_of_a_stopped_server_offers_the_current_profile() -> None:
    entries = menu(None, TWO, "gemma", False)
    start = entry(entries, "start")
    assert start.enabled and start.argument == "gemma"
    assert TR(start.text) == "Start Gemma & co"
    assert not entry(entries, "copy-url").enabled
    choices = next(each for each in entries if each.children).children
    assert [(c.argument, c.checked, c.enabled) for c in choices] == [
        ("qwen", False, True),
        ("gemma", True, True),
    ]


def test_menu_without_profiles_cannot_start() -> None:
    entries = menu(snapshot(None), [], "", False)
    assert not entry(entries, "start").enabled


def test_menu_of_a_running_server_stops_it_and_offers_the_other_profiles() -> None:
    entries = menu(snapshot(record()), TWO, "qwen", True)
    assert entry(entries, "stop").enabled
    assert all(each.action != "start" for each in entries)
    assert entry(entries, "copy-url").enabled
    assert entry(entries, "meter").checked is True
    choices = next(each for each in entries if each.children).children
    shown = {c.argument: (c.action, c.enabled, c.checked, str(c.text)) for c in choices}
    assert shown["qwen"] == ("profile", False, True, "Qwen 27B")
    other = next(name for name in shown if name != "qwen")
    assert shown[other][:3] == ("switch", True, False)
    assert shown[other][3].startswith("Switch to ")


def test_a_stopping_server_cannot_be_stopped_again() -> None:
    assert not entry(
        menu(snapshot(record(ServerState.STOPPING)), TWO, "qwen", False), "stop"
    ).enabled


def test_open_and_quit_are_always_there() -> None:
    for picture in (None, snapshot(None), snapshot(loading_record()), snapshot(record())):
        entries = menu(picture, TWO, "qwen", False)
        assert entry(entries, "open").enabled and entry(entries, "quit").enabled


def test_equal_pictures_give_equal_models() -> None:
    one = tray_model(snapshot(record()), TWO, "qwen", False, TR)
    assert one == tray_model(snapshot(record()), TWO, "qwen", False, TR)
    faster = replace(snapshot(record()), throughput=Throughput(99.0, 0.0, 1, 0, 0.1))
    assert one != tray_model(faster, TWO, "qwen", False, TR)


def test_the_menu_is_made_only_when_something_in_it_changes() -> None:
    first = menu(snapshot(record()), TWO, "qwen", False)
    for second in range(1, 9):  # loads, speed and time of a reading are not in it
        later = record(updated_at_s=NOW_S + second)
        reading = snapshot(later, (second, 99), float(second), taken_at_s=NOW_S + second)
        assert menu(reading, TWO, "qwen", False) is first
    changed = (
        menu(snapshot(record()), TWO, "qwen", True),
        menu(snapshot(record()), TWO[:1], "qwen", False),
        menu(snapshot(record(profile_id="gemma")), TWO, "qwen", False),
        menu(snapshot(record(can_sleep=True)), TWO, "qwen", False),
        menu(snapshot(record(base_url="")), TWO, "qwen", False),
        menu(snapshot(record(ServerState.SLEEPING)), TWO, "qwen", False),
        menu(snapshot(None), TWO, "qwen", False),
    )
    assert all(other != first for other in changed)
    assert menu(snapshot(None), TWO, "gemma", False) != menu(snapshot(None), TWO, "qwen", False)


def test_a_menu_that_opens_often_leaves_no_old_entries_behind(qapp) -> None:
    tray = Tray(Texts(), Icons())
    tray.show_model(tray_model(snapshot(record()), TWO, "qwen", False, TR))

    def opened(times: int) -> int:
        for _ in range(times):
            tray.menu.aboutToShow.emit()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        return len(tray.menu.findChildren(QObject))

    assert opened(1) == opened(20)
    (profiles,) = tray.menu.findChildren(QMenu)
    assert profiles.actions()[0].text() == "Qwen 27B"


# -- the small bars and the verdict ------------------------------------------------------------


def model_of(picture, judged=None):
    return tray_model(picture, [], "", False, Translator("en").text, judged)


@pytest.mark.parametrize(
    ("loads", "bars"),
    [((0, 0), (0, 0)), ((9, 11), (0, 1)), ((63, 100), (3, 5)), ((None, 50), (None, 2))],
)
def test_loads_are_told_in_few_steps_and_unknown_is_not_zero(loads, bars) -> None:
    assert model_of(snapshot(record(), loads)).bars == bars


def test_small_changes_need_no_new_icon() -> None:
    icons = {
        (model_of(s).icon, model_of(s).bars)
        for s in (snapshot(record(), (n, 72 + n % 3)) for n in range(61, 69))
    }
    assert len(icons) == 1


def test_there_are_no_bars_without_an_answering_server() -> None:
    assert model_of(None).bars == () and model_of(snapshot(None)).bars == ()
    assert model_of(snapshot(record(ServerState.LOADING))).bars == ()


def test_a_failing_verdict_is_a_warning_in_the_tray() -> None:
    stuck = Verdict("stuck", message("Stuck."), "fail")
    assert model_of(snapshot(record()), stuck).icon is TrayIcon.WARNING
    layer = Verdict("layer-split", message("One card at a time."), "warn")
    assert model_of(snapshot(record()), layer).icon is TrayIcon.READY
    assert model_of(snapshot(record(ServerState.FAILED)), stuck).icon is TrayIcon.FAILED


def test_pictures_differ_by_state_and_by_load(qapp) -> None:
    icons = Icons()

    def pixels(name: str, bars: tuple) -> bytes:
        return bytes(tray_picture(icons, name, bars).pixmap(16, 16).toImage().constBits())

    seen = {
        pixels(name, bars)
        for name in ("ready", "warning")
        for bars in ((), (0, 0), (5, 0), (0, 5), (None, 0))
    }
    assert len(seen) == 10
