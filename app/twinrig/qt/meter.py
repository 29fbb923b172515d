"""A small window that stays on top: both loads and T/s, while chatting in another program."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QVBoxLayout, QWidget

from twinrig.domain.metrics import Snapshot
from twinrig.domain.quantities import number
from twinrig.messages import N_
from twinrig.qt.icons import Icons
from twinrig.qt.settings import PanelSettings
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme
from twinrig.qt.viewmodels.figures import LastKnown, speed_words
from twinrig.qt.viewmodels.overview import card_views, state_view
from twinrig.qt.widgets.labels import StatusBadge, ToneLabel, scaled_font
from twinrig.qt.widgets.steady import SteadyLabel
from twinrig.qt.widgets.surface import ShareBar


class MeterWindow(QWidget):
    """``closed`` fires when the user closes it."""

    closed = Signal()

    def __init__(
        self, texts: Texts, theme: Theme, icons: Icons, settings: PanelSettings | None = None
    ) -> None:
        super().__init__(None, Qt.WindowType.Tool | Qt.WindowType.WindowStaysOnTopHint)
        self._texts = texts
        self._theme = theme
        self._settings = settings
        self._placed = False
        self._snapshot: Snapshot | None = None
        self._last = LastKnown()
        self._badge = StatusBadge(theme, icons, 1.0, self)
        self._demo = ToneLabel(theme, "warn", self)
        self._speed = SteadyLabel("888.8 T/s", self)
        self._speed.setFont(scaled_font(self._speed, 1.6, bold=True))
        self._reply = ToneLabel(theme, "muted", self)
        self._reply.hide()
        self._rows: list[tuple[QLabel, ShareBar, QLabel]] = []
        self._grid = QGridLayout()
        self._grid.setColumnStretch(1, 1)
        layout = QVBoxLayout(self)
        layout.addWidget(self._badge)
        layout.addWidget(self._speed)
        layout.addWidget(self._reply)
        layout.addLayout(self._grid)
        layout.addWidget(self._demo)
        self._demo.hide()
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * 32)
        texts.bind(self, QWidget.setWindowTitle, N_("Twinrig meter"))
        texts.changed.connect(self._render)
        theme.changed.connect(self._render)

    def show_snapshot(self, snapshot: Snapshot | None, last: LastKnown | None = None) -> None:
        """Show newer figures (None: not yet any); nothing is drawn while the window is hidden."""
        self._snapshot = snapshot
        self._last = last or LastKnown()
        if self.isVisible():
            self._render()

    def restore(self) -> None:
        """Show the window if it was open when the panel ended."""
        if self._settings is not None and self._settings.flag("meter_open"):
            self.show()

    def remember(self) -> None:
        """Keep the place, and whether the window is open, for the next time."""
        if self._settings is None:
            return
        if self._placed:
            self._settings.set_blob("meter", self.saveGeometry())
        self._settings.set_flag("meter_open", self.isVisible())

    def showEvent(self, event: object) -> None:
        if not self._placed:
            self._placed = True
            # Qt moves a place that lies outside all screens back onto one.
            if self._settings is not None and not self._settings.blob("meter").isEmpty():
                self.restoreGeometry(self._settings.blob("meter"))
        self._render()
        super().showEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        super().closeEvent(event)
        if event.spontaneous() and self._settings is not None:  # the user closed it
            self._settings.set_blob("meter", self.saveGeometry())
            self._settings.set_flag("meter_open", False)
        self.closed.emit()

    def _render(self) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            self._badge.show_status("question", self._texts.tr(N_("Waiting for the first reading")))
            self._speed.setText("— T/s")
            self._reply.hide()
            return
        state = state_view(snapshot.server, snapshot.taken_at_s)
        self._badge.show_status(state.kind, self._texts.tr(state.word))
        speed = snapshot.throughput.generation_tps
        self._speed.setText("— T/s" if speed is None else f"{number(speed)} T/s")
        # Of an engine that tells a speed at the end only: what is known, in its own words.
        words = speed_words(snapshot, self._last) if speed is None else ()
        reply = "\n".join(self._texts.tr(word) for word in words)
        if reply != self._reply.text():
            self._reply.setText(reply)
        self._reply.setVisible(bool(reply))
        labels = [N_("Recording")] * snapshot.recorded + [N_("Demo rig")] * snapshot.demo
        label = ", ".join(self._texts.tr(text) for text in labels)
        if label != self._demo.text():
            self._demo.setText(label)
        self._demo.setVisible(bool(label))
        cards = card_views(snapshot)
        while len(self._rows) < len(cards):
            self._add_row()
        for index, (name, bar, value) in enumerate(self._rows):
            shown = index < len(cards)
            for widget in (name, bar, value):
                widget.setVisible(shown)
            if shown:
                self._fill_row(index, name, bar, value)

    def _fill_row(self, index: int, name: QLabel, bar: ShareBar, value: QLabel) -> None:
        card = card_views(self._snapshot)[index] if self._snapshot else None
        if card is None:
            return
        load = None if card.stale else card.load
        title = self._texts.tr(card.title)
        text = self._texts.tr(card.load_text) if load is not None else "—"
        name.setText(title)
        bar.set_share(load, self._theme.tokens.series[index % len(self._theme.tokens.series)])
        bar.setAccessibleName(title)
        bar.setAccessibleDescription(text)
        value.setText(text)

    def _add_row(self) -> None:
        row = len(self._rows)
        name, bar, value = QLabel(self), ShareBar(self._theme, self), SteadyLabel("100 % ", self)
        name.setBuddy(bar)
        value.setAlignment(Qt.AlignmentFlag.AlignRight)
        for column, widget in enumerate((name, bar, value)):
            self._grid.addWidget(widget, row, column)
        self._rows.append((name, bar, value))
