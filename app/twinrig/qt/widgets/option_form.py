"""The form of a profile's settings, made of the engine's option table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QGroupBox, QVBoxLayout, QWidget

from twinrig.domain.options import Option, OptionGroup
from twinrig.domain.wording import GROUP_WORDS
from twinrig.messages import N_, Message
from twinrig.qt.widgets.option_field import OptionField
from twinrig.qt.widgets.option_filter import OptionFilter
from twinrig.qt.widgets.parts import Label

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext


class OptionForm(QWidget):
    """Sections in the order of the groups; rebuilt when engine, version or mode change."""

    edited = Signal(str, str)

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.fields: dict[str, OptionField] = {}
        self._boxes: list[tuple[QGroupBox, list[OptionField]]] = []
        self.filter = OptionFilter(context)
        self.filter.changed.connect(self._show_wanted)
        self._none = Label(context, N_("No setting has these words."), tone="muted")
        self._layout = QVBoxLayout()
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self.filter)
        outer.addWidget(self._none)
        outer.addLayout(self._layout)
        self._none.hide()

    def build(
        self,
        groups: Mapping[OptionGroup, Sequence[Option]],
        texts: Mapping[str, str],
        *,
        searchable: bool = False,
    ) -> None:
        """Make the fields anew; ``texts`` are their values by option id."""
        self.clear()
        self.filter.setVisible(searchable)
        if not searchable:
            self.filter.clear()
        for group, options in groups.items():
            box = QGroupBox()
            self._context.texts.bind(box, QGroupBox.setTitle, GROUP_WORDS[group])
            self._context.texts.bind(box, QWidget.setAccessibleName, GROUP_WORDS[group])
            grid = QGridLayout(box)
            grid.setColumnStretch(0, 2)
            grid.setColumnStretch(1, 3)
            for number, option in enumerate(options):
                field = OptionField(self._context, option, texts.get(option.id, ""))
                field.edited.connect(self.edited)
                grid.addWidget(field.label, number, 0)
                grid.addWidget(field, number, 1)
                self.fields[option.id] = field
            self._layout.addWidget(box)
            self._boxes.append((box, [self.fields[option.id] for option in options]))
        self._show_wanted()

    def _show_wanted(self) -> None:
        """Hide what the filter does not let through, and sections that have nothing left."""
        for box, fields in self._boxes:
            wanted = [self.filter.lets_through(field) for field in fields]
            for field, show in zip(fields, wanted, strict=True):
                field.setVisible(show)
                field.label.setVisible(show)
            box.setVisible(any(wanted))
        self._none.setVisible(bool(self._boxes) and all(b.isHidden() for b, _ in self._boxes))

    def clear(self) -> None:
        """Remove all fields."""
        self.fields.clear()
        self._boxes.clear()
        while self._layout.count():
            widget = self._layout.takeAt(0).widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()

    def show_faults(self, faults: Mapping[str, Sequence[Message]]) -> set[str]:
        """Faults by option id; returns the ids that have a field here."""
        for name, field in self.fields.items():
            field.faults.show_faults(faults.get(name, ()))
        self._show_wanted()
        return set(faults) & set(self.fields)

    def first_faulty(self) -> QWidget | None:
        """The editor to go to when saving was refused."""
        for field in self.fields.values():
            if field.faults.text:
                return field.editor
        return None
