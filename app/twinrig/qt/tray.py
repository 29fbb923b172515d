"""The tray icon: renders a TrayModel, and reports what was clicked."""

from __future__ import annotations

from PySide6.QtCore import QObject, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QColor, QGuiApplication, QIcon, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from twinrig.qt.icons import Icons
from twinrig.qt.text import Texts
from twinrig.qt.tray_model import BAR_STEPS, MenuEntry, TrayModel

TOOLTIP_MS = 1000
PICTURE_SIZES = (16, 20, 24, 32, 48)
_GROUND = QColor("#8a9098")
_BARS = (QColor("#1f8fd6"), QColor("#e8791f"))
"""Readable on light and dark task bars, and told apart by their place as well."""


class Tray(QObject):
    """``triggered(action, argument)`` for menu and icon; ``about_to_show`` before a menu opens."""

    triggered = Signal(str, str)
    about_to_show = Signal()
    message_clicked = Signal()

    def __init__(self, texts: Texts, icons: Icons, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._texts = texts
        self._icons = icons
        self._model: TrayModel | None = None
        self._pictures: dict[tuple[str, tuple[int | None, ...]], QIcon] = {}
        self._tooltip = ""
        self.menu = QMenu()
        self.menu.aboutToShow.connect(self._fill)
        self._icon = self._make_icon()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(TOOLTIP_MS)
        self._timer.timeout.connect(self._show_tooltip)
        self.tooltip_updates = 0

    def _make_icon(self) -> QSystemTrayIcon | None:
        # Platforms without any desktop warn when an icon is made.
        if QGuiApplication.platformName() in ("offscreen", "minimal", "linuxfb", "eglfs"):
            return None
        icon = QSystemTrayIcon(self)
        icon.setContextMenu(self.menu)
        icon.activated.connect(self._activated)
        icon.messageClicked.connect(self.message_clicked)
        return icon

    def show(self) -> None:
        """Show the icon; on a desktop whose tray starts later, as soon as it is there."""
        if self._icon is not None:
            self._icon.show()

    def hide(self) -> None:
        if self._icon is not None:
            self._icon.hide()

    def geometry(self) -> QRect:
        """Where the icon is on the screen; empty when it is not shown or unknown."""
        return self._icon.geometry() if self._icon is not None else QRect()

    @property
    def available(self) -> bool:
        """Whether this desktop has a tray at all."""
        return self._icon is not None and QSystemTrayIcon.isSystemTrayAvailable()

    def show_model(self, model: TrayModel) -> None:
        """Icon at once, tool tip once a second at most, menu when it opens."""
        old, self._model = self._model, model
        face = (model.icon, model.bars)
        if self._icon is not None and (old is None or (old.icon, old.bars) != face):
            self._icon.setIcon(self._picture(*face))
        if model.tooltip != self._tooltip and not self._timer.isActive():
            self._show_tooltip()
            self._timer.start()
        if old is None:
            self._fill()

    def notify(self, title: str, text: str, *, problem: bool = False) -> None:
        """A system notification."""
        kind = QSystemTrayIcon.MessageIcon
        if self._icon is not None:
            self._icon.showMessage(title, text, kind.Warning if problem else kind.Information)

    def _picture(self, name: str, bars: tuple[int | None, ...]) -> QIcon:
        # Few faces come back all day; Qt keeps copies of what each new one was painted from.
        if (name, bars) not in self._pictures:
            self._pictures[name, bars] = tray_picture(self._icons, name, bars)
        return self._pictures[name, bars]

    def _show_tooltip(self) -> None:
        if self._model is not None and self._model.tooltip != self._tooltip:
            self._tooltip = self._model.tooltip
            if self._icon is not None:
                self._icon.setToolTip(self._tooltip)
            self.tooltip_updates += 1

    def _fill(self) -> None:
        # Rebuilt only here: a menu must not change under the pointer.
        self.about_to_show.emit()
        for submenu in self.menu.findChildren(QMenu):
            submenu.deleteLater()  # clear() takes it out, but lets it live
        self.menu.clear()
        if self._model is not None:
            self._add(self.menu, self._model.menu)

    def _add(self, menu: QMenu, entries: tuple[MenuEntry, ...]) -> None:
        for entry in entries:
            if entry.text is None:
                menu.addSeparator()
                continue
            text = self._texts.tr(entry.text).replace("&", "&&")
            if entry.children:
                self._add(menu.addMenu(text), entry.children)
                continue
            action = QAction(text, menu)
            action.setEnabled(entry.enabled)
            if entry.checked is not None:
                action.setCheckable(True)
                action.setChecked(entry.checked)
            if entry.icon:
                action.setIcon(self._icons.icon(entry.icon))
            action.triggered.connect(
                lambda _checked=False, e=entry: self.triggered.emit(e.action, e.argument)
            )
            menu.addAction(action)

    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason in (
            QSystemTrayIcon.ActivationReason.Trigger,
            QSystemTrayIcon.ActivationReason.DoubleClick,
        ):
            self.triggered.emit("open", "")


def tray_picture(icons: Icons, name: str, bars: tuple[int | None, ...] = ()) -> QIcon:
    """Coloured icon that can be told apart on light and dark task bars, and without colour.

    With ``bars`` the state is drawn smaller, and the load of each card beside it.
    """
    whole = icons.coloured(f"tray-{name}")
    if not bars:
        return whole
    icon = QIcon()
    for size in PICTURE_SIZES:
        icon.addPixmap(_with_bars(whole, size, bars))
    return icon


def _with_bars(whole: QIcon, size: int, bars: tuple[int | None, ...]) -> QPixmap:
    picture = QPixmap(size, size)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    bar = max(2, size // 7)
    room = len(bars) * (bar + 1)
    small = size - room
    painter.drawPixmap(0, size - small, whole.pixmap(QSize(small, small)))
    for index, step in enumerate(bars):
        column = QRect(small + index * (bar + 1) + 1, 0, bar, size)
        if step is None:  # not available: an outline, never an empty bar
            painter.setPen(QPen(_GROUND, 1, Qt.PenStyle.DotLine))
            painter.drawRect(column.adjusted(0, 0, -1, -1))
            continue
        painter.fillRect(column, _GROUND)
        height = max(1, round(size * step / BAR_STEPS))
        column.setTop(size - height)
        painter.fillRect(column, _BARS[index % len(_BARS)])
    painter.end()
    return picture
