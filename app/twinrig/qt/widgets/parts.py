"""Small pieces that pages are made of: named buttons, wrapped labels, an inline notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import (
    QAbstractButton,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QStyleOptionButton,
    QToolButton,
    QWidget,
)

from twinrig.messages import N_, Message

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

Text = Message | str
TONE_ICONS = {
    "ok": "ok",
    "warn": "warn",
    "fail": "fail",
    "busy": "busy",
    "muted": "info",
    "stopped": "muted",
}


class Button(QPushButton):
    """Push button whose text, accessible name and icon follow language and theme."""

    def __init__(
        self,
        context: PageContext,
        text: Text,
        on_click: Callable[[], object] | None = None,
        *,
        icon: str = "",
        tip: Text = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._icon_name = icon
        self.set_text(text)
        if tip:
            context.texts.bind(self, QWidget.setToolTip, tip)
        if on_click is not None:
            self.clicked.connect(lambda: on_click())
        self.setAutoDefault(False)
        context.theme.changed.connect(self._retheme)
        self._retheme()

    def set_text(self, text: Text, **params: object) -> None:
        """Show another text."""
        self._context.texts.bind(self, QAbstractButton.setText, text, **params)
        self._context.texts.bind(self, QWidget.setAccessibleName, text, **params)

    def _retheme(self) -> None:
        if self._icon_name:
            self.setIcon(self._context.icons.icon(self._icon_name))


class LongButton(Button):
    """A button with a sentence: where there is no room its middle is left out."""

    def __init__(self, context: PageContext, text: Text, *, icon: str = "") -> None:
        super().__init__(context, text, icon=icon)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def initStyleOption(self, option: QStyleOptionButton) -> None:
        super().initStyleOption(option)
        # Not by sizeHint, which asks for this option itself.
        room = self.width() - 2 * option.fontMetrics.averageCharWidth()
        option.text = option.fontMetrics.elidedText(self.text(), Qt.TextElideMode.ElideMiddle, room)

    def sizeHint(self) -> QSize:
        # Of the whole sentence, however narrow the button is now.
        wide = self.fontMetrics().horizontalAdvance(self.text())
        hint = super().sizeHint()
        return QSize(wide + 4 * self.fontMetrics().averageCharWidth(), hint.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(self.fontMetrics().averageCharWidth() * 30, self.sizeHint().height())


class Label(QLabel):
    """Wrapped, selectable text in a semantic colour ("" = the palette's)."""

    def __init__(
        self, context: PageContext, text: Text = "", *, tone: str = "", scale: float = 1.0
    ) -> None:
        super().__init__()
        self._context = context
        self._tone = tone
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        if scale != 1.0:
            font = self.font()
            font.setPointSizeF(font.pointSizeF() * scale)
            if scale > 1.0:
                font.setWeight(QFont.Weight.DemiBold)
            self.setFont(font)
        if text:
            self.show_text(text)
        context.theme.changed.connect(self._retheme)
        self._retheme()

    def show_text(self, text: Text, **params: object) -> None:
        """A translated text, kept in the current language."""
        self._context.texts.bind(self, QLabel.setText, text, **params)

    def set_tone(self, tone: str) -> None:
        """Another semantic colour."""
        self._tone = tone
        self._retheme()

    def _retheme(self) -> None:
        palette = QPalette()
        if self._tone:
            palette.setColor(
                QPalette.ColorRole.WindowText, self._context.theme.tokens.status(self._tone)
            )
        self.setPalette(palette)


class ToneIcon(QLabel):
    """The icon of a semantic tone; it never stands without a word beside it."""

    def __init__(self, context: PageContext, tone: str = "muted") -> None:
        super().__init__()
        self._context = context
        self._tone = tone
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        context.theme.changed.connect(self._retheme)
        self._retheme()

    def set_tone(self, tone: str) -> None:
        """Another icon and colour."""
        self._tone = tone
        self._retheme()

    def _retheme(self) -> None:
        colour = self._context.theme.tokens.status(self._tone)
        size = round(self.fontMetrics().height() * 1.2)
        self.setPixmap(
            self._context.icons.icon(TONE_ICONS.get(self._tone, "info"), colour).pixmap(
                QSize(size, size)
            )
        )


class Notice(QFrame):
    """A message inside the page, with up to two actions and a close button; hidden at first."""

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAutoFillBackground(True)
        self._icon = ToneIcon(context)
        self._label = Label(context)
        self._actions = [Button(context, "", icon=""), Button(context, "", icon="")]
        self._callbacks: list[Callable[[], object] | None] = [None, None]
        self._error: BaseException | None = None
        self.message: Text = ""
        self.tone = ""
        for i, button in enumerate(self._actions):
            button.clicked.connect(lambda _=False, i=i: self._act(i))
        self._close = QToolButton()
        self._close.setAutoRaise(True)
        self._close.setText("✕")
        context.texts.bind(self._close, QWidget.setAccessibleName, N_("Close this message"))
        context.texts.bind(self._close, QWidget.setToolTip, N_("Close this message"))
        self._close.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._label, 1)
        for button in self._actions:
            row.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self._close, 0, Qt.AlignmentFlag.AlignTop)
        context.theme.changed.connect(self._retheme)
        context.texts.changed.connect(self._retranslate)
        self._retheme()
        self.hide()

    @property
    def text(self) -> str:
        """What is shown."""
        return self._label.text()

    def tell(
        self,
        text: Text,
        *,
        tone: str = "muted",
        actions: tuple[tuple[Text, Callable[[], object]], ...] = (),
        closable: bool = True,
        **params: object,
    ) -> None:
        """Show a message; the former one goes."""
        self._error, self.message = None, text
        self._label.show_text(text, **params)
        self._show(tone, actions, closable)

    def tell_error(self, error: BaseException) -> None:
        """Show what happened and what to do next."""
        self._error, self.message = error, ""
        self._label.show_text("")
        self._retranslate()
        self._show("fail", (), True)

    def _retranslate(self) -> None:
        if self._error is not None:
            self._label.setText(self._context.texts.error(self._error))
        self.setAccessibleName(self._label.text())

    def _show(
        self, tone: str, actions: tuple[tuple[Text, Callable[[], object]], ...], closable: bool
    ) -> None:
        self.tone = tone
        self._icon.set_tone(tone)
        for i, button in enumerate(self._actions):
            self._callbacks[i] = actions[i][1] if i < len(actions) else None
            if i < len(actions):
                button.set_text(actions[i][0])
            button.setVisible(i < len(actions))
        self._close.setVisible(closable)
        self.setAccessibleName(self._label.text())
        self.show()

    def _act(self, index: int) -> None:
        callback = self._callbacks[index]
        self.hide()
        if callback is not None:
            callback()

    def _retheme(self) -> None:
        palette = QPalette()
        palette.setColor(QPalette.ColorRole.Window, self._context.theme.tokens.card)
        self.setPalette(palette)


class ScrollingRest(QScrollArea):
    """Takes the height that is left on a page and scrolls in it: one scroll bar, not two."""

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self.setMinimumHeight(self.fontMetrics().lineSpacing() * 10)
        self.setWidget(content)


def mono_font(widget: QWidget) -> QFont:
    """The fixed-width font of the desktop at the widget's own size."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setPointSizeF(widget.font().pointSizeF())
    return font


def row(*items: QWidget | None) -> QHBoxLayout:
    """A horizontal layout; None is a stretch."""
    layout = QHBoxLayout()
    layout.setContentsMargins(0, 0, 0, 0)
    for item in items:
        if item is None:
            layout.addStretch(1)
        else:
            layout.addWidget(item)
    return layout


def fit_height(window: QWidget) -> None:
    """Make a window tall enough for its wrapped texts, as far as the screen allows.

    Qt's layouts do not count the height of wrapped labels when a window's content changes.
    """
    layout = window.layout()
    if layout is None:
        return
    layout.activate()
    needed = layout.totalHeightForWidth(window.width())
    room = round(window.screen().availableSize().height() * 0.9)
    if needed > window.height():
        window.resize(window.width(), min(needed, room))
