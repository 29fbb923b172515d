"""Overview: both cards, speed, state, the verdict and the endpoint at a glance."""

from __future__ import annotations

import asyncio

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import ACTIVE_STATES, ANSWERING_STATES, ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.messages import N_
from twinrig.qt.actions import ServerActions
from twinrig.qt.dialogs import ask_recording
from twinrig.qt.pages.base import Page, PageContext
from twinrig.qt.viewmodels.figures import figures_view
from twinrig.qt.viewmodels.overview import card_views, endpoint_view, freed_view, state_view
from twinrig.qt.widgets.endpoint_panel import EndpointPanel
from twinrig.qt.widgets.gpu_card import GpuCard
from twinrig.qt.widgets.labels import StatusBadge, ToneLabel
from twinrig.qt.widgets.live_graphs import LiveGraphs
from twinrig.qt.widgets.parts import Button
from twinrig.qt.widgets.recording_bar import RecordingBar
from twinrig.qt.widgets.server_figures import ServerFigures
from twinrig.qt.widgets.verdict_line import VerdictLine
from twinrig.qt.widgets.wrapping import WrapRow, wrap_row
from twinrig.services.history import Event
from twinrig.services.journal import JournalEntry

PROGRESS_STEPS = 1000
NO_PROFILE = N_("There is no profile yet: choose a model on the page Plan, and save.")
ENERGY_EVERY_S = 15.0
"""A sum over a quarter of an hour need not tick."""


class OverviewPage(Page):
    """Shows each snapshot; asks nothing itself except start and stop."""

    page_id = "overview"
    title = N_("Overview")
    icon = "overview"

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._newest: Snapshot | None = None
        self._missed = False
        self._cards: list[GpuCard] = []
        self._energy: tuple[float, float | None, float] = (-ENERGY_EVERY_S, None, 0.0)
        self._button_face: tuple[str, bool] = ("", False)
        self._free_face = ("", "")
        self._actions = ServerActions(context.workbench, context.bridge, self)
        self._actions.failed.connect(context.report)
        self._actions.busy_changed.connect(lambda _busy: self._render())
        self._actions.profiles_changed.connect(lambda: self.isVisible() and self._render())
        theme = context.theme
        self._badge = StatusBadge(theme, context.icons, 1.35, self)
        self._profile = ToneLabel(theme, "muted", self)
        self._detail = QLabel(self)
        self._detail.setWordWrap(True)
        self._progress = QProgressBar(self)
        self._button = QPushButton(self)
        self._button.clicked.connect(self._act)
        self._recording = RecordingBar(context, self)
        self._recording.close_wanted.connect(context.live.close_recording)
        self._open_recording = Button(
            context,
            N_("Open a recording…"),
            self._ask_recording,
            icon="open",
            tip=N_("Show what twinrig watch --record kept, in place of this machine"),
        )
        self._free = Button(context, N_("Free the cards"), self._free_or_load, icon="gpu")
        self.verdict = VerdictLine(context, self)
        self._no_cards = ToneLabel(theme, "muted", self)
        self._no_cards.setWordWrap(True)
        self._demo = Button(
            context, N_("Use the demo rig"), lambda: context.open_target("demo"), icon="demo"
        )
        self._demo.hide()
        self._card_row = WrapRow()
        self.graphs = LiveGraphs(context, self)
        self._figures = ServerFigures(context, self)
        self._endpoint = EndpointPanel(context, self)
        self._build()
        context.live.snapshot.connect(self._take)
        context.live.recording_changed.connect(self._another_source)
        self._actions.read_profiles()
        self._newest, self._missed = context.live.latest, context.live.latest is not None
        self._render()

    # -- layout --------------------------------------------------------------------------------

    def _build(self) -> None:
        layout = QVBoxLayout(self)
        layout.setSpacing(10)
        layout.addWidget(self._recording)
        layout.addLayout(self._head())
        layout.addWidget(self.verdict)
        layout.addLayout(self._card_row)
        layout.addWidget(self._no_cards)
        layout.addWidget(self._demo, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(self.graphs, 1)
        layout.addWidget(self._figures)
        layout.addWidget(self._endpoint)
        self.context.texts.bind(
            self._progress, QWidget.setAccessibleName, N_("Progress of the start")
        )
        self._progress.setRange(0, PROGRESS_STEPS)
        self._progress.setTextVisible(False)

    def _head(self) -> WrapRow:
        told = QWidget(self)
        words = QVBoxLayout(told)
        words.setContentsMargins(0, 0, 0, 0)
        words.setSpacing(2)
        first = QHBoxLayout()
        first.setSpacing(10)
        first.addWidget(self._badge)
        first.addWidget(self._profile, 1)
        words.addLayout(first)
        words.addWidget(self._detail)
        words.addWidget(self._progress)
        return wrap_row(told, self._open_recording, self._free, self._button, stretch=told)

    # -- data ----------------------------------------------------------------------------------

    def _another_source(self) -> None:
        recorded = self.context.live.recording is not None
        self._open_recording.setVisible(not recorded)
        self._button.setVisible(not recorded)
        if not self.context.live.at_end:
            self._newest = None
            self._energy = (-ENERGY_EVERY_S, None, 0.0)
        self._render()

    def _ask_recording(self) -> None:
        path = ask_recording(self.context.texts, self)
        if path is not None:
            self.context.live.open_recording(path)

    def _take(self, snapshot: Snapshot) -> None:
        self._newest = snapshot
        if not self.looked_at:
            self._missed = True  # on_shown makes up for it
            return
        self.graphs.take(snapshot)
        if not self.context.live.settled:
            self._render()

    def _fit_cards(self, snapshot: Snapshot) -> None:
        if len(self._cards) == len(snapshot.gpus):
            return
        for card in self._cards:
            self._card_row.removeWidget(card)
            card.deleteLater()
        self._cards = [
            GpuCard(self.context.texts, self.context.theme, i, self)
            for i in range(len(snapshot.gpus))
        ]
        for card in self._cards:
            self._card_row.add(card, 1)

    def _render(self) -> None:
        newest = self._newest
        record = newest.server if newest else None
        state = state_view(record, newest.taken_at_s if newest else 0.0)
        if newest is None:
            self._badge.show_status("question", self.tr(N_("Waiting for the first reading")))
        else:
            self._badge.show_status(state.kind, self.tr(state.word))
        _show(self._profile, f"{record.model_id or record.profile_id}" if record else "")
        detail = state.detail or freed_view(record, self.context.live.freed.freed_bytes)
        _show(self._detail, self.tr(detail) if detail else "")
        self._detail.setVisible(detail is not None)
        self._progress.setVisible(state.progress is not None)
        self._progress.setValue(round((state.progress or 0.0) * PROGRESS_STEPS))
        self.verdict.show_verdict(self.context.live.verdict)
        if newest is not None:
            self._fit_cards(newest)
        self._render_cards(newest)
        self._render_figures(newest)
        recorded = newest is not None and newest.recorded
        if recorded:
            self._recording.render()
        self._endpoint.setVisible(not recorded)
        self._endpoint.show_endpoint(endpoint_view(None if recorded else record), record)
        self._render_button(record.state if record else ServerState.STOPPED)
        self._render_free(None if recorded else record)

    def _render_figures(self, newest: Snapshot | None) -> None:
        live = self.context.live
        history = live.history
        at_s = newest.taken_at_s if newest is not None else 0.0
        if not 0 <= at_s - self._energy[0] < ENERGY_EVERY_S:
            self._energy = (at_s, history.energy_j, history.generated_tokens)
        _at_s, energy_j, tokens = self._energy
        self._figures.show_figures(figures_view(newest, live.last_known, energy_j, tokens))

    def _render_cards(self, newest: Snapshot | None) -> None:
        if newest is None:
            self._no_cards.hide()
            self._demo.hide()
            return
        for card, view in zip(self._cards, card_views(newest), strict=False):
            card.show_card(view)
        problem = newest.gpu_error or ("" if newest.gpus else N_("No graphics card was found."))
        parts = [self.tr(text) for text in (problem, newest.gpu_next_step) if text]
        _show(self._no_cards, " ".join(parts))
        self._no_cards.setVisible(bool(parts))
        offered = bool(parts) and not newest.gpus and not newest.recorded
        self._demo.setVisible(offered and not self.context.workbench.demo)

    def _render_button(self, state: ServerState) -> None:
        stops = state in ACTIVE_STATES
        label = N_("Stop server") if stops else N_("Start server")
        face = (label, self.context.theme.dark)
        if face != self._button_face:
            self._button_face = face
            self.context.texts.bind(self._button, QPushButton.setText, label)
            self.context.texts.bind(self._button, QWidget.setAccessibleName, label)
            self._button.setIcon(self.context.icons.icon("stop" if stops else "play"))
        able = stops or bool(self._actions.profiles)
        self._button.setEnabled(
            able and not self._actions.busy and state is not ServerState.STOPPING
        )
        self._button.setToolTip("" if able else self.tr(NO_PROFILE))

    def _render_free(self, record: ServerRecord | None) -> None:
        asleep = record is not None and record.state is ServerState.SLEEPING
        can = record is not None and record.state in ANSWERING_STATES
        self._free.setVisible(asleep or can)
        if record is None or not (asleep or can):
            return
        text = N_("Load again") if asleep else N_("Free the cards")
        tip = N_("Stops the server, as it cannot sleep; the memory of the cards is free then")
        if record.can_sleep:
            tip = N_("The server stays, but gives the memory of the cards back until it is loaded")
        if (text, tip) != self._free_face:
            self._free_face = (text, tip)
            self._free.set_text(text)
            self.context.texts.bind(self._free, QWidget.setToolTip, "" if asleep else tip)
        self._free.setEnabled(not self._actions.busy)

    def _free_or_load(self) -> None:
        record = self._newest.server if self._newest is not None else None
        if record is None:
            return
        if record.state is ServerState.SLEEPING:
            self._actions.start(record.profile_id)
        else:
            self._actions.free(record.profile_id)

    def _act(self) -> None:
        record = self._newest.server if self._newest is not None else None
        if record is not None and record.state in ACTIVE_STATES:
            self._actions.stop(record.profile_id)
        else:
            self._actions.start(self._actions.chosen(self.context.settings.current_profile))

    # -- hooks ---------------------------------------------------------------------------------

    def on_shown(self) -> None:
        self._actions.read_profiles()
        self.submit(asyncio.to_thread(_fixes, self.context.workbench), self._mark_fixes, _ignore)
        if self._missed and self._newest is not None:
            self._missed = False
            self.graphs.catch_up(self._newest)
        self._render()

    def _mark_fixes(self, entries: tuple[JournalEntry, ...]) -> None:
        history = self.context.live.machine_history
        for entry in entries:
            history.add_event(Event(entry.at_s, "fix", self.tr(entry.title)), store=False)

    def retranslate(self) -> None:
        self._render()

    def retheme(self) -> None:
        self._render()


def _fixes(workbench: object) -> tuple[JournalEntry, ...]:
    journal = getattr(workbench, "journal", None)
    return journal.entries() if journal is not None else ()


def _ignore(_error: Exception) -> None:
    """A journal that cannot be read is told on the Server page."""


def _show(label: QLabel, text: str) -> None:
    if label.text() != text:
        label.setText(text)
