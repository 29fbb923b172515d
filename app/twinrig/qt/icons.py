"""Icons from ``resources/icons``: one-colour SVG, drawn in the colours of the theme."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QGuiApplication, QIcon, QPainter, QPalette, QPixmap

from twinrig import assets

_PLACEHOLDER = b"currentColor"
_SIZES = (16, 20, 24, 32, 48, 64)


class Icons:
    """Draws and caches. An icon made here keeps its colours; ask again after a theme change."""

    def __init__(self) -> None:
        self._sources: dict[str, bytes] = {}
        self._cache: dict[tuple[str, str], QIcon] = {}
        self._pixmaps: dict[tuple[str, str, int, float], QPixmap] = {}

    def icon(self, name: str, colour: QColor | None = None) -> QIcon:
        """Icon in ``colour`` (default: the palette's text colour); white when selected."""
        palette = QGuiApplication.palette()
        chosen = colour or palette.color(QPalette.ColorRole.ButtonText)
        selected = palette.color(QPalette.ColorRole.HighlightedText)
        faded = palette.color(QPalette.ColorGroup.Disabled, QPalette.ColorRole.ButtonText)
        key = (name, f"{chosen.name()}{selected.name()}{faded.name()}")
        if key not in self._cache:
            icon = QIcon()
            for size in _SIZES:
                icon.addPixmap(self.pixmap(name, chosen, size), QIcon.Mode.Normal)
                icon.addPixmap(self.pixmap(name, selected, size), QIcon.Mode.Selected)
                icon.addPixmap(self.pixmap(name, faded, size), QIcon.Mode.Disabled)
            self._cache[key] = icon
        return self._cache[key]

    def coloured(self, name: str) -> QIcon:
        """Icon that has colours of its own (the application, the tray)."""
        key = (name, "own")
        if key not in self._cache:
            icon = QIcon()
            for size in _SIZES:
                icon.addPixmap(self.pixmap(name, QColor("black"), size))
            self._cache[key] = icon
        return self._cache[key]

    def pixmap(self, name: str, colour: QColor, size: int, ratio: float = 1.0) -> QPixmap:
        """Square pixmap of ``size`` logical pixels; the same one each time.

        Qt keeps a copy of every pixmap that a label has painted (up to 10 MiB of them), so a state
        that comes back must not bring a new one.
        """
        key = (name, colour.name(), size, ratio)
        if key not in self._pixmaps:
            self._pixmaps[key] = self._draw(name, colour, size, ratio)
        return self._pixmaps[key]

    def _draw(self, name: str, colour: QColor, size: int, ratio: float) -> QPixmap:
        from PySide6.QtSvg import QSvgRenderer  # late: the first paint needs no icon

        pixmap = QPixmap(QSize(round(size * ratio), round(size * ratio)))
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        svg = self._source(name).replace(_PLACEHOLDER, colour.name().encode())
        QSvgRenderer(QByteArray(svg)).render(painter, QRectF(pixmap.rect()))
        painter.end()
        pixmap.setDevicePixelRatio(ratio)
        return pixmap

    def _source(self, name: str) -> bytes:
        if name not in self._sources:
            self._sources[name] = assets.read_bytes(f"icons/{name}.svg")
        return self._sources[name]
