"""The phases of a start: what is done, what runs, how long it took last time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QProgressBar, QWidget

from twinrig.domain.quantities import duration
from twinrig.messages import N_
from twinrig.qt.viewmodels.server import PhaseRow, PhaseState
from twinrig.qt.widgets.parts import Label, ToneIcon

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

TONES = {
    PhaseState.DONE: "ok",
    PhaseState.RUNNING: "busy",
    PhaseState.STUCK: "fail",
    PhaseState.ENDED: "muted",
}
WORDS = {
    PhaseState.DONE: N_("done"),
    PhaseState.RUNNING: N_("running"),
    PhaseState.STUCK: N_("failed here"),
    PhaseState.ENDED: N_("stopped here"),
}
_PARTS = 1000


class PhaseList(QWidget):
    """Lines are made once and reused, so that a tick paints only what changed."""

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._lines: list[tuple[ToneIcon, Label, QProgressBar, Label]] = []
        self._grid = QGridLayout(self)
        self._grid.setColumnStretch(2, 1)
        self._empty = Label(
            context,
            N_("The steps of the next start appear here, each with its time."),
            tone="muted",
        )
        self._grid.addWidget(self._empty, 0, 0, 1, 4, Qt.AlignmentFlag.AlignTop)
        context.texts.bind(self, QWidget.setAccessibleName, N_("Steps of the start"))

    def show_rows(self, rows: tuple[PhaseRow, ...]) -> None:
        """Show these phases, in order."""
        self._empty.setVisible(not rows)
        while len(self._lines) < len(rows):
            self._add_line()
        for number, line in enumerate(self._lines):
            for widget in line:
                widget.setVisible(number < len(rows))
            if number < len(rows):
                self._fill(line, rows[number])
                # A full bar says no more than the tick beside it.
                line[2].setVisible(rows[number].state is PhaseState.RUNNING)
        for number in range(self._grid.rowCount()):
            self._grid.setRowStretch(number, 0)
        self._grid.setRowStretch(len(self._lines) + 1, 1)

    def _add_line(self) -> None:
        bar = QProgressBar()
        bar.setTextVisible(False)
        bar.setRange(0, _PARTS)
        line = (ToneIcon(self._context), Label(self._context), bar, Label(self._context))
        line[1].setWordWrap(False)
        line[3].setWordWrap(False)
        line[3].setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        for column, widget in enumerate(line):
            self._grid.addWidget(widget, len(self._lines), column)
        self._lines.append(line)

    def _fill(self, line: tuple[ToneIcon, Label, QProgressBar, Label], row: PhaseRow) -> None:
        icon, word, bar, time = line
        tr = self._context.texts.tr
        icon.set_tone(TONES[row.state])
        word.setText(tr(row.word))
        fraction = row.fraction
        busy = fraction is None and row.state is PhaseState.RUNNING
        bar.setRange(0, 0 if busy else _PARTS)
        bar.setValue(0 if fraction is None else round(fraction * _PARTS))
        name = tr(N_("{phase}: {state}"), phase=tr(row.word), state=tr(WORDS[row.state]))
        bar.setAccessibleName(name)
        time.setText(self._time(row))

    def _time(self, row: PhaseRow) -> str:
        elapsed = duration(row.elapsed_s)
        if row.state is PhaseState.RUNNING and row.expected_s:
            expected = duration(row.expected_s)
            return self._context.texts.tr(
                N_("{elapsed} of about {expected}"), elapsed=elapsed, expected=expected
            )
        return self._context.texts.tr(elapsed)
