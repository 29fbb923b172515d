"""The line at the bottom: state, speed and loads on every page, and "Demo rig" when simulated."""

from __future__ import annotations

from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from twinrig.domain.metrics import Snapshot
from twinrig.messages import N_
from twinrig.qt.icons import Icons
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme
from twinrig.qt.viewmodels.figures import LastKnown, speed_words
from twinrig.qt.viewmodels.overview import card_views, state_view
from twinrig.qt.widgets.labels import StatusBadge, ToneLabel
from twinrig.qt.widgets.steady import SteadyLine


class StatusStrip(QWidget):
    """Shows the last snapshot in one line."""

    def __init__(
        self, texts: Texts, theme: Theme, icons: Icons, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._texts = texts
        self._theme = theme
        self._snapshot: Snapshot | None = None
        self._last = LastKnown()
        self._hint = N_("Opening…")
        self._note = ""
        self._is_demo = False
        self._recording_name = ""
        self._badge = StatusBadge(theme, icons, 1.0, self)
        self._figures = SteadyLine(self)
        self._target = ToneLabel(theme, "muted", self)
        self._demo = StatusBadge(theme, icons, 1.0, self)
        self._demo.hide()
        self._recording = StatusBadge(theme, icons, 1.0, self)
        self._recording.hide()
        layout = QHBoxLayout(self)
        layout.setContentsMargins(10, 5, 10, 5)
        layout.setSpacing(14)
        layout.addWidget(self._badge)
        layout.addWidget(self._figures, 1)
        layout.addWidget(self._target)
        layout.addWidget(self._recording)
        layout.addWidget(self._demo)
        texts.changed.connect(self._retranslated)
        self._render()

    @property
    def demo_badge(self) -> StatusBadge:
        return self._demo

    def set_target(self, label: str, demo: bool) -> None:
        """``label`` is a marked sentence."""
        self._is_demo = demo
        self._texts.bind(self._target, QLabel.setText, label)
        self._retranslated()
        self._hint = N_("Waiting for the first reading")
        self._render()

    def show_note(self, note: str) -> None:
        """Show what the panel itself does now (a marked sentence) in place of the figures."""
        self._note = note
        self._render()

    def show_recording(self, name: str) -> None:
        """Say that a recording is shown in place of this machine; "" = it is not."""
        self._recording_name = name
        self._retranslated()

    def show_snapshot(self, snapshot: Snapshot | None, last: LastKnown | None = None) -> None:
        """Show newer figures; None: there are none yet."""
        self._snapshot = snapshot
        self._last = last or LastKnown()
        if self.isVisible():
            self._render()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(QPen(self._theme.tokens.border, 1))
        painter.drawLine(0, 0, self.width(), 0)

    def showEvent(self, event: object) -> None:
        self._render()
        super().showEvent(event)

    def _retranslated(self) -> None:
        tr, name = self._texts.tr, self._recording_name
        if self._is_demo or name:
            # Not at each reading: a tool tip costs an event even when it stays the same.
            self._demo.show_status("warn", tr(N_("Demo rig")), "demo")
            self._demo.setToolTip(tr(N_("Everything shown here is simulated.")))
        self._recording.setVisible(bool(name))
        if name:
            self._recording.show_status("busy", tr(N_("Recording {name}"), name=name), "play")
        self._target.setVisible(not self._is_demo and not name)
        self._render()

    def _render(self) -> None:
        tr = self._texts.tr
        snapshot = self._snapshot
        demo = self._is_demo if snapshot is None else snapshot.demo
        if demo == self._demo.isHidden():
            self._demo.setVisible(demo)
        if snapshot is None:
            self._badge.show_status("muted", tr(self._hint))
            self._figures.setText("")
            return
        state = state_view(snapshot.server, snapshot.taken_at_s)
        self._badge.show_status(state.kind, tr(state.word))
        parts = [tr(word) for word in speed_words(snapshot, self._last)]
        for card in card_views(snapshot):
            shown = "—" if card.stale or card.load is None else tr(card.load_text)
            parts.append(f"{tr(card.title)} {shown}")
        self._figures.setText(tr(self._note) if self._note else "    ".join(parts))
