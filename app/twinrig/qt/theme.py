"""Colours: System, Light or Dark, and the few semantic colours that mean something.

No style sheet anywhere: everything comes from the palette and from these tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

MODES = ("system", "light", "dark")


@dataclass(frozen=True)
class Tokens:
    """Semantic colours of one scheme; text contrast on ``window`` is at least 4.5:1.

    ``series`` are colour-blind safe (after Okabe and Ito), to be used in this order.
    """

    ok: QColor
    warn: QColor
    fail: QColor
    busy: QColor
    muted: QColor
    border: QColor
    card: QColor
    grid: QColor
    series: tuple[QColor, ...]

    def status(self, name: str) -> QColor:
        """Colour of "ok", "warn", "fail", "busy" or "muted"."""
        colours = {"ok": self.ok, "warn": self.warn, "fail": self.fail, "busy": self.busy}
        return colours.get(name, self.muted)


LIGHT = Tokens(
    ok=QColor("#1a7340"),
    warn=QColor("#8a5200"),
    fail=QColor("#b3261e"),
    busy=QColor("#1f5fa8"),
    muted=QColor("#5b6168"),
    border=QColor("#d4d8dd"),
    card=QColor("#ffffff"),
    grid=QColor("#e4e7eb"),
    series=tuple(
        QColor(c) for c in ("#0065a3", "#b34a00", "#00745a", "#a2457f", "#7a6200", "#4f5862")
    ),
)
DARK = Tokens(
    ok=QColor("#6cd292"),
    warn=QColor("#f0b455"),
    fail=QColor("#ff8f86"),
    busy=QColor("#83b8f2"),
    muted=QColor("#a3abb5"),
    border=QColor("#3b4148"),
    card=QColor("#26292d"),
    grid=QColor("#353a40"),
    series=tuple(
        QColor(c) for c in ("#56b4e9", "#f09a4a", "#2fc496", "#e08fbf", "#e6d34a", "#b7bfc9")
    ),
)

_LIGHT_ROLES = {
    QPalette.ColorRole.Window: "#f4f5f7",
    QPalette.ColorRole.WindowText: "#1c1f23",
    QPalette.ColorRole.Base: "#ffffff",
    QPalette.ColorRole.AlternateBase: "#f4f6f8",
    QPalette.ColorRole.Text: "#1c1f23",
    QPalette.ColorRole.Button: "#f7f8fa",
    QPalette.ColorRole.ButtonText: "#1c1f23",
    QPalette.ColorRole.BrightText: "#ffffff",
    QPalette.ColorRole.ToolTipBase: "#ffffff",
    QPalette.ColorRole.ToolTipText: "#1c1f23",
    QPalette.ColorRole.PlaceholderText: "#646b73",
    QPalette.ColorRole.Highlight: "#1f5fa8",
    QPalette.ColorRole.HighlightedText: "#ffffff",
    QPalette.ColorRole.Link: "#1f5fa8",
    QPalette.ColorRole.LinkVisited: "#6a4c93",
    QPalette.ColorRole.Accent: "#1f5fa8",
}
_DARK_ROLES = {
    QPalette.ColorRole.Window: "#1e2124",
    QPalette.ColorRole.WindowText: "#e8eaed",
    # Lighter than window and card: Fusion outlines boxes and radio buttons darker than those.
    QPalette.ColorRole.Base: "#30353a",
    QPalette.ColorRole.AlternateBase: "#363b41",
    QPalette.ColorRole.Text: "#e8eaed",
    QPalette.ColorRole.Button: "#3a3f46",
    QPalette.ColorRole.ButtonText: "#e8eaed",
    QPalette.ColorRole.BrightText: "#ffffff",
    QPalette.ColorRole.ToolTipBase: "#32363b",
    QPalette.ColorRole.ToolTipText: "#e8eaed",
    QPalette.ColorRole.PlaceholderText: "#a6aeb7",
    QPalette.ColorRole.Highlight: "#3a78c2",
    QPalette.ColorRole.HighlightedText: "#ffffff",
    QPalette.ColorRole.Link: "#83b8f2",
    QPalette.ColorRole.LinkVisited: "#c3a6e8",
    QPalette.ColorRole.Accent: "#5a9be0",
    # Unset, these are those of a light palette: Fusion draws the line below tabs with them.
    QPalette.ColorRole.Light: "#565d66",
    QPalette.ColorRole.Midlight: "#484e56",
    QPalette.ColorRole.Mid: "#2b2f34",
    QPalette.ColorRole.Dark: "#191b1e",
    QPalette.ColorRole.Shadow: "#0d0e10",
}


class Theme(QObject):
    """Applies a mode to the application and tells everybody who paints for himself.

    ``changed`` fires after the palette has changed, by us or by the desktop.
    """

    changed = Signal()
    _SCHEMES: ClassVar = {
        "light": Qt.ColorScheme.Light,
        "dark": Qt.ColorScheme.Dark,
        "system": Qt.ColorScheme.Unknown,
    }

    def __init__(self, application: QApplication, mode: str = "system") -> None:
        super().__init__(application)
        self._application = application
        self._applying = False
        self._mode = "system"
        self._dark = False
        application.styleHints().colorSchemeChanged.connect(self._scheme_changed)
        self.apply(mode)

    @property
    def mode(self) -> str:
        """ "system", "light" or "dark" as chosen."""
        return self._mode

    @property
    def dark(self) -> bool:
        """Whether dark colours are shown now."""
        return self._dark

    @property
    def tokens(self) -> Tokens:
        return DARK if self._dark else LIGHT

    def apply(self, mode: str) -> None:
        """Show ``mode`` from now on; an unknown one reads as "system"."""
        self._mode = mode if mode in MODES else "system"
        hints = self._application.styleHints()
        self._applying = True
        try:
            hints.setColorScheme(self._SCHEMES[self._mode])
            scheme = hints.colorScheme()
            wanted = self._SCHEMES[self._mode]
            self._dark = Qt.ColorScheme.Dark in (
                (wanted,) if wanted != Qt.ColorScheme.Unknown else (scheme,)
            )
            if not _native_style(self._application):
                self._use_fusion()
        finally:
            self._applying = False
        self.changed.emit()

    def _use_fusion(self) -> None:
        # The palette is explicit since most Linux platforms ignore setColorScheme.
        if self._application.style().name().lower() != "fusion":
            self._application.setStyle("Fusion")
        self._application.setPalette(palette(self._dark))
        for kind in ("QCheckBox", "QRadioButton"):
            self._application.setPalette(marks_palette(self._dark), kind)

    def _scheme_changed(self, _scheme: Qt.ColorScheme) -> None:
        if not self._applying:
            self.apply(self._mode)


def palette(dark: bool) -> QPalette:
    """The explicit palette of a scheme, disabled colours included."""
    result = QPalette()
    for role, colour in (_DARK_ROLES if dark else _LIGHT_ROLES).items():
        result.setColor(role, QColor(colour))
    faded = QColor("#7d858e" if dark else "#8a9098")
    for role in (
        QPalette.ColorRole.WindowText,
        QPalette.ColorRole.Text,
        QPalette.ColorRole.ButtonText,
    ):
        result.setColor(QPalette.ColorGroup.Disabled, role, faded)
    return result


def marks_palette(dark: bool) -> QPalette:
    """For check boxes and radio buttons: empty, a dark one is seen by its ground alone."""
    result = palette(dark)
    if dark:
        result.setColor(QPalette.ColorRole.Base, QColor("#6f7883"))
        result.setColor(QPalette.ColorGroup.Disabled, QPalette.ColorRole.Base, QColor("#434a52"))
    return result


def is_palette_change(event: QEvent) -> bool:
    """Whether a widget that caches pixmaps must draw them again."""
    return event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange)


def _native_style(application: QApplication) -> bool:
    return application.style().name().lower() == "windows11"
