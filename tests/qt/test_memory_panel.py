"""Memory part of the Plan page: follows every edit, explains itself, sets what it offers."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from PySide6.QtCore import QPointF
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QStyleOptionButton

from qt.pages_rig import PageWorkbench, make_profile, page_context, state_record, unnamed
from qt.panel_rig import snapshot
from twinrig.domain.memory import GIB, Measurement, PartKind, Verdict
from twinrig.hosts.demo.gpus import DemoGpuProbe
from twinrig.qt.pages.plan import PlanPage
from twinrig.qt.viewmodels.sizing import SizingFacts, answer, gather_facts
from twinrig.qt.widgets.memory_bars import MemoryBars
from twinrig.services.calibration import settings_key
from twinrig.sizing.cards import nominal_card
from twinrig.sizing.estimate import sized_model

MODEL = "/home/demo/models/Demo-24B-AWQ"


class CardsWorkbench(PageWorkbench):
    """With the two cards of the demo rig."""

    def open_gpu_probe(self):
        return DemoGpuProbe(self.layout.root)


@pytest.fixture
def workbench(tmp_path) -> CardsWorkbench:
    return CardsWorkbench(tmp_path)


@pytest.fixture
def page(qtbot, qapp, bridge, workbench) -> PlanPage:
    profile_id = make_profile(workbench, "Demo", MODEL)
    context = page_context(qapp, bridge, workbench, [])
    context.settings.current_profile = profile_id
    page = PlanPage(context)
    qtbot.addWidget(page)
    page.resize(1000, 700)
    page.show()
    page.on_shown()
    qtbot.waitUntil(lambda: page.memory.answer.plan is not None, timeout=8000)
    return page


def context_field(page) -> str:
    return page.form.fields["context_length"].text


def test_bars_follow_what_is_typed(page) -> None:
    before = page.memory.answer.plan
    assert before.verdict is not Verdict.DOES_NOT_FIT
    assert page.memory.bars.isVisibleTo(page)
    page.form.fields["context_length"].set_text("131072")
    after = page.memory.answer.plan
    assert after.kv_needed_bytes > before.kv_needed_bytes
    assert after.verdict is Verdict.DOES_NOT_FIT
    assert "GiB KV cache is needed" in page.memory.verdict.text()


def test_dragging_sets_the_field(page) -> None:
    page.memory.context.setValue(0)
    assert context_field(page) == "1024"
    page.memory.context.setValue(page.memory.context.maximum())
    assert context_field(page) == "131072"
    page.memory.requests.setValue(0)
    assert page.form.fields["max_num_seqs"].text == "1"


def test_typing_moves_the_slider(page) -> None:
    page.form.fields["context_length"].set_text("1024")
    assert page.memory.context.value() == 0
    page.form.fields["context_length"].set_text("8192")
    assert 0 < page.memory.context.value() < page.memory.context.maximum()
    assert context_field(page) == "8192"


def test_the_longest_context_fits(page) -> None:
    page.form.fields["context_length"].set_text("131072")
    page.memory.longest.click()
    plan = page.memory.answer.plan
    assert context_field(page) == str(plan.max_context_tokens)
    assert plan.verdict is not Verdict.DOES_NOT_FIT


def test_levers_change_a_setting_and_keep_their_word(page) -> None:
    button = page.memory.levers[0]
    lever = page.memory.answer.levers[0]
    before = page.memory.answer.plan.max_context_tokens
    sentence = page.context.texts.tr(lever.text)
    assert button.text() == f"{sentence} +{lever.gain_tokens:,} tokens"
    assert sentence in button.toolTip()
    assert lever.setting in button.toolTip(), "the name that the engine uses"
    button.click()
    assert page.model.build()[0].settings[lever.setting] == lever.value
    limit = page.memory.answer.limit
    assert page.memory.answer.plan.max_context_tokens == min(limit, before + lever.gain_tokens)


def test_a_long_lever_makes_no_page_wider(page) -> None:
    button = max(page.memory.levers, key=lambda lever: lever.sizeHint().width())
    assert page.memory.minimumSizeHint().width() < button.sizeHint().width()
    button.resize(button.minimumSizeHint())
    option = QStyleOptionButton()
    button.initStyleOption(option)
    assert button.minimumSizeHint().width() < button.sizeHint().width()
    assert "\u2026" in option.text and option.text.endswith("tokens")
    assert "\u2026" not in button.text(), "who cannot see it hears all of it"


def test_an_edit_costs_less_than_a_frame(page) -> None:
    facts, profile = page.memory._facts, page.model.build()[0]
    times = []
    for number in range(20):
        asked = replace(profile, settings={**profile.settings, "context_length": 4096 + number})
        start = time.process_time()
        page.memory.show_profile(asked)
        times.append(time.process_time() - start)
    assert facts is page.memory._facts
    assert min(times) < 0.0166


def test_every_part_explains_itself(page) -> None:
    bars = page.memory.bars
    bars.grab()
    told = bars.accessibleDescription()
    for words in ("GPU 0", "GPU 1", "Weights", "KV cache", "Headroom", "Recorded CUDA graphs"):
        assert words in told
    line = bars.fontMetrics().height()
    found = {bars.explain(QPointF(x, 1.5 * line)) for x in range(0, bars.width(), 2)}
    assert len(found - {""}) >= 6
    assert bars.explain(QPointF(5, bars.height() - 2)) == ""
    assert unnamed(page) == []


def test_too_much_sticks_out(qtbot, page) -> None:
    """A share of nearly all and a desktop on the card: more is wanted than there is."""
    bars = MemoryBars(page.context)
    qtbot.addWidget(bars)
    plan = page.memory.answer.plan
    gpu = plan.gpus[0]
    parts = tuple(
        replace(p, size_bytes=p.size_bytes + 4 * GIB) if p.kind is PartKind.WEIGHTS else p
        for p in gpu.parts
    )
    bars.resize(600, 80)
    bars.show_gpus((gpu,))
    fits = bars.grab().toImage()
    bars.show_gpus((replace(gpu, parts=parts),))
    over: QImage = bars.grab().toImage()
    red = page.context.theme.tokens.fail.rgb()

    def has_red(image: QImage) -> bool:
        return any(
            image.pixel(x, y) == red for x in range(image.width()) for y in range(image.height())
        )

    assert has_red(over)
    assert not has_red(fits)


def test_a_model_that_cannot_be_sized_says_why(qtbot, page) -> None:
    page.model.set_model("/nowhere")
    page._edited()
    qtbot.waitUntil(lambda: page.memory.answer.fault is not None, timeout=5000)
    assert "no model configuration" in page.memory.verdict.text()
    assert not page.memory.bars.isVisibleTo(page)
    page.model.set_model("")
    page._edited()
    assert not page.memory.isVisibleTo(page)


def test_japanese_and_back(page) -> None:
    page.context.texts.set_language("ja")
    assert page.memory.verdict.text()
    page.context.texts.set_language("en")
    assert "ontext" in page.memory.verdict.text()


def test_predicted_against_measured(page) -> None:
    profile = page.model.build()[0]
    facts = page.memory._facts
    found = Measurement(
        facts.machine,
        "demo",
        profile.engine.version,
        MODEL,
        1.0,
        6 * GIB,
        3 * GIB,
        GIB,
        settings_key=settings_key(profile.settings),
    )
    page.memory._loaded(replace(facts, measurements=(found,)))
    assert page.memory.answer.plan.calibrated
    assert "3.0 GiB measured" in page.memory.measured.text()
    page.form.fields["max_num_seqs"].set_text("2")  # another setting: that start tells nothing
    assert not page.memory.answer.plan.calibrated
    assert not page.memory.measured.isVisibleTo(page)


def test_a_start_that_succeeds_is_measured_and_used(qtbot, page, workbench) -> None:
    """The log of the run is read once it is ready; the plan then says so."""
    profile_id = page.model.profile.id
    workbench.write_log(
        profile_id,
        "Model loading took 6.60 GiB memory\nAvailable KV cache memory: 3.00 GiB\n",
    )
    ready = state_record(profile_id, started_at_s=4e9, ready_at_s=4e9 + 60)
    workbench.controller.set(ready)
    page.context.live.snapshot.emit(snapshot(ready))
    qtbot.waitUntil(lambda: page.memory.answer.measurement is not None, timeout=5000)
    assert page.memory.answer.plan.calibrated
    assert "measured at the last start" in page.memory.measured.text()
    assert len(workbench.estimating().store.all()) == 1
    page.context.live.snapshot.emit(snapshot(ready))
    page.context.live.snapshot.emit(snapshot(None))


async def test_our_own_server_does_not_count_as_held(workbench) -> None:
    profile_id = make_profile(workbench, "Demo", MODEL)
    idle = await gather_facts(workbench, MODEL)
    assert all(card.free_bytes is not None for card in idle.cards)
    workbench.controller.set(state_record(profile_id))
    running = await gather_facts(workbench, MODEL)
    assert all(card.free_bytes is None for card in running.cards)
    assert running.reserve_bytes > 0


def test_answers_without_cards_list_the_needs(workbench) -> None:
    make_profile(workbench, "Demo", MODEL)
    from fixtures.sizing_models import DENSE_8B, FALCON_7B

    profile = workbench.profiles.list().profiles[0]
    bare = answer(SizingFacts(MODEL, sized_model(DENSE_8B), engines=workbench.engines), profile)
    assert bare.plan.kv_needed_bytes > 0
    assert "not known" in str(bare.plan.summary)
    cards = (nominal_card(24),) * 2
    refused = answer(
        SizingFacts(MODEL, sized_model(FALCON_7B), cards=cards, engines=workbench.engines), profile
    )
    assert "attention heads (71)" in str(refused.fault)
    assert refused.next_step is not None


def test_without_cards_the_needs_are_listed_and_nothing_is_called_fine(
    qtbot, qapp, bridge, tmp_path
):
    workbench = PageWorkbench(tmp_path)
    context = page_context(qapp, bridge, workbench, [])
    context.settings.current_profile = make_profile(workbench, "Demo", MODEL)
    page = PlanPage(context)
    qtbot.addWidget(page)
    page.show()
    page.on_shown()
    qtbot.waitUntil(lambda: page.memory.answer.plan is not None, timeout=8000)
    assert page.memory.answer.plan.verdict is Verdict.UNKNOWN
    assert page.memory.answer.tone == "muted"
    assert page.memory.details.isVisibleTo(page)
    assert page.memory.details.text().startswith("Each card needs ")
