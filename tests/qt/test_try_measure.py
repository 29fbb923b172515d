"""Measure and compare: asking first, progress, results, advice followed and taken back."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QLabel, QPlainTextEdit

from fixtures.bench_results import Measured as Load
from fixtures.bench_results import result
from qt.pages_rig import (
    PageWorkbench,
    ScriptedDialogs,
    make_profile,
    named,
    page_context,
    state_record,
    unnamed,
    visible_texts,
)
from qt.panel_rig import snapshot
from twinrig.domain.errors import ConflictError
from twinrig.messages import message
from twinrig.qt.bridge import Bridge
from twinrig.qt.pages.try_page import TryPage
from twinrig.qt.viewmodels import bench as model
from twinrig.qt.viewmodels.bench import Measured, difference_lines, table_rows
from twinrig.qt.widgets.bench_pane import BenchPane
from twinrig.qt.widgets.clients_pane import ClientsPane
from twinrig.services.bench_results import flat_settings
from twinrig.services.bench_server import Touch
from twinrig.services.benchmark import Progress


class FakeBenchmark:
    """In the place of the service: asks, reports and ends as a test says."""

    touch_told = Touch((), False)
    results: tuple = ()
    error: Exception | None = None
    ran: list[tuple[str, ...]]

    def __init__(self, _workbench: object) -> None: ...

    async def touch(self, profiles, plan) -> Touch:
        return type(self).touch_told

    async def run(self, profiles, plan, *, agreed: bool, on_progress) -> tuple:
        type(self).ran.append(tuple(p.id for p in profiles))
        on_progress(Progress(message("Working"), 0.5))
        if type(self).error is not None:
            raise type(self).error
        return type(self).results


class Rig:
    def __init__(self, qtbot, qapp, bridge: Bridge, root: Path) -> None:
        self.workbench = PageWorkbench(root)
        self.ids = [make_profile(self.workbench, name) for name in ("Layers", "Together")]
        layers, together = (self.workbench.profiles.load(i) for i in self.ids)
        split = {"tensor_parallel_size": 1, "pipeline_parallel_size": 2}
        changed = replace(layers, settings={**layers.settings, **split})
        self.workbench.profiles.save(changed, replaces=layers)
        self.results = tuple(
            replace(
                result(p.name, flat_settings(p), loads, engine="demo", model=p.model.path),
                profile_id=p.id,
            )
            for p, loads in (
                (changed, {1: (13, 14, 15), 8: (60, 62, 64)}),
                (together, {1: (24, 25, 26), 8: Load((118, 120, 123), loops=0)}),
            )
        )
        self.dialogs = ScriptedDialogs()
        self.navigated: list[str] = []
        self.context = page_context(qapp, bridge, self.workbench, self.navigated)
        self.pane = BenchPane(self.context, self.dialogs)
        self.pane.resize(900, 700)
        qtbot.addWidget(self.pane)
        self.pane.show()
        self.bot = qtbot
        self.pane.refresh()
        self.until(lambda: self.pane._first.count() == 2)

    def until(self, question) -> None:
        self.bot.waitUntil(question, timeout=15_000)

    def settled(self) -> None:
        self.until(lambda: not self.pane.running and not self.context.bridge._handles)

    def compare(self) -> None:
        self.pane._first.setCurrentIndex(self.pane._first.findData(self.ids[0]))
        self.pane._second.setCurrentIndex(self.pane._second.findData(self.ids[1]))
        named(self.pane, QAbstractButton, "Measure").click()
        self.settled()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeBenchmark]:
    fresh = type("Fresh", (FakeBenchmark,), {"ran": []})
    monkeypatch.setattr(model, "Benchmark", fresh)
    return fresh


@pytest.fixture
def rig(
    qtbot, qapp: QApplication, bridge: Bridge, tmp_path: Path, fake: type[FakeBenchmark]
) -> Rig:
    made = Rig(qtbot, qapp, bridge, tmp_path)
    fake.results = made.results
    return made


def test_a_comparison_ends_in_rows_advice_and_a_kept_result(rig: Rig, fake) -> None:
    rig.compare()
    assert fake.ran == [tuple(rig.ids)]
    table = rig.pane._table.model()
    cells = [[table.index(y, x).data() for x in range(3)] for y in range(table.rowCount())]
    assert cells == [
        ["one stream, short prompt, sampled", "Layers", "14 ± 1.6"],
        ["", "Together", "25 ± 1.6"],
        ["8 at once, short prompt, sampled", "Layers", "62 ± 3.2"],
        ["", "Together", "120 ± 4.8"],
    ]
    text = visible_texts(rig.pane)
    assert "Tensor parallel makes 1.8 times the speed for one stream" in text
    assert "Just you" in text and "Several users" in text
    assert "settings.pipeline_parallel_size: 2 → -" in text
    assert [r.profile_id for r in rig.workbench.benchmark_store().all()] == rig.ids
    assert unnamed(rig.pane) == []


def test_advice_is_followed_by_one_click_and_taken_back_by_one(rig: Rig) -> None:
    rig.compare()
    before = rig.workbench.profiles.load(rig.ids[0])
    use = [
        b
        for b in rig.pane.findChildren(QAbstractButton)
        if b.accessibleName() == "Use these settings in Layers" and b.isVisibleTo(rig.pane)
    ]
    assert len(use) == 2
    use[0].click()
    rig.settled()
    changed = rig.workbench.profiles.load(rig.ids[0])
    assert changed.settings["tensor_parallel_size"] == 2
    assert "pipeline_parallel_size" not in changed.settings
    assert "Layers has these settings now." in visible_texts(rig.pane)
    (entry,) = rig.workbench.journal.entries()
    assert entry.fix_id == "benchmark-choice" and entry.undone_at_s is None
    named(rig.pane, QAbstractButton, "Undo").click()
    rig.settled()
    assert rig.workbench.profiles.load(rig.ids[0]) == before
    assert "as it was before" in visible_texts(rig.pane)


def test_a_profile_changed_meanwhile_is_not_touched(rig: Rig) -> None:
    rig.compare()
    profile = rig.workbench.profiles.load(rig.ids[0])
    other = replace(profile, settings={**profile.settings, "max_num_seqs": 2})
    rig.workbench.profiles.save(other, replaces=profile)
    rig.pane._show(Measured(rig.results, None, None))
    rig.settled()
    assert "changed after it was measured" in visible_texts(rig.pane)
    names = [b.accessibleName() for b in rig.pane.findChildren(QAbstractButton) if b.isVisible()]
    assert not [name for name in names if name.startswith("Use these settings")]


def test_a_server_in_use_is_asked_about(rig: Rig, fake) -> None:
    fake.touch_told = Touch((message("The server of x is answering 2 requests now."),), True)
    rig.dialogs.answers = [1, 0]
    rig.compare()
    assert fake.ran == [] and "answering 2 requests" in rig.dialogs.asked[0][2]
    rig.compare()
    assert fake.ran == [tuple(rig.ids)]


def test_one_profile_stands_beside_its_last_measurement(rig: Rig, fake) -> None:
    old = replace(rig.results[1], id="old", group="old", taken_at_s=5.0, settings={"settings.a": 1})
    rig.workbench.benchmark_store().add([old])
    fake.results = rig.results[1:]
    rig.pane._first.setCurrentIndex(rig.pane._first.findData(rig.ids[1]))
    named(rig.pane, QAbstractButton, "Measure").click()
    rig.settled()
    table = rig.pane._table.model()
    names = [table.index(y, 1).data() for y in range(table.rowCount())]
    assert names[0] == "Together" and names[1].startswith("Together (1970-01-01")
    assert "settings.a: 1 → -" in visible_texts(rig.pane)
    assert "Just you" not in visible_texts(rig.pane)


def test_a_failure_is_told_in_place_and_one_can_try_again(rig: Rig, fake) -> None:
    fake.error = ConflictError(message("It did not get ready."), message("Use less context."))
    rig.compare()
    assert "It did not get ready." in visible_texts(rig.pane)
    assert named(rig.pane, QAbstractButton, "Measure").isEnabled()
    fake.error = None
    rig.compare()
    assert "It did not get ready." not in visible_texts(rig.pane)


def test_before_the_first_measurement_the_controls_stand_at_the_top(rig: Rig) -> None:
    assert "Nothing was measured here yet." in visible_texts(rig.pane)
    assert rig.pane._intro.geometry().bottom() < rig.pane.height() // 4
    assert rig.pane._go.geometry().bottom() < rig.pane.height() // 3
    rig.pane._show(Measured(rig.results, None, None))
    assert "Nothing was measured" not in visible_texts(rig.pane)
    assert rig.pane._table.isVisible()


def test_cancelling_keeps_nothing(rig: Rig, fake, monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(self, profiles, plan, *, agreed: bool, on_progress) -> tuple:
        import asyncio

        on_progress(Progress(message("Working"), 0.5))
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.shield(asyncio.sleep(0.4))  # the server is put back
        return ()

    monkeypatch.setattr(fake, "run", endless)
    named(rig.pane, QAbstractButton, "Measure").click()
    rig.until(lambda: "Working" in visible_texts(rig.pane))
    assert not rig.pane._first.isEnabled()
    named(rig.pane, QAbstractButton, "Cancel the measurement").click()
    assert rig.pane.running and "Putting back" in visible_texts(rig.pane)
    rig.pane.measure()
    rig.until(lambda: rig.pane._task is None)
    assert "Nothing was kept" in visible_texts(rig.pane)
    assert rig.workbench.benchmark_store().all() == ()


def test_the_last_results_are_shown_at_first_and_can_be_saved(rig: Rig, tmp_path: Path) -> None:
    rig.workbench.benchmark_store().add(rig.results)
    rig.pane.refresh()
    rig.settled()
    assert rig.pane._table.model().rowCount() == 4
    target = tmp_path / "out.csv"
    rig.dialogs.answers = [target, tmp_path / "out.json", None, tmp_path / "no" / "\0"]
    for name in ("Save as CSV…", "Save as JSON…", "Save as CSV…"):
        named(rig.pane, QAbstractButton, name).click()
    assert len(list(csv.DictReader(target.read_text().splitlines()))) == 4
    assert len(json.loads((tmp_path / "out.json").read_text())) == 2


def test_the_choice_of_one_profile_follows_the_language(rig: Rig) -> None:
    assert rig.pane._second.itemText(0) == "Nothing: measure one profile"
    rig.context.texts.set_language("ja")
    assert rig.pane._second.itemText(0) == "なし: 1 つだけ測る"
    assert rig.pane._second.itemText(1) == "Layers"
    rig.context.texts.set_language("en")
    assert rig.pane._second.itemText(0) == "Nothing: measure one profile"


def test_rows_of_results_with_gaps() -> None:
    one = result("One", {}, {1: (10,), 4: Load((), failures=3, fault="gone")})
    other = result("Other", {}, {1: (20,)}, at_s=2.0)
    rows = table_rows(Measured((one, other), None, None))
    assert [(row.cells[1], row.share) for row in rows] == [
        ("One", 0.5),
        ("Other", 1.0),
        ("One", None),
    ]
    assert str(rows[2].cells[-1]) == "failed: 3" and rows[2].cells[2] == "-"
    assert difference_lines(Measured((one,), None, None)) == ()


# -- connecting clients ------------------------------------------------------------------------


@pytest.fixture
def clients(qtbot, rig: Rig) -> ClientsPane:
    pane = ClientsPane(rig.context)
    qtbot.addWidget(pane)
    pane.show()
    return pane


def test_snippets_have_the_real_address_and_model(rig: Rig, clients: ClientsPane) -> None:
    assert "appears when a server is started" in visible_texts(clients)
    record = state_record(rig.ids[0], base_url="http://127.0.0.1:8123", model_id="Qwen3-8B")
    rig.context.live.snapshot.emit(snapshot(record))
    combo = named(clients, QComboBox, "Client program")
    text = named(clients, QPlainTextEdit, "What to enter")
    for index in range(combo.count()):
        combo.setCurrentIndex(index)
        assert "http://127.0.0.1:8123/v1" in text.toPlainText()
        assert "Qwen3-8B" in text.toPlainText()
    assert "asks for no key" in visible_texts(clients)
    named(clients, QAbstractButton, "Copy").click()
    assert QApplication.clipboard().text() == text.toPlainText()
    assert unnamed(clients) == []


def test_without_a_server_there_is_no_empty_box_but_a_way(rig: Rig, clients: ClientsPane) -> None:
    text = clients.findChild(QPlainTextEdit)
    assert not text.isVisible()
    assert not clients._copy.isVisible() and not clients._copy_key.isVisible()
    named(clients, QAbstractButton, "Start a server").click()
    assert rig.navigated == ["server"]
    rig.context.live.snapshot.emit(snapshot(state_record(rig.ids[0])))
    assert text.isVisible() and clients._copy.isVisible()
    assert not clients._to_server.isVisible()


def test_what_to_enter_is_as_high_as_its_lines(qtbot, rig: Rig, clients: ClientsPane) -> None:
    clients.resize(1000, 800)
    rig.context.live.snapshot.emit(snapshot(state_record(rig.ids[0])))
    combo = named(clients, QComboBox, "Client program")
    text = named(clients, QPlainTextEdit, "What to enter")
    line = text.fontMetrics().lineSpacing()
    for index in range(combo.count()):
        combo.setCurrentIndex(index)
        QApplication.processEvents()
        lines = text.document().blockCount()
        assert text.verticalScrollBar().maximum() == 0, combo.currentText()
        assert lines * line <= text.height() <= (lines + 3) * line, combo.currentText()


def test_the_key_is_copied_on_request_and_never_shown(rig: Rig, clients: ClientsPane) -> None:
    profile = rig.workbench.profiles.load(rig.ids[0])
    keyed = replace(profile, network=replace(profile.network, key_name="qwen"))
    rig.workbench.profiles.save(keyed, replaces=profile)

    async def get(name: str) -> str:
        return f"key-of-{name}"

    rig.workbench.secrets = SimpleNamespace(get=get)
    rig.context.live.snapshot.emit(snapshot(state_record(rig.ids[0])))
    text = named(clients, QPlainTextEdit, "What to enter")
    assert "API_KEY" in text.toPlainText()
    named(clients, QAbstractButton, "Copy the key").click()
    rig.until(lambda: "on the clipboard" in visible_texts(clients))
    assert QApplication.clipboard().text() == "key-of-qwen"
    shown = [w.text() for w in clients.findChildren(QLabel)] + [text.toPlainText()]
    assert not any("key-of" in words for words in shown)


def test_the_page_has_three_parts_that_can_be_revealed(qtbot, rig: Rig) -> None:
    rig.context.live.latest = snapshot(state_record(rig.ids[0]))
    page = TryPage(rig.context)
    qtbot.addWidget(page)
    page.show()
    page.on_shown()
    for part, words in (("measure", "Profile to measure"), ("connect", "Client program")):
        page.reveal(part)
        assert named(page, QComboBox, words)
    page.reveal("nonsense")
    page.reveal("chat")
    assert "You talk to Qwen3-8B" in visible_texts(page)
