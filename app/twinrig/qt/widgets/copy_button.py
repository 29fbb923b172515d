"""A button that copies one text and says that it did."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPushButton, QWidget

from twinrig.messages import N_
from twinrig.qt.icons import Icons
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme

SHOWN_MS = 1600


class CopyButton(QPushButton):
    """Copies what ``source()`` returns at the click; shows "Copied" for a moment."""

    def __init__(
        self,
        texts: Texts,
        theme: Theme,
        icons: Icons,
        label: str,
        source: Callable[[], str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._texts = texts
        self._theme = theme
        self._icons = icons
        self._label = label
        self._source = source
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(SHOWN_MS)
        self._timer.timeout.connect(self._rest)
        self.clicked.connect(self._copy)
        theme.changed.connect(self._rest)
        texts.bind(self, QWidget.setAccessibleName, label)
        texts.changed.connect(self._rest)
        self._rest()

    def _copy(self) -> None:
        text = self._source()
        if not text:
            return
        QGuiApplication.clipboard().setText(text)
        # The width stays as it is, so that nothing jumps.
        self.setMinimumWidth(self.width())
        self.setText(self._texts.tr(N_("Copied")))
        self.setIcon(self._icons.icon("ok", self._theme.tokens.ok))
        self._timer.start()

    def _rest(self) -> None:
        self._timer.stop()
        self.setMinimumWidth(0)
        self.setText(self._texts.tr(self._label))
        self.setIcon(self._icons.icon("copy"))
