"""The key of a server: one that was just made, or the user's own; shown here and never again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QDialog, QLineEdit, QVBoxLayout, QWidget

from twinrig.domain.errors import TwinrigError
from twinrig.domain.profile import Profile
from twinrig.messages import N_
from twinrig.qt.widgets.copy_button import CopyButton
from twinrig.qt.widgets.parts import Button, Label, Notice, fit_height, mono_font, row
from twinrig.services.server_key import NO_STORE, ServerKeys, new_key

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext


class KeyDialog(QDialog):
    """``stored`` fires once the key is kept and the profile asks for it."""

    stored = Signal()

    def __init__(
        self, context: PageContext, profile: Profile, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._profile = profile
        bind = context.texts.bind
        title = N_("A key for the server of {name}")
        bind(self, QDialog.setWindowTitle, title, name=profile.name)
        bind(self, QWidget.setAccessibleName, title, name=profile.name)
        body = Label(
            context,
            N_(
                "Whoever uses the server from another device needs this key. It replaces the one "
                "before, and counts from the next start of the server. Copy it now: it is kept, "
                "and not shown again."
            ),
        )
        self.key = QLineEdit(new_key())
        self.key.setFont(mono_font(self.key))
        bind(self.key, QWidget.setAccessibleName, N_("Key"))
        copy = CopyButton(context.texts, context.theme, context.icons, N_("Copy"), self.key.text)
        self.in_file = QCheckBox()
        bind(self.in_file, QCheckBox.setText, N_("Keep it in a file that only this user can read"))
        self.in_file.hide()
        self.notice = Notice(context)
        self.store_button = Button(context, N_("Store the key"), self.store)
        cancel = Button(context, N_("Cancel"), self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(body)
        layout.addLayout(row(self.key, copy))
        layout.addWidget(self.in_file)
        layout.addWidget(self.notice)
        layout.addStretch(1)
        layout.addLayout(row(None, self.store_button, cancel))
        self.key.textChanged.connect(lambda text: self.store_button.setEnabled(bool(text.strip())))
        self.store_button.setDefault(True)
        self.resize(self.fontMetrics().averageCharWidth() * 80, 0)
        fit_height(self)

    def store(self) -> None:
        """Keep it; the dialog closes when that is done."""
        self.store_button.setEnabled(False)
        workbench = self._context.workbench
        keys = ServerKeys(workbench.profiles, workbench.secrets)
        agreed = self.in_file.isVisibleTo(self) and self.in_file.isChecked()
        self._context.bridge.submit(
            keys.give(self._profile.id, self.key.text(), in_file=agreed),
            self,
            lambda _profile: self._stored(),
            self._failed,
        )

    def _stored(self) -> None:
        self.stored.emit()
        self.accept()

    def _failed(self, error: Exception) -> None:
        self.store_button.setEnabled(True)
        if isinstance(error, TwinrigError) and error.finding_id == NO_STORE:
            self.in_file.show()
            self.notice.tell(
                N_("This system has no keyring. May the key be kept in a file?"), tone="warn"
            )
        else:
            self.notice.tell_error(error)
        fit_height(self)
