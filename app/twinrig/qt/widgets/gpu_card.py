"""One graphics card at a glance; what is not available is said in words."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from twinrig.messages import N_, Message
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme
from twinrig.qt.viewmodels.overview import CardView
from twinrig.qt.widgets.labels import Heading, ToneLabel, scaled_font
from twinrig.qt.widgets.steady import SteadyLabel, SteadyLine
from twinrig.qt.widgets.surface import ShareBar, Surface

_FACTS = (
    ("temperature_text", N_("Temperature")),
    ("power_text", N_("Power")),
    ("clock_text", N_("Clock")),
)


class GpuCard(Surface):
    """Load, memory, temperature, power and clock of one card, in the colour of its series."""

    def __init__(
        self, texts: Texts, theme: Theme, series: int, parent: QWidget | None = None
    ) -> None:
        super().__init__(theme, parent)
        self._texts = texts
        self._series = series
        self._view: CardView | None = None
        self._title = Heading(1.0, self)
        self._name = ToneLabel(theme, "muted", self)
        self._load = SteadyLabel("100 %", self)
        self._load.setFont(scaled_font(self._load, 1.7, bold=True))
        self._load.setAlignment(Qt.AlignmentFlag.AlignRight)
        self._load_bar = ShareBar(theme, self)
        self._memory = SteadyLabel("88.8 / 88.8 GiB", self)
        self._memory.setAlignment(Qt.AlignmentFlag.AlignRight)
        self._memory_bar = ShareBar(theme, self)
        self._facts = {name: SteadyLabel("888 of 888 W", self) for name, _ in _FACTS}
        self._limits = SteadyLine(self)
        self._limits.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._stale = ToneLabel(theme, "warn", self)
        self._stale.setWordWrap(True)
        texts.bind(self._stale, QLabel.setText, N_("Last known values: the card does not answer."))
        self._build()
        texts.changed.connect(self._render)
        theme.changed.connect(self._render)

    def show_card(self, view: CardView) -> None:
        """Show another reading; nothing happens when it is the same."""
        before, self._view = self._view, view
        if before is None or replace(before, load=view.load, load_text=view.load_text) != view:
            self._render()
        elif before != view:
            self._render_load(view)  # what changes each second, alone

    def _build(self) -> None:
        layout = QVBoxLayout(self)
        layout.setSpacing(4)
        head = QHBoxLayout()
        head.addWidget(self._title)
        head.addWidget(self._name, 1)
        head.addWidget(self._load, 0, Qt.AlignmentFlag.AlignRight)
        layout.addLayout(head)
        layout.addWidget(self._load_bar)
        memory = QHBoxLayout()
        label = self._quiet(N_("Memory"))
        label.setBuddy(self._memory_bar)
        memory.addWidget(label)
        memory.addStretch(1)
        memory.addWidget(self._memory)
        layout.addLayout(memory)
        layout.addWidget(self._memory_bar)
        layout.addLayout(self._fact_grid())
        layout.addWidget(self._stale)
        self._stale.hide()
        self._name.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._texts.bind(self._load_bar, QWidget.setAccessibleName, N_("Load"))
        self._texts.bind(self._memory_bar, QWidget.setAccessibleName, N_("Memory"))

    def _fact_grid(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setContentsMargins(0, 4, 0, 0)
        grid.setVerticalSpacing(0)
        grid.setHorizontalSpacing(14)
        for column, (name, title) in enumerate(_FACTS):
            grid.addWidget(self._quiet(title), 0, column)
            grid.addWidget(self._facts[name], 1, column)
            grid.setColumnStretch(column, 1)
        self._traffic_title = self._quiet(N_("PCIe GB/s"))
        self._traffic = SteadyLabel("88.8 / 88.8", self)
        for row, label in enumerate((self._traffic_title, self._traffic)):
            label.hide()
            grid.addWidget(label, row, len(_FACTS) + 1)
        self._limit_title = self._quiet(N_("Limited by"))
        self._limit_title.hide()
        grid.addWidget(self._limit_title, 0, len(_FACTS))
        grid.addWidget(self._limits, 1, len(_FACTS))
        grid.setColumnStretch(len(_FACTS), 1)
        return grid

    def _quiet(self, text: str) -> ToneLabel:
        label = ToneLabel(self._theme, "muted", self)
        self._texts.bind(label, QLabel.setText, text)
        return label

    def _render(self) -> None:
        view = self._view
        if view is None:
            return
        colour = self._theme.tokens.series[self._series % len(self._theme.tokens.series)]
        title = self._tr(view.title)
        if title != self._title.text():
            self._title.setText(title)
        if self._name.text() != view.name:
            self._name.setText(view.name)
            self._name.setToolTip(view.name)
        self._render_load(view)
        self._memory.setText(self._tr(view.memory_text))
        self._memory_bar.set_share(view.memory, colour)
        self._memory_bar.setAccessibleDescription(self._tr(view.memory_text))
        for name, label in self._facts.items():
            label.setText(self._tr(getattr(view, name)))
        self._stale.setVisible(view.stale)
        for label in (self._traffic_title, self._traffic):
            label.setVisible(view.traffic_text is not None)
        self._traffic.setText("" if view.traffic_text is None else self._tr(view.traffic_text))
        limits = ", ".join(self._texts.tr(word) for word in view.limits)
        self._limits.setText(limits)
        self._limit_title.setVisible(bool(limits))
        name = f"{self._tr(view.title)} {view.name}"
        if name != self.accessibleName():
            self.setAccessibleName(name)

    def _render_load(self, view: CardView) -> None:
        text = self._tr(view.load_text)
        self._load.setText(text)
        tokens = self._theme.tokens
        self._load_bar.set_share(view.load, tokens.series[self._series % len(tokens.series)])
        self._load_bar.setAccessibleDescription(text)

    def _tr(self, text: Message) -> str:
        return self._texts.tr(text)
