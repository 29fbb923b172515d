"""Overview and settings as widgets: what they show and what their buttons do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QApplication, QComboBox, QLabel, QLineEdit, QPushButton

from qt.panel_rig import NOW_S, loading_record, profile, record, sample, snapshot
from twinrig.composition.wsl_target import wants_awake
from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.profile import Network, Profile
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Failure
from twinrig.domain.wsl import DistroState, WslDistro
from twinrig.messages import message
from twinrig.qt.pages.overview import OverviewPage
from twinrig.qt.pages.settings import SettingsPage
from twinrig.qt.settings import PanelSettings
from twinrig.qt.viewmodels.settings import licence_text
from twinrig.qt.widgets.copy_button import CopyButton
from twinrig.qt.widgets.distro_choice import DistroChoice
from twinrig.qt.widgets.gpu_card import GpuCard


@pytest.fixture
def overview(qtbot, context) -> OverviewPage:
    page = OverviewPage(context)
    qtbot.addWidget(page)
    page.show()
    return page


@pytest.fixture
def settings_page(qtbot, context) -> SettingsPage:
    page = SettingsPage(context)
    qtbot.addWidget(page)
    page.show()
    return page


def words(page) -> list[str]:
    return [label.text() for label in page.findChildren(QLabel) if label.isVisibleTo(page)]


def button(page, name: str) -> QPushButton:
    return next(b for b in page.findChildren(QPushButton) if b.accessibleName() == name)


def tell(page: OverviewPage, picture) -> None:
    page.context.live.take(picture)
    QApplication.processEvents()  # cards that were just added are shown by an event


def test_before_the_first_reading_nothing_is_claimed(overview: OverviewPage) -> None:
    assert "Waiting for the first reading" in words(overview)
    assert "Stopped" not in words(overview)
    assert not button(overview, "Copy base URL").isEnabled()


def test_a_running_server_fills_the_page(overview: OverviewPage) -> None:
    for second in range(6):
        tell(overview, snapshot(record(), taken_at_s=NOW_S + second))
    shown = words(overview)
    assert "Ready" in shown and "Both cards work together (63 % / 61 %)." in shown
    assert {"GPU 0", "GPU 1", "63 %", "61 %", "9.8 of 12.0 GiB"} <= set(shown)
    assert len(overview.findChildren(GpuCard)) == 2
    assert overview.graphs.load_graph.summary().startswith("GPU 0: now 63")
    assert "Generation: now 42.5" in overview.graphs.speed_graph.summary()


def test_loading_shows_phase_and_progress(overview: OverviewPage) -> None:
    tell(overview, snapshot(loading_record()))
    assert "Loading weights: 30 s of about 1 min 0 s" in words(overview)
    assert overview._progress.isVisibleTo(overview) and overview._progress.value() == 500
    tell(overview, snapshot(record()))
    assert not overview._progress.isVisibleTo(overview)


def test_a_failure_shows_cause_and_next_step(overview: OverviewPage) -> None:
    failure = Failure(message("Port 8000 is taken."), message("Choose another port."))
    tell(overview, snapshot(record(ServerState.FAILED, failure=failure)))
    assert {"Failed", "Port 8000 is taken.", "Choose another port."} <= set(words(overview))


def test_a_stale_card_says_so_and_leaves_a_gap(overview: OverviewPage) -> None:
    tell(overview, snapshot(record(), samples=(sample(0, 50, stale=True), sample(1, 40))))
    assert "Last known values: the card does not answer." in words(overview)
    assert overview.graphs.load_graph.summary().startswith("GPU 0: no readings. GPU 1: now 40")


def test_no_cards_is_told_with_the_next_step(overview: OverviewPage) -> None:
    picture = snapshot(
        None, loads=(), gpu_error="The driver is not loaded.", gpu_next_step="Install it."
    )
    tell(overview, picture)
    assert "The driver is not loaded. Install it." in words(overview)
    tell(overview, snapshot(None, loads=()))
    assert "No graphics card was found." in words(overview)


def test_cards_come_and_go(overview: OverviewPage, qtbot) -> None:
    tell(overview, snapshot(None, loads=()))
    assert overview._cards == []
    tell(overview, snapshot(None, loads=(1, 2)))
    assert len(overview._cards) == 2
    tell(overview, snapshot(None, loads=(1,)))
    assert len(overview._cards) == 1


def test_the_button_starts_and_stops(qtbot, overview: OverviewPage, rig, context) -> None:
    context.settings.current_profile = "qwen"
    qtbot.waitUntil(lambda: overview._actions.profiles != ())
    tell(overview, snapshot(None))
    button(overview, "Start server").click()
    qtbot.waitUntil(lambda: rig.controller.asked == [("start", "qwen")])
    tell(overview, snapshot(record(profile_id="gemma")))
    qtbot.waitUntil(button(overview, "Stop server").isEnabled)
    button(overview, "Stop server").click()
    qtbot.waitUntil(lambda: rig.controller.asked[-1] == ("stop", "gemma"))
    tell(overview, snapshot(record(ServerState.STOPPING)))
    assert not button(overview, "Stop server").isEnabled()


def test_start_means_the_first_profile_until_one_is_chosen(qtbot, overview, rig) -> None:
    rig.stored.append(profile("gemma", "Gemma"))
    overview.on_shown()
    qtbot.waitUntil(lambda: len(overview._actions.profiles) == 2)
    assert overview._actions.chosen("") == "qwen"
    assert overview._actions.chosen("gemma") == "gemma"
    assert overview._actions.chosen("deleted meanwhile") == "qwen"
    tell(overview, snapshot(None))
    button(overview, "Start server").click()
    qtbot.waitUntil(lambda: rig.controller.asked == [("start", "qwen")])


def test_a_refused_start_is_reported(qtbot, overview: OverviewPage, rig, reported) -> None:
    rig.controller.error = ConflictError(message("Another server runs."))
    overview.context.settings.current_profile = "qwen"
    qtbot.waitUntil(lambda: overview._actions.profiles != ())
    tell(overview, snapshot(None))
    button(overview, "Start server").click()
    qtbot.waitUntil(lambda: reported != [])
    assert str(reported.pop()) == "Another server runs."
    assert button(overview, "Start server").isEnabled()


def test_start_without_a_profile_says_what_to_do(qtbot, overview, rig, reported) -> None:
    qtbot.waitUntil(lambda: overview._actions.profiles != ())
    rig.stored.clear()
    overview._actions.read_profiles()
    qtbot.waitUntil(lambda: overview._actions.profiles == ())
    tell(overview, snapshot(None))
    assert not button(overview, "Start server").isEnabled()
    assert "choose a model" in button(overview, "Start server").toolTip()
    button(overview, "Start server").click()
    assert rig.controller.asked == []
    tell(overview, snapshot(record()))
    assert button(overview, "Stop server").isEnabled(), "what runs can be stopped all the same"


def test_without_a_card_the_demo_rig_is_offered(qtbot, context, rig, monkeypatch) -> None:
    wanted: list[str] = []
    rig.demo = False
    page = OverviewPage(replace(context, open_target=wanted.append))
    qtbot.addWidget(page)
    page.show()
    tell(page, snapshot(None, loads=(), demo=False))
    button(page, "Use the demo rig").click()
    assert wanted == ["demo"]
    tell(page, snapshot(None))
    assert not any(
        b.isVisibleTo(page)
        for b in page.findChildren(QPushButton)
        if b.text() == "Use the demo rig"
    )


def test_copy_buttons_copy_and_say_so(qtbot, overview: OverviewPage) -> None:
    tell(overview, snapshot(record()))
    clipboard = QGuiApplication.clipboard()
    for name, expected in (
        ("Copy base URL", "http://127.0.0.1:8000/v1"),
        ("Copy model id", "Qwen3.6-27B"),
    ):
        copy = button(overview, name)
        assert isinstance(copy, CopyButton)
        copy.click()
        assert clipboard.text() == expected
        assert copy.text() == "Copied"
        copy._timer.timeout.emit()
        assert copy.text() == name
    button(overview, "Copy curl").click()
    assert clipboard.text().startswith("curl http://127.0.0.1:8000/v1/chat/completions")
    assert "Bearer" not in clipboard.text()


def test_curl_names_the_key_when_the_profile_has_one(qtbot, overview, rig) -> None:
    kept = rig.stored[0]
    rig.stored[0] = Profile(
        kept.id, kept.name, kept.target, kept.engine, kept.model, Network(key_name="api")
    )
    tell(overview, snapshot(record()))
    qtbot.waitUntil(lambda: overview._endpoint._with_key)
    button(overview, "Copy curl").click()
    assert "Bearer $API_KEY" in QGuiApplication.clipboard().text()


def test_hidden_pages_take_data_but_do_not_render(qtbot, overview: OverviewPage) -> None:
    overview.hide()
    graph, held = overview.graphs.load_graph, overview.graphs.load_graph.summary()
    paints = graph.paints
    for second in range(20):
        tell(overview, snapshot(record(), loads=(second, 61), taken_at_s=NOW_S + second))
    assert (graph.paints, graph.summary()) == (paints, held)
    assert "Waiting for the first reading" in [w.text() for w in overview.findChildren(QLabel)]
    overview.show()
    overview.on_shown()
    assert "Ready" in words(overview)
    assert graph.summary().startswith("GPU 0: now 19")
    graph.inspect(NOW_S + 7)
    assert graph.value_text().startswith("GPU 0  7 %"), "nothing is missing in between"


# -- settings ----------------------------------------------------------------------------------


def combo(page: SettingsPage, name: str) -> QComboBox:
    return next(c for c in page.findChildren(QComboBox) if c.accessibleName() == name)


def choose(box: QComboBox, value: object) -> None:
    index = box.findData(value)
    assert index >= 0
    box.setCurrentIndex(index)
    box.activated.emit(index)


def test_settings_take_effect_and_are_kept(settings_page: SettingsPage, context) -> None:
    choose(combo(settings_page, "Theme"), "dark")
    assert context.theme.dark and context.settings.theme == "dark"
    choose(combo(settings_page, "Read the cards every"), 2.0)
    assert context.settings.interval_s == 2.0
    choose(combo(settings_page, "Language"), "ja")
    assert context.settings.language == "ja" and context.texts.language == "ja"
    context.theme.apply("light")
    assert context.settings.sync()
    stored = context.settings.path.read_text()
    assert "dark" in stored and "ja" in stored


class Distros:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def list(self) -> tuple[WslDistro, ...]:
        if self.error is not None:
            raise self.error
        return (
            WslDistro("Ubuntu", DistroState.STOPPED, 2, True),
            WslDistro("docker-desktop", DistroState.RUNNING),
            WslDistro("Old", DistroState.STOPPED, 1),
            WslDistro("Debian", DistroState.STOPPED),
        )


def settings_with(qtbot, context, distros: Distros) -> QComboBox:
    context.workbench.distros = distros
    page = SettingsPage(context)
    qtbot.addWidget(page)
    page.show()
    page.on_shown()
    return combo(page, "Distribution of WSL")


def test_the_distribution_is_chosen_among_those_that_can_be_used(qtbot, context) -> None:
    box = settings_with(qtbot, context, Distros())
    qtbot.waitUntil(lambda: box.count() == 3)
    assert [box.itemText(i) for i in range(3)] == ["WSL's default", "Debian", "Ubuntu"]
    choose(box, "Debian")
    assert context.settings.distro == "Debian"
    choose(box, "")
    assert context.settings.distro == ""


def test_a_distribution_that_is_gone_or_wsl_that_is_silent_changes_no_choice(
    qtbot, context
) -> None:
    context.settings.distro = "Gone"
    box = settings_with(qtbot, context, Distros(HostError(message("WSL does not answer."))))
    qtbot.wait(50)
    assert box.currentData() == "Gone"
    box = settings_with(qtbot, context, Distros())
    qtbot.waitUntil(lambda: box.count() == 4)
    assert box.currentData() == "Gone"


def test_windows_is_kept_awake_only_when_ticked(qtbot, context) -> None:
    choice = settings_with(qtbot, context, Distros()).parent()
    assert isinstance(choice, DistroChoice)
    assert not choice.awake.isChecked()
    choice.awake.click()
    assert context.settings.sync()
    assert wants_awake(context.settings.path.parent, {}), "a supervisor reads the same file"
    assert DistroChoice(context, choice).awake.isChecked()
    choice.awake.click()
    assert context.settings.sync()
    assert not wants_awake(context.settings.path.parent, {})


def test_elsewhere_there_is_no_distribution_to_choose(settings_page: SettingsPage) -> None:
    names = {box.accessibleName() for box in settings_page.findChildren(QComboBox)}
    assert "Distribution of WSL" not in names


def test_damaged_settings_read_as_defaults(context) -> None:
    settings = context.settings
    settings._store.setValue("interval_s", "often")
    settings._store.setValue("theme", "purple")
    settings._store.setValue("language", 7)
    assert (settings.interval_s, settings.theme, settings.language) == (1.0, "system", "")
    settings._store.setValue("interval_s", "0.001")
    assert settings.interval_s == 1.0, "not a choice that is offered"


@pytest.mark.parametrize(
    "damage",
    [b"\x00\xff\xfe binary \x80" * 50, b"[General\nlanguage=ja\n", b"language", b"x" * 3_000_000],
)
def test_a_damaged_file_is_moved_aside_and_told(qtbot, context, damage) -> None:
    path = context.settings.path.with_name("other.ini")
    path.write_bytes(damage)
    settings = PanelSettings(path)
    aside = path.with_name("other.ini.damaged")
    assert settings.moved_aside == aside
    assert aside.read_bytes() == damage
    settings.language = "ja"
    assert settings.sync()
    again = PanelSettings(path)
    assert (again.language, again.moved_aside) == ("ja", None)
    context.settings.moved_aside = aside
    page = SettingsPage(context)
    qtbot.addWidget(page)
    assert any(str(aside) in text for text in words(page))


@pytest.mark.parametrize("fine", [b"", b"[General]\nlanguage=ja\n", b"; a note\n"])
def test_a_file_that_can_be_read_stays(context, fine) -> None:
    path = context.settings.path.with_name("other.ini")
    path.write_bytes(fine)
    assert PanelSettings(path).moved_aside is None
    assert path.read_bytes() == fine


def test_folders_are_shown_and_opened(settings_page, context, monkeypatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(
        QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()) or True
    )
    fields = [field.text() for field in settings_page.findChildren(QLineEdit)]
    for path in (context.folders.config, context.folders.state, context.folders.log):
        assert str(path) in fields
    button(settings_page, "Open folder: Log files of Twinrig").click()
    assert opened == [str(context.folders.log)]
    assert context.folders.log.is_dir(), "made when it did not exist yet"


def test_about_has_version_and_licences(settings_page) -> None:
    assert any(text.startswith("Twinrig 0.") for text in words(settings_page))
    text = licence_text()
    assert "MIT License" in text and "PySide6" in text
