"""Says that a recording is shown, of when, and leads back to this machine."""

from __future__ import annotations

from PySide6.QtCore import QDateTime, QLocale, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QWidget

from twinrig.messages import N_, message
from twinrig.qt.pages.base import PageContext
from twinrig.qt.widgets.labels import StatusBadge
from twinrig.qt.widgets.parts import Button
from twinrig.qt.widgets.surface import Surface

SPEEDS = (1.0, 4.0, 16.0)


class RecordingBar(Surface):
    """Hidden while the machine itself is shown. ``close_wanted`` when the user has seen enough."""

    close_wanted = Signal()

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(context.theme, parent)
        self._context = context
        self.badge = StatusBadge(context.theme, context.icons, 1.0, self, sentence=True)
        self.speed = QComboBox(self)
        for speed in SPEEDS:
            self.speed.addItem("", speed)
        context.texts.bind(
            self.speed, QWidget.setAccessibleName, N_("How fast the recording is shown")
        )
        self.speed.currentIndexChanged.connect(
            lambda index: context.live.set_speed(SPEEDS[max(index, 0)])
        )
        self.again = Button(context, N_("From the beginning"), self._play_again, icon="refresh")
        self.close_button = Button(
            context, N_("Back to this machine"), self.close_wanted.emit, icon="undo"
        )
        row = QHBoxLayout(self)
        row.setContentsMargins(10, 6, 10, 6)
        row.addWidget(self.badge, 1)
        for widget in (self.speed, self.again, self.close_button):
            row.addWidget(widget)
        context.texts.changed.connect(self.render)
        context.live.recording_changed.connect(self.render)
        self.render()

    def render(self) -> None:
        """What is shown, and of when; costs nothing when it is the same second still."""
        live, tr = self._context.live, self._context.texts.tr
        self.setVisible(live.recording is not None)
        if live.recording is None:
            return
        for index, speed in enumerate(SPEEDS):
            words = message("Real time") if speed == 1 else message("{n} times", n=int(speed))
            self.speed.setItemText(index, tr(words))
        name = live.recording.name
        text = tr(message("Recording {name}", name=name))
        if live.latest is not None:
            moment = QDateTime.fromSecsSinceEpoch(int(live.latest.taken_at_s))
            locale = QLocale(self._context.texts.language)
            when = locale.toString(moment, QLocale.FormatType.ShortFormat)
            text = tr(message("Recording {name} of {time}", name=name, time=when))
        if live.at_end:
            text = tr(message("Recording {name}: this is its end", name=name))
        self.badge.show_status("busy" if not live.at_end else "muted", text, "play")

    def _play_again(self) -> None:
        if self._context.live.recording is not None:
            self._context.live.open_recording(self._context.live.recording)
