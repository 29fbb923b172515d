"""Memory part of the Plan page: bars, verdict, longest context, and what would give more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QSlider, QVBoxLayout, QWidget

from twinrig.domain.memory import Lever, Measurement, MemoryPlan
from twinrig.domain.metrics import Snapshot
from twinrig.domain.profile import Profile
from twinrig.domain.server import ServerState
from twinrig.messages import N_, Message, message
from twinrig.qt.bridge import TaskHandle
from twinrig.qt.viewmodels.sizing import (
    MIN_CONTEXT,
    SizingAnswer,
    SizingFacts,
    answer,
    best_settings,
    gather_facts,
    measure_start,
    needs_per_card,
    predicted_against_measured,
    setup_of,
)
from twinrig.qt.widgets.memory_bars import MemoryBars
from twinrig.qt.widgets.parts import Button, Label, LongButton, ToneIcon
from twinrig.qt.widgets.wrapping import wrap_row

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

SHOWN_LEVERS = 3
STEPS = 400
"""Positions of the context slider; it is logarithmic and snaps to 256 tokens."""
SNAP = 256
DEFAULT_LIMIT = 131072
_REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class MemoryPanel(QFrame):
    """Follows the profile as typed. ``chosen(option_id, text)`` asks to change a setting."""

    chosen = Signal(str, str)

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._facts: SizingFacts | None = None
        self._profile: Profile | None = None
        self._loading: TaskHandle | None = None
        self._answer = SizingAnswer(None)
        self._measured_run = ""
        self._build()
        context.live.snapshot.connect(self._watch)
        context.texts.changed.connect(self._render)
        self.hide()

    def _build(self) -> None:
        context = self._context
        self.icon = ToneIcon(context)
        self.verdict = Label(context)
        self.bars = MemoryBars(context)
        self.longest = Button(
            context,
            N_("Use the longest context"),
            self.use_longest,
            tip=N_("Sets the context length, and lowers parallel requests where it must"),
        )
        self.details = Label(context, tone="muted")
        self.measured = Label(context, tone="muted")
        self.context = self._slider(N_("Context length"), STEPS)
        self.requests = self._slider(N_("Parallel requests"), len(_REQUESTS) - 1)
        self.context.valueChanged.connect(self._context_dragged)
        self.requests.valueChanged.connect(self._requests_dragged)
        self._more = Label(
            context, N_("What gives more context, each a change of one setting:"), tone="muted"
        )
        self.levers = [LongButton(context, "", icon="") for _ in range(SHOWN_LEVERS)]
        for number, button in enumerate(self.levers):
            button.clicked.connect(lambda _=False, n=number: self._take_lever(n))
            button.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(wrap_row(self.icon, self.verdict, self.longest, stretch=self.verdict))
        layout.addWidget(self.bars)
        sliders = QGridLayout()
        for column, (text, slider) in enumerate(
            ((N_("Context length"), self.context), (N_("Parallel requests"), self.requests))
        ):
            sliders.addWidget(Label(context, text, tone="muted"), 0, 2 * column)
            sliders.addWidget(slider, 0, 2 * column + 1)
            sliders.setColumnStretch(2 * column + 1, 3 if column == 0 else 1)
        layout.addLayout(sliders)
        layout.addWidget(self._more)
        layout.addLayout(wrap_row(*self.levers))
        layout.addWidget(self.measured)
        layout.addWidget(self.details)

    def _slider(self, name: str, steps: int) -> QSlider:
        slider = QSlider(Qt.Orientation.Horizontal)
        slider.setRange(0, steps)
        self._context.texts.bind(slider, QWidget.setAccessibleName, name)
        return slider

    @property
    def answer(self) -> SizingAnswer:
        """What is shown."""
        return self._answer

    def show_profile(self, profile: Profile | None) -> None:
        """Follow a profile as typed; the model is read anew when its folder changes."""
        self._profile = profile
        path = profile.model.path if profile is not None else ""
        if not path:
            self._facts = None
            self.hide()
            return
        if self._facts is None or self._facts.path != path:
            self.reload()
        else:
            self._compute()

    def reload(self) -> None:
        """Look at model, cards and measurements again."""
        profile = self._profile
        if profile is None or not profile.model.path:
            return
        if self._loading is not None:
            self._loading.cancel()
        work = self._context.workbench
        self._facts = SizingFacts(profile.model.path)
        self._loading = self._context.bridge.submit(
            gather_facts(work, profile.model.path),
            self,
            self._loaded,
            self._failed,
        )

    def _watch(self, snapshot: Snapshot) -> None:
        """Every successful start is measured, and what it showed is used at once."""
        server = snapshot.server
        if snapshot.recorded or server is None or server.state is not ServerState.READY:
            return
        if server.run_id != self._measured_run:
            self._measured_run = server.run_id
            measuring = measure_start(self._context.workbench)
            self._context.bridge.submit(measuring, self, self._measured, lambda _error: None)

    def _measured(self, found: Measurement | None) -> None:
        if found is not None:
            self.reload()

    def _loaded(self, facts: SizingFacts) -> None:
        if self._profile is not None and facts.path == self._profile.model.path:
            self._facts = facts
            self._compute()

    def _failed(self, _error: Exception) -> None:
        self.hide()

    def _compute(self) -> None:
        if self._facts is None or self._profile is None:
            return
        self._answer = answer(self._facts, self._profile)
        self._render()

    def _render(self) -> None:
        found = self._answer
        plan = found.plan
        self.setVisible(plan is not None or found.fault is not None)
        self.icon.set_tone(found.tone)
        text: Message | str = found.fault or ""
        if plan is not None:
            text = plan.refusals[0] if plan.refusals else plan.summary
        self.verdict.show_text(text)
        self.bars.setVisible(plan is not None and bool(plan.gpus))
        if plan is None:
            self.bars.show_gpus(())
        else:
            self.bars.show_gpus(plan.gpus, plan.kv_needed_bytes)
        best = self._best(plan) if plan is not None else {}
        self.longest.setVisible(bool(best))
        self._render_sliders()
        self._render_levers()
        measured = predicted_against_measured(found)
        self.measured.setVisible(measured is not None)
        self.measured.show_text(measured or "")
        self._render_details()

    def _render_details(self) -> None:
        found, plan = self._answer, self._answer.plan
        tr = self._context.texts.tr
        if plan is None:
            self.details.setVisible(found.next_step is not None)
            self.details.show_text(found.next_step or "")
            return
        lines = [tr(sentence) for sentence in plan.assumptions]
        self.details.setToolTip("\n".join(lines))
        self.details.setAccessibleDescription("\n".join(lines))
        needs = needs_per_card(plan)
        if needs is not None:
            self.details.setVisible(True)
            self.details.show_text(needs)
            return
        concurrency = plan.max_concurrency
        shown = concurrency is not None and plan.max_context_tokens is not None
        self.details.setVisible(shown)
        if shown and concurrency is not None:
            self.details.show_text(
                message(
                    "Conversations of this length at a time: {count}. Assumptions: {number} "
                    "(point here).",
                    count=f"{concurrency:.1f}",
                    number=len(lines),
                )
            )

    def _render_levers(self) -> None:
        found = self._levers()
        self._more.setVisible(bool(found))
        for number, button in enumerate(self.levers):
            button.setVisible(number < len(found))
            if number < len(found):
                lever = found[number]
                button.set_text(
                    N_("{change} +{tokens} tokens"),
                    change=lever.text,
                    tokens=f"{lever.gain_tokens:,}",
                )
                setting = f"{lever.setting} {lever.value}".strip()
                button.setToolTip(f"{self._context.texts.tr(lever.text)}\n{setting}")

    def _levers(self) -> tuple[Lever, ...]:
        """Those that are a setting of the profile; another model is another matter."""
        return tuple(v for v in self._answer.levers if v.setting != "model")

    def _render_sliders(self) -> None:
        plan, profile = self._answer.plan, self._profile
        for slider in (self.context, self.requests):
            slider.setEnabled(plan is not None)
        if profile is None:
            return
        setup = setup_of(self._context.workbench, profile)
        asked = profile.settings.get(setup.context_setting)
        tokens = asked if isinstance(asked, int) else self._limit()
        with QSignalBlocker(self.context):
            if self._tokens(self.context.value()) != tokens:
                self.context.setValue(self._position(tokens))
        requests = profile.settings.get(setup.slots_setting)
        if isinstance(requests, int):
            nearest = min(range(len(_REQUESTS)), key=lambda i: abs(_REQUESTS[i] - requests))
            with QSignalBlocker(self.requests):
                self.requests.setValue(nearest)

    def _limit(self) -> int:
        return max(MIN_CONTEXT * 2, self._answer.limit or DEFAULT_LIMIT)

    def _tokens(self, position: int) -> int:
        span = math.log(self._limit() / MIN_CONTEXT)
        tokens = MIN_CONTEXT * math.exp(span * position / STEPS)
        return min(self._limit(), max(MIN_CONTEXT, round(tokens / SNAP) * SNAP))

    def _position(self, tokens: int) -> int:
        span = math.log(self._limit() / MIN_CONTEXT)
        return round(STEPS * math.log(max(tokens, MIN_CONTEXT) / MIN_CONTEXT) / span)

    def _context_dragged(self, position: int) -> None:
        if self._profile is not None:
            setup = setup_of(self._context.workbench, self._profile)
            self.chosen.emit(setup.context_setting, str(self._tokens(position)))

    def _requests_dragged(self, position: int) -> None:
        if self._profile is not None:
            setup = setup_of(self._context.workbench, self._profile)
            self.chosen.emit(setup.slots_setting, str(_REQUESTS[position]))

    def use_longest(self) -> None:
        """Set what uses the cards best."""
        plan = self._answer.plan
        if plan is not None:
            for option_id, text in self._best(plan).items():
                self.chosen.emit(option_id, text)

    def _best(self, plan: MemoryPlan) -> dict[str, str]:
        if self._profile is None:
            return {}
        setup = setup_of(self._context.workbench, self._profile)
        return best_settings(self._profile, plan, setup)

    def _take_lever(self, number: int) -> None:
        if number < len(self._levers()):
            lever = self._levers()[number]
            self.chosen.emit(lever.setting, lever.value.replace(", ", "\n"))
