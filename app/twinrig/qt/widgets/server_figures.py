"""Room left in the KV cache, time to the first token, cache hits, energy: one quiet row."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from twinrig.messages import N_
from twinrig.qt.pages.base import PageContext
from twinrig.qt.viewmodels.figures import FiguresView
from twinrig.qt.widgets.labels import ToneLabel
from twinrig.qt.widgets.surface import ShareBar, Surface
from twinrig.qt.widgets.wrapping import wrap_row


class ServerFigures(Surface):
    """Hidden while no server tells any of it."""

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(context.theme, parent)
        self._context = context
        self._view: FiguresView | None = None
        self._title = QLabel(self)
        self._room = QLabel(self)
        self._bar = ShareBar(context.theme, self)
        self._title.setBuddy(self._bar)
        context.texts.bind(self._title, QLabel.setText, N_("Room for conversations"))
        context.texts.bind(self._bar, QWidget.setAccessibleName, N_("KV cache in use"))
        self._facts = ToneLabel(context.theme, "muted", self)
        layout = QVBoxLayout(self)
        layout.setSpacing(4)
        layout.addLayout(wrap_row(self._title, self._room, self._facts, stretch=self._room))
        layout.addWidget(self._bar)
        context.texts.changed.connect(self._render)
        self.hide()

    def show_figures(self, view: FiguresView | None) -> None:
        """Other figures; None hides the row."""
        if view != self._view:
            self._view = view
            self._render()

    def _render(self) -> None:
        view = self._view
        self.setVisible(view is not None)
        if view is None:
            return
        tr = self._context.texts.tr
        self._room.setText(tr(view.room))
        self._bar.set_share(view.used_share)
        self._bar.setAccessibleDescription(tr(view.room))
        self._facts.setText("    ".join(tr(fact) for fact in view.facts))
