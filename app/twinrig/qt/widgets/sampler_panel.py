"""System prompt and sampling values of a chat; what the model recommends is said beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QCheckBox,
    QDoubleSpinBox,
    QGridLayout,
    QPlainTextEdit,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from twinrig.messages import N_, Message, message
from twinrig.qt.widgets.parts import Button, Label
from twinrig.services.sampler_defaults import SAMPLERS, Sampler

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

MAX_REPLY_TOKENS = 1_000_000


class SamplerPanel(QWidget):
    """``changed`` fires when anything was edited. A value that is not ticked is the server's."""

    changed = Signal()

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._recommended: dict[str, float] = {}
        self._touched: set[str] = set()
        bind = context.texts.bind
        self._system = QPlainTextEdit(self)
        self._system.setTabChangesFocus(True)
        self._system.setFixedHeight(self.fontMetrics().lineSpacing() * 5)
        bind(self._system, QWidget.setAccessibleName, N_("System prompt"))
        bind(
            self._system,
            QPlainTextEdit.setPlaceholderText,
            N_("What the model is told before the conversation; empty = nothing"),
        )
        self._system.textChanged.connect(self.changed)
        self._origin = Label(context, tone="muted")
        self._ticks: dict[str, QCheckBox] = {}
        self._fields: dict[str, QSpinBox | QDoubleSpinBox] = {}
        self._reset = Button(context, N_("Use the model's values"), self.reset, icon="undo")
        self._build()
        context.texts.changed.connect(self._render)
        self._render()

    @property
    def system(self) -> str:
        """The system prompt."""
        return self._system.toPlainText()

    @property
    def values(self) -> dict[str, float]:
        """Ticked values by key."""
        return {
            key: float(self._fields[key].value())
            for key, tick in self._ticks.items()
            if tick.isChecked() and key in {sampler.key for sampler in SAMPLERS}
        }

    @property
    def max_tokens(self) -> int | None:
        """Longest reply; None leaves it to the server."""
        ticked = self._ticks["max_tokens"].isChecked()
        return int(self._fields["max_tokens"].value()) if ticked else None

    def recommend(self, values: Mapping[str, float]) -> None:
        """What the model's makers recommend; values that the user set stay."""
        self._recommended = dict(values)
        for sampler in SAMPLERS:
            if sampler.key not in self._touched:
                self._put(sampler)
        self._render()

    def reset(self) -> None:
        """Back to what the model recommends."""
        self._touched.clear()
        for sampler in SAMPLERS:
            self._put(sampler)
        self.changed.emit()

    def _put(self, sampler: Sampler) -> None:
        tick, field = self._ticks[sampler.key], self._fields[sampler.key]
        for widget in (tick, field):
            widget.blockSignals(True)
        value = self._recommended.get(sampler.key)
        tick.setChecked(value is not None)
        field.setEnabled(value is not None)
        shown = sampler.neutral if value is None else value
        field.setValue(int(shown) if isinstance(field, QSpinBox) else shown)
        for widget in (tick, field):
            widget.blockSignals(False)

    def _build(self) -> None:
        context = self._context
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(Label(context, N_("System prompt")))
        layout.addWidget(self._system)
        layout.addWidget(self._origin)
        grid = QGridLayout()
        for number, sampler in enumerate(SAMPLERS):
            self._add_row(grid, number, sampler.key, sampler.label, sampler.help, _field(sampler))
        length = QSpinBox()
        length.setRange(1, MAX_REPLY_TOKENS)
        length.setValue(1024)
        self._add_row(
            grid,
            len(SAMPLERS),
            "max_tokens",
            N_("Longest reply"),
            N_("In tokens; not ticked, the server decides."),
            length,
        )
        grid.setColumnStretch(0, 1)
        layout.addLayout(grid)
        layout.addWidget(self._reset)
        layout.addStretch(1)

    def _add_row(
        self,
        grid: QGridLayout,
        number: int,
        key: str,
        label: str,
        tip: str,
        field: QSpinBox | QDoubleSpinBox,
    ) -> None:
        bind = self._context.texts.bind
        tick = QCheckBox(self)
        bind(tick, QCheckBox.setText, label)
        bind(tick, QWidget.setAccessibleName, label)
        bind(tick, QWidget.setToolTip, tip)
        bind(field, QWidget.setToolTip, tip)
        bind(field, QWidget.setAccessibleName, N_("Value of {name}"), name=Message(label))
        field.setEnabled(False)
        field.setButtonSymbols(QAbstractSpinBox.ButtonSymbols.UpDownArrows)
        tick.toggled.connect(field.setEnabled)
        tick.toggled.connect(lambda _on, key=key: self._edited(key))
        field.valueChanged.connect(lambda _value, key=key: self._edited(key))
        self._ticks[key], self._fields[key] = tick, field
        grid.addWidget(tick, number, 0)
        grid.addWidget(field, number, 1)

    def _edited(self, key: str) -> None:
        self._touched.add(key)
        self.changed.emit()

    def _render(self) -> None:
        text = message("Sampling as the model's makers recommend")
        if not self._recommended:
            text = message("Sampling: the model recommends nothing; the server decides")
        self._origin.show_text(text)


def _field(sampler: Sampler) -> QSpinBox | QDoubleSpinBox:
    if sampler.whole:
        whole = QSpinBox()
        whole.setRange(int(sampler.minimum), int(sampler.maximum))
        return whole
    field = QDoubleSpinBox()
    field.setRange(sampler.minimum, sampler.maximum)
    field.setSingleStep(0.05)
    field.setDecimals(2)
    return field
