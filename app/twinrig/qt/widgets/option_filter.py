"""Finds settings in a long form: by words, and only those that the profile sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLineEdit, QWidget

from twinrig.messages import N_
from twinrig.qt.widgets.option_field import OptionField

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext


class OptionFilter(QWidget):
    """A search field and a box to tick. ``changed`` after each change of either."""

    changed = Signal()

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.words = QLineEdit()
        self.words.setClearButtonEnabled(True)
        self.set_only = QCheckBox()
        bind = context.texts.bind
        bind(self.words, QLineEdit.setPlaceholderText, N_("Search the settings"))
        bind(self.words, QWidget.setAccessibleName, N_("Search the settings"))
        bind(self.set_only, QCheckBox.setText, N_("Only those set in this profile"))
        bind(self.set_only, QWidget.setAccessibleName, N_("Only those set in this profile"))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.words, 1)
        layout.addWidget(self.set_only)
        self.words.textChanged.connect(self.changed)
        self.set_only.toggled.connect(self.changed)

    def clear(self) -> None:
        """Show everything again."""
        self.words.clear()
        self.set_only.setChecked(False)

    def lets_through(self, field: OptionField) -> bool:
        """Whether the field is wanted. One with a fault always is: saving waits for it; nor
        does one vanish while it is edited."""
        if field.faults.text or field.editor.hasFocus():
            return True
        if self.set_only.isChecked() and not field.text:
            return False
        option = field.option
        tr = self._context.texts.tr
        text = " ".join((tr(option.label), tr(option.help), option.engine_key, option.id))
        return all(word in text.casefold() for word in self.words.text().casefold().split())
