"""One row of the form: label with the engine's own key below it, editor, unit and faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFont, QPalette, QWheelEvent
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from twinrig.domain.options import Option, OptionKind
from twinrig.messages import N_, Message
from twinrig.qt.widgets.parts import Label, ToneIcon, mono_font

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

HIGHLIGHT_MS = 4000
LEFT_TO_ENGINE = N_("Left to the engine")


class CalmCombo(QComboBox):
    """A combo box that the mouse wheel does not change while the page is scrolled."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(14)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


class FieldLabel(QWidget):
    """Label of a field; the second line is the name that the engine's own manual uses."""

    def __init__(self, context: PageContext, text: Message | str, key: str, buddy: QWidget) -> None:
        super().__init__()
        self._changed = False
        self._context = context
        self._text = text
        self._label = QLabel()
        self._label.setWordWrap(True)
        self._label.setBuddy(buddy)
        self._label.setTextFormat(Qt.TextFormat.PlainText)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self._label)
        if key:
            second = Label(context, tone="muted", scale=0.9)
            second.setFont(_smaller(mono_font(second)))
            second.setText(key)
            layout.addWidget(second)
        layout.addStretch(1)
        context.texts.bind(self._label, QLabel.setText, text)

    def set_changed(self, changed: bool) -> None:
        """Mark a field that differs from the file."""
        if changed == self._changed:
            return
        self._changed = changed
        bind = self._context.texts.bind
        if changed:
            label = Message(self._text) if isinstance(self._text, str) else self._text
            bind(self._label, QLabel.setText, N_("{label} (changed)"), label=label)
        else:
            bind(self._label, QLabel.setText, self._text)


class FaultLabel(QWidget):
    """What is wrong with the field above; takes no room while nothing is."""

    def __init__(self, context: PageContext) -> None:
        super().__init__()
        self._context = context
        self._faults: tuple[Message, ...] = ()
        self._label = Label(context, tone="fail")
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(ToneIcon(context, "fail"), 0, Qt.AlignmentFlag.AlignTop)
        layout.addWidget(self._label, 1)
        context.texts.changed.connect(self._render)
        self.hide()

    @property
    def text(self) -> str:
        """What is shown."""
        return self._label.text() if self._faults else ""

    def show_faults(self, faults: Sequence[Message]) -> None:
        """Replace the faults."""
        if tuple(faults) != self._faults:
            self._faults = tuple(faults)
            self._render()

    def _render(self) -> None:
        self._label.setText("\n".join(self._context.texts.tr(f) for f in self._faults))
        self.setVisible(bool(self._faults))


class OptionField(QWidget):
    """Editor of one option. ``edited`` carries option id and text; "" leaves it to the engine."""

    edited = Signal(str, str)

    def __init__(self, context: PageContext, option: Option, text: str) -> None:
        super().__init__()
        self._context = context
        self.option = option
        self.editor = self._make_editor()
        self.set_text(text)
        self._connect()
        self.label = FieldLabel(context, option.label, option.engine_key, self.editor)
        self.faults = FaultLabel(context)
        bind = context.texts.bind
        bind(self.editor, QWidget.setAccessibleName, option.label)
        bind(self.editor, QWidget.setToolTip, option.help)
        bind(self.editor, QWidget.setWhatsThis, option.help)
        line = QHBoxLayout()
        line.setContentsMargins(0, 0, 0, 0)
        line.addWidget(self.editor, 1)
        if option.unit:
            unit = Label(context, option.unit, tone="muted")
            unit.setWordWrap(False)
            line.addWidget(unit)
        self._risk = Label(context, option.risk, tone="warn") if option.risk else None
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(line)
        if self._risk is not None:
            layout.addWidget(self._risk)
        layout.addWidget(self.faults)
        layout.addStretch(1)
        self._show_risk()

    @property
    def text(self) -> str:
        """What is typed or chosen; "" = left to the engine."""
        editor = self.editor
        if isinstance(editor, QLineEdit):
            return editor.text()
        if isinstance(editor, QPlainTextEdit):
            return editor.toPlainText()
        if editor.isEditable():
            return editor.currentText()
        return str(editor.currentData() or "")

    def set_text(self, text: str) -> None:
        """Show a value."""
        editor = self.editor
        if isinstance(editor, QLineEdit):
            editor.setText(text)
        elif isinstance(editor, QPlainTextEdit):
            editor.setPlainText(text)
        elif editor.isEditable():
            editor.setEditText(text)
        else:
            index = editor.findData(text)
            if index < 0:  # a value the table does not know: show it, the fault tells the rest
                editor.addItem(text, text)
                index = editor.count() - 1
            editor.setCurrentIndex(index)

    def highlight(self) -> None:
        """Show for a moment that this is the field in question; then it looks as before."""
        self._glow(True)
        QTimer.singleShot(HIGHLIGHT_MS, self, lambda: self._glow(False))

    @property
    def highlighted(self) -> bool:
        return self.autoFillBackground()

    def _glow(self, on: bool) -> None:
        for part in (self, self.label):
            palette = QPalette()
            if on:
                colour = self.palette().color(QPalette.ColorRole.Highlight)
                colour.setAlphaF(0.28)
                palette.setColor(QPalette.ColorRole.Window, colour)
            part.setPalette(palette)
            part.setAutoFillBackground(on)

    def _make_editor(self) -> QLineEdit | QPlainTextEdit | QComboBox:
        kind = self.option.kind
        if kind is OptionKind.BOOL:
            return self._combo((("true", N_("On")), ("false", N_("Off"))))
        if kind is OptionKind.CHOICE and not self.option.free_text:
            return self._combo(tuple((choice, "") for choice in self.option.choices))
        if self.option.choices:
            combo = CalmCombo()
            combo.setEditable(True)
            combo.addItems(["", *self.option.choices])
            self._placeholder(combo.lineEdit())
            return combo
        if kind in (OptionKind.LIST, OptionKind.JSON):
            text = QPlainTextEdit()
            text.setTabChangesFocus(True)
            text.setFont(mono_font(text))
            text.setFixedHeight(text.fontMetrics().lineSpacing() * 4 + 2 * text.frameWidth())
            return text
        line = QLineEdit()
        self._placeholder(line)
        if kind in (OptionKind.INT, OptionKind.FLOAT):
            line.setInputMethodHints(Qt.InputMethodHint.ImhFormattedNumbersOnly)
            policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            line.setSizePolicy(policy)
        return line

    def _combo(self, entries: tuple[tuple[str, str], ...]) -> QComboBox:
        combo = CalmCombo()
        combo.addItem("", "")
        for value, _word in entries:
            combo.addItem(value, value)
        words = (LEFT_TO_ENGINE, *(word for _value, word in entries))
        self._words = words
        self._render_words(combo)
        self._context.texts.changed.connect(self._words_changed)
        return combo

    def _words_changed(self) -> None:
        if isinstance(self.editor, QComboBox):
            self._render_words(self.editor)

    def _render_words(self, combo: QComboBox) -> None:
        for number, word in enumerate(self._words):
            if word:
                combo.setItemText(number, self._context.texts.tr(word))

    def _placeholder(self, line: QLineEdit) -> None:
        self._context.texts.bind(line, QLineEdit.setPlaceholderText, LEFT_TO_ENGINE)

    def _connect(self) -> None:
        editor = self.editor
        if isinstance(editor, QLineEdit | QPlainTextEdit):
            editor.textChanged.connect(self._edited)
        elif editor.isEditable():
            editor.editTextChanged.connect(self._edited)
        else:
            editor.currentIndexChanged.connect(self._edited)

    def _edited(self) -> None:
        self._show_risk()
        self.edited.emit(self.option.id, self.text)

    def _show_risk(self) -> None:
        if self._risk is not None:
            self._risk.setVisible(self.text.strip() not in ("", "false"))


def _smaller(font: QFont) -> QFont:
    font.setPointSizeF(font.pointSizeF() * 0.9)
    return font
