"""Overview: both cards, speed, state and endpoint at a glance."""

from __future__ import annotations

from collections import deque

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import ACTIVE_STATES, ServerState
from twinrig.messages import N_, message
from twinrig.qt.actions import ServerActions
from twinrig.qt.pages.base import Page, PageContext
from twinrig.qt.viewmodels.overview import card_views, endpoint_view, state_view
from twinrig.qt.widgets.endpoint_panel import EndpointPanel
from twinrig.qt.widgets.gpu_card import GpuCard
from twinrig.qt.widgets.labels import Heading, StatusBadge, ToneLabel
from twinrig.qt.widgets.line_graph import GraphStyle, LineGraph
from twinrig.qt.widgets.surface import Surface
from twinrig.services.verdict import KEPT, verdict

PROGRESS_STEPS = 1000


class OverviewPage(Page):
    """Shows each snapshot; asks nothing itself except start and stop."""

    page_id = "overview"
    title = N_("Overview")
    icon = "overview"

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._recent: deque[Snapshot] = deque(maxlen=KEPT)
        self._cards: list[GpuCard] = []
        self._actions = ServerActions(context.workbench, context.bridge, self)
        self._actions.failed.connect(context.report)
        self._actions.busy_changed.connect(lambda _busy: self._render())
        texts, theme = context.texts, context.theme
        self._badge = StatusBadge(theme, context.icons, 1.35, self)
        self._profile = ToneLabel(theme, "muted", self)
        self._detail = QLabel(self)
        self._detail.setWordWrap(True)
        self._progress = QProgressBar(self)
        self._button = QPushButton(self)
        self._button.clicked.connect(self._act)
        self._verdict = StatusBadge(theme, context.icons, 1.05, self, sentence=True)
        self._no_cards = ToneLabel(theme, "muted", self)
        self._no_cards.setWordWrap(True)
        self._card_row = QHBoxLayout()
        interval_s = context.settings.interval_s
        self._load_graph = LineGraph(
            texts, theme, GraphStyle(N_("Load of the cards"), "%", 100.0), (), interval_s, self
        )
        self._speed_graph = LineGraph(
            texts,
            theme,
            GraphStyle(N_("Tokens per second"), "T/s"),
            (N_("Generation"), N_("Prompt")),
            interval_s,
            self,
        )
        self._endpoint = EndpointPanel(context, self)
        self._build()
        context.live.snapshot.connect(self._take)
        context.settings.interval_changed.connect(self._interval_changed)
        self._actions.read_profiles()
        if context.live.latest is not None:
            self._take(context.live.latest)
        else:
            self._render()

    # -- layout --------------------------------------------------------------------------------

    def _build(self) -> None:
        layout = QVBoxLayout(self)
        layout.setSpacing(10)
        layout.addLayout(self._head())
        layout.addWidget(self._verdict)
        layout.addLayout(self._card_row)
        layout.addWidget(self._no_cards)
        layout.addLayout(self._graphs(), 1)
        layout.addWidget(self._endpoint)
        self.context.texts.bind(
            self._progress, QWidget.setAccessibleName, N_("Progress of the start")
        )
        self._progress.setRange(0, PROGRESS_STEPS)
        self._progress.setTextVisible(False)

    def _head(self) -> QHBoxLayout:
        row = QHBoxLayout()
        words = QVBoxLayout()
        words.setSpacing(2)
        first = QHBoxLayout()
        first.setSpacing(10)
        first.addWidget(self._badge)
        first.addWidget(self._profile, 1)
        words.addLayout(first)
        words.addWidget(self._detail)
        words.addWidget(self._progress)
        row.addLayout(words, 1)
        row.addWidget(self._button, 0, Qt.AlignmentFlag.AlignTop)
        return row

    def _graphs(self) -> QGridLayout:
        grid = QGridLayout()
        for column, (title, graph) in enumerate(
            ((N_("Load"), self._load_graph), (N_("Speed"), self._speed_graph))
        ):
            surface = Surface(self.context.theme, self)
            inside = QVBoxLayout(surface)
            heading = Heading(1.0, surface)
            self.context.texts.bind(heading, QLabel.setText, title)
            heading.setBuddy(graph)
            inside.addWidget(heading)
            inside.addWidget(graph, 1)
            grid.addWidget(surface, 0, column)
            grid.setColumnStretch(column, 1)
        return grid

    # -- data ----------------------------------------------------------------------------------

    def _take(self, snapshot: Snapshot) -> None:
        self._recent.append(snapshot)
        self._fit_cards(snapshot)
        samples = {s.uuid: s for s in snapshot.samples if not s.stale}
        loads = [
            float(sample.utilisation_percent)
            if (sample := samples.get(info.uuid)) and sample.utilisation_percent is not None
            else None
            for info in snapshot.gpus
        ]
        speed = snapshot.throughput
        self._load_graph.append(snapshot.taken_at_s, loads)
        self._speed_graph.append(snapshot.taken_at_s, (speed.generation_tps, speed.prompt_tps))
        if self.isVisible():
            self._render()

    def _fit_cards(self, snapshot: Snapshot) -> None:
        if len(self._cards) != len(snapshot.gpus):
            for card in self._cards:
                self._card_row.removeWidget(card)
                card.deleteLater()
            self._cards = [
                GpuCard(self.context.texts, self.context.theme, i, self)
                for i in range(len(snapshot.gpus))
            ]
            for card in self._cards:
                self._card_row.addWidget(card, 1)
        self._load_graph.set_labels(
            [message("GPU {index}", index=info.index) for info in snapshot.gpus]
        )

    def _render(self) -> None:
        newest = self._recent[-1] if self._recent else None
        record = newest.server if newest else None
        state = state_view(record, newest.taken_at_s if newest else 0.0)
        if newest is None:
            self._badge.show_status("question", self.tr(N_("Waiting for the first reading")))
        else:
            self._badge.show_status(state.kind, self.tr(state.word))
        self._profile.setText(f"{record.model_id or record.profile_id}" if record else "")
        self._detail.setText(self.tr(state.detail) if state.detail else "")
        self._detail.setVisible(state.detail is not None)
        self._progress.setVisible(state.progress is not None)
        self._progress.setValue(round((state.progress or 0.0) * PROGRESS_STEPS))
        judged = verdict(tuple(self._recent))
        self._verdict.show_status(judged.kind, self.tr(judged.text))
        self._render_cards(newest)
        self._endpoint.show_endpoint(endpoint_view(record), record)
        self._render_button(record.state if record else ServerState.STOPPED)

    def _render_cards(self, newest: Snapshot | None) -> None:
        if newest is None:
            self._no_cards.hide()
            return
        for card, view in zip(self._cards, card_views(newest), strict=False):
            card.show_card(view)
        problem = newest.gpu_error or ("" if newest.gpus else N_("No graphics card was found."))
        parts = [self.tr(text) for text in (problem, newest.gpu_next_step) if text]
        self._no_cards.setText(" ".join(parts))
        self._no_cards.setVisible(bool(parts))

    def _render_button(self, state: ServerState) -> None:
        stops = state in ACTIVE_STATES
        label = N_("Stop server") if stops else N_("Start server")
        self.context.texts.bind(self._button, QPushButton.setText, label)
        self.context.texts.bind(self._button, QWidget.setAccessibleName, label)
        self._button.setIcon(self.context.icons.icon("stop" if stops else "play"))
        self._button.setEnabled(not self._actions.busy and state is not ServerState.STOPPING)

    def _act(self) -> None:
        record = self._recent[-1].server if self._recent else None
        if record is not None and record.state in ACTIVE_STATES:
            self._actions.stop(record.profile_id)
        else:
            self._actions.start(self._actions.chosen(self.context.settings.current_profile))

    # -- hooks ---------------------------------------------------------------------------------

    def on_shown(self) -> None:
        self._actions.read_profiles()
        self._render()

    def retranslate(self) -> None:
        self._render()

    def retheme(self) -> None:
        self._render()

    def _interval_changed(self, seconds: float) -> None:
        self._load_graph.set_interval(seconds)
        self._speed_graph.set_interval(seconds)
