"""Load and speed side by side: live or a longer range, pause, one crosshair, export."""

from __future__ import annotations

import asyncio
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from twinrig.domain.metrics import Snapshot
from twinrig.messages import N_, message
from twinrig.qt.pages.base import PageContext
from twinrig.qt.viewmodels.graph_data import (
    RANGES_S,
    load_samples,
    range_words,
    rows,
    slot_s,
    speed_samples,
)
from twinrig.qt.widgets.graph_paint import Mark
from twinrig.qt.widgets.labels import Heading
from twinrig.qt.widgets.line_graph import GraphStyle, LineGraph
from twinrig.qt.widgets.surface import Surface
from twinrig.qt.widgets.wrapping import WrapRow
from twinrig.services.history import EVENT_WORDS, RING_S, Minute, Point
from twinrig.services.history_csv import csv_text

MIN_CHARS = 50
"""Narrower graphs stand one below the other."""
REREAD_S = RING_S / 3
"""Minutes are read again before what came since leaves the memory."""
TONES = {"start": "busy", "ready": "ok", "crash": "fail", "failed": "fail", "fix": "ok"}


class LiveGraphs(QWidget):
    """Shows ``context.live.history``; minutes come from the history file."""

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._uuids: tuple[str, ...] = ()
        self._minutes: tuple[Minute, ...] = ()
        self._read_at_s = 0.0
        self._range_s = 0.0
        self._slot = (0.0, 0, 0)
        texts, theme, interval_s = context.texts, context.theme, context.settings.interval_s
        self.load_graph = LineGraph(
            texts, theme, GraphStyle(N_("Load of the cards"), "%", 100.0), (), interval_s, self
        )
        self.speed_graph = LineGraph(
            texts,
            theme,
            GraphStyle(N_("Tokens per second"), "T/s"),
            (N_("Generation"), N_("Prompt")),
            interval_s,
            self,
        )
        self.ranges = QComboBox(self)
        self.pause = QPushButton(self)
        self.export = QPushButton(self)
        self._build()
        texts.changed.connect(self._retranslate)
        context.settings.interval_changed.connect(lambda _seconds: self.reload())
        context.live.recording_changed.connect(self._another_source)
        self._retranslate()

    @property
    def paused(self) -> bool:
        return self.pause.isChecked()

    def take(self, snapshot: Snapshot) -> None:
        """Another reading; nothing moves while paused."""
        self._follow_cards(snapshot)
        if self.paused:
            return
        if snapshot.throughput.ended is not None:
            self.reload()  # it changes what was before
            return
        if self._range_s:
            self._follow_range(snapshot.taken_at_s)
            return
        samples = {s.uuid: s.utilisation_percent for s in snapshot.samples if not s.stale}
        speed = snapshot.throughput
        self.load_graph.append(snapshot.taken_at_s, [samples.get(uuid) for uuid in self._uuids])
        self.speed_graph.append(snapshot.taken_at_s, (speed.generation_tps, speed.prompt_tps))
        self._show_marks()

    def catch_up(self, newest: Snapshot) -> None:
        """Show what came while nobody looked; nothing moves while paused."""
        self._follow_cards(newest)
        if not self.paused:
            self._reread_if_old(newest.taken_at_s)
            self.reload()

    def reload(self) -> None:
        """Show what is remembered of the chosen range."""
        interval_s = self._context.live.interval_s
        width_s = slot_s(self._range_s, self.load_graph.slots, interval_s)
        points: list[Point | Minute] = list(self._context.live.history.points())
        if self._range_s > RING_S:
            first_s = points[0].at_s if points else 1e18
            points = [m for m in self._minutes if m.start_s + 60 <= first_s] + points
        for graph, samples in (
            (self.load_graph, load_samples(points, self._uuids)),
            (self.speed_graph, speed_samples(points)),
        ):
            graph.load(*rows(samples, width_s, graph.slots), width_s)
        self._show_marks()

    # -- inside --------------------------------------------------------------------------------

    def _follow_cards(self, snapshot: Snapshot) -> None:
        uuids = tuple(info.uuid for info in snapshot.gpus)
        if uuids != self._uuids:
            self._uuids = uuids
            self.load_graph.set_labels(
                [message("GPU {index}", index=info.index) for info in snapshot.gpus]
            )

    def _another_source(self) -> None:
        """A recording begins or is left: what the other source told must not be seen beside it."""
        if self._context.live.at_end:
            return
        self._minutes, self._slot = (), (0.0, 0, 0)
        self.pause.setChecked(False)
        if self._range_s > RING_S:
            self._read_minutes()
        self.reload()

    def _build(self) -> None:
        texts = self._context.texts
        self.ranges.addItems([""] * len(RANGES_S))
        texts.bind(self.ranges, QWidget.setAccessibleName, N_("Time range of the graphs"))
        self.pause.setCheckable(True)
        for button, text in ((self.pause, N_("Pause")), (self.export, N_("Export CSV…"))):
            texts.bind(button, QPushButton.setText, text)
            texts.bind(button, QWidget.setAccessibleName, text)
        self.ranges.currentIndexChanged.connect(self._choose_range)
        self.pause.toggled.connect(self._pause_toggled)
        self.export.clicked.connect(self._export)
        self.load_graph.inspected.connect(self._share_crosshair)
        self.speed_graph.inspected.connect(self._share_crosshair)
        tools = (self.ranges, self.pause, self.export)
        row = WrapRow()
        row.add(self._surface(N_("Load"), self.load_graph, ()), 1)
        row.add(self._surface(N_("Speed"), self.speed_graph, tools), 1)
        self.setLayout(row)

    def _surface(self, title: str, graph: LineGraph, tools: tuple[QWidget, ...]) -> Surface:
        surface = Surface(self._context.theme, self)
        # Equal halves, whatever stands in their heads, as long as that has room.
        surface.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Expanding)
        surface.setMinimumWidth(self.fontMetrics().averageCharWidth() * MIN_CHARS)
        inside = QVBoxLayout(surface)
        heading = Heading(1.0, surface)
        self._context.texts.bind(heading, QLabel.setText, title)
        heading.setBuddy(graph)
        head = QHBoxLayout()
        head.addWidget(heading, 1)
        head.setSpacing(6)
        for tool in tools:
            head.addWidget(tool, 0, Qt.AlignmentFlag.AlignVCenter)
        if not tools:
            head.addStrut(self.ranges.sizeHint().height())  # both graphs begin at one height
        inside.addLayout(head)
        inside.addWidget(graph, 1)
        return surface

    def _share_crosshair(self, at_s: float) -> None:
        for graph in (self.load_graph, self.speed_graph):
            graph.inspect(None if at_s < 0 else at_s)

    def _choose_range(self, index: int) -> None:
        self._range_s = RANGES_S[max(index, 0)]
        self._slot = (0.0, 0, 0)
        if self._range_s > RING_S:
            self._read_minutes()
        self.reload()

    def _reread_if_old(self, now_s: float) -> None:
        if self._range_s > RING_S and now_s - self._read_at_s >= REREAD_S:
            self._read_minutes()

    def _follow_range(self, now_s: float) -> None:
        self._reread_if_old(now_s)
        width_s = slot_s(self._range_s, self.load_graph.slots, self._context.live.interval_s)
        slot = (width_s, int(now_s // width_s), self.load_graph.slots)
        if slot != self._slot:
            self._slot = slot
            self.reload()

    def _read_minutes(self) -> None:
        if self._context.live.recording is not None:
            return  # the history file is this machine's
        store = self._context.workbench.history_store()
        history = self._context.live.history
        self._read_at_s = self._context.workbench.clock.now()
        since_s = self._read_at_s - self._range_s

        async def read() -> None:
            minutes, events = await asyncio.gather(
                asyncio.to_thread(store.minutes, since_s), asyncio.to_thread(store.events, since_s)
            )
            if history is not self._context.live.history:
                return  # a recording was opened meanwhile
            self._minutes = minutes
            for event in events:
                history.add_event(event, store=False)

        self._context.bridge.submit(read(), self, lambda _done: self.reload(), self._context.report)

    def _pause_toggled(self, paused: bool) -> None:
        if not paused:
            self.reload()

    def _show_marks(self) -> None:
        tr = self._context.texts.tr
        marks = [
            Mark(event.at_s, tr(EVENT_WORDS.get(event.kind, event.kind)), TONES.get(event.kind, ""))
            for event in self._context.live.history.events()
        ]
        self.load_graph.set_marks(marks)
        self.speed_graph.set_marks(marks)

    def _export(self) -> None:
        tr = self._context.texts.tr
        name, _filter = QFileDialog.getSaveFileName(
            self, tr(N_("Export history")), "twinrig-history.csv", "CSV (*.csv)"
        )
        if name:
            self.export_to(Path(name))

    def export_to(self, path: Path) -> None:
        """Write what the chosen range covers: readings, or minutes for a day."""
        points: list[Point | Minute] = list(self._context.live.history.points())
        if self._range_s > RING_S:
            points = list(self._minutes)
        text = csv_text(points)

        async def write() -> None:
            await asyncio.to_thread(path.write_text, text, "utf-8")

        self._context.bridge.submit(write(), self, None, self._context.report)

    def _retranslate(self) -> None:
        for index, range_s in enumerate(RANGES_S):
            self.ranges.setItemText(index, self._context.texts.tr(range_words(range_s)))
        if self._uuids:
            self._show_marks()
