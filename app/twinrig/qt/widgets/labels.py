"""Labels with a meaning: quiet ones, headings, and a status told by icon and word."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QPalette
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QWidget

from twinrig.qt.icons import Icons
from twinrig.qt.theme import Theme

KIND_ICONS = ("ok", "warn", "fail", "busy", "muted", "question", "info")


class ToneLabel(QLabel):
    """Text in a semantic colour: "ok", "warn", "fail", "busy" or "muted"; "" = normal text."""

    def __init__(self, theme: Theme, tone: str = "muted", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._tone = tone
        theme.changed.connect(self._recolour)
        self._recolour()

    def set_tone(self, tone: str) -> None:
        if tone != self._tone:
            self._tone = tone
            self._recolour()

    def _recolour(self) -> None:
        palette = QPalette()
        if self._tone:
            palette.setColor(QPalette.ColorRole.WindowText, self._theme.tokens.status(self._tone))
        self.setPalette(palette)


def scaled_font(widget: QWidget, factor: float, *, bold: bool = False) -> QFont:
    """The widget's font, larger or smaller; never a fixed number of pixels."""
    font = QFont(widget.font())
    if font.pointSizeF() > 0:
        font.setPointSizeF(font.pointSizeF() * factor)
    if bold:
        font.setWeight(QFont.Weight.DemiBold)
    return font


class Heading(QLabel):
    """Heading of a section."""

    def __init__(self, factor: float = 1.1, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFont(scaled_font(self, factor, bold=True))


class StatusBadge(QWidget):
    """Icon and word; the icon differs in shape as well as in colour.

    A ``sentence`` wraps and is not bold.
    """

    def __init__(
        self,
        theme: Theme,
        icons: Icons,
        factor: float = 1.0,
        parent: QWidget | None = None,
        *,
        sentence: bool = False,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._icons = icons
        self._kind, self._icon = "muted", ""
        self._picture = QLabel(self)
        self._word = ToneLabel(theme, "muted", self)
        self._word.setFont(scaled_font(self, factor, bold=not sentence))
        self._word.setWordWrap(sentence)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self._picture)
        layout.addWidget(self._word, 1)
        if not sentence:
            self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self._redraw)
        self._redraw()

    @property
    def kind(self) -> str:
        return self._kind

    def text(self) -> str:
        """The word now shown."""
        return self._word.text()

    def show_status(self, kind: str, word: str, icon: str = "") -> None:
        """``kind`` as in KIND_ICONS; ``word`` already translated; ``icon`` replaces the usual."""
        if word != self._word.text():
            self._word.setText(word)
            self.setAccessibleName(word)
        if (kind, icon) != (self._kind, self._icon):
            self._kind, self._icon = kind, icon
            self._redraw()

    def _redraw(self) -> None:
        self._word.set_tone(self._kind)
        name = self._icon or (self._kind if self._kind in KIND_ICONS else "question")
        size = round(self._word.fontMetrics().height() * 1.05)
        colour = self._theme.tokens.status(self._kind)
        self._picture.setPixmap(self._icons.pixmap(name, colour, size, self.devicePixelRatioF()))
        self._picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
