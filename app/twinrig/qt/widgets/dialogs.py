"""The few questions pages ask in windows of their own; replaced in tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog, QInputDialog, QLineEdit, QMessageBox, QWidget


class Dialogs(Protocol):
    """Texts are translated already. None or -1 = cancelled."""

    def choose(
        self, parent: QWidget, title: str, text: str, buttons: Sequence[str], default: int
    ) -> int: ...

    def ask_text(self, parent: QWidget, title: str, label: str, text: str) -> str | None: ...

    def open_file(self, parent: QWidget, title: str, pattern: str) -> Path | None: ...

    def save_file(self, parent: QWidget, title: str, name: str, pattern: str) -> Path | None: ...

    def open_folder(self, parent: QWidget, title: str, start: str) -> Path | None: ...

    def show_in_desktop(self, folder: Path) -> bool: ...


class QtDialogs:
    """The native dialogs of the desktop."""

    def choose(
        self, parent: QWidget, title: str, text: str, buttons: Sequence[str], default: int
    ) -> int:
        """Index of the pressed button; the last one is what Escape means."""
        box = QMessageBox(parent)
        box.setWindowTitle(title)
        box.setText(text)
        roles = [QMessageBox.ButtonRole.AcceptRole] * (len(buttons) - 1)
        added = [
            box.addButton(label, role)
            for label, role in zip(
                buttons, [*roles, QMessageBox.ButtonRole.RejectRole], strict=True
            )
        ]
        box.setDefaultButton(added[default])
        box.setEscapeButton(added[-1])
        box.exec()
        pressed = box.clickedButton()
        return added.index(pressed) if pressed in added else -1

    def ask_text(self, parent: QWidget, title: str, label: str, text: str) -> str | None:
        """One line."""
        answer, accepted = QInputDialog.getText(
            parent, title, label, QLineEdit.EchoMode.Normal, text
        )
        return answer.strip() if accepted and answer.strip() else None

    def open_file(self, parent: QWidget, title: str, pattern: str) -> Path | None:
        """A file that exists."""
        name, _ = QFileDialog.getOpenFileName(parent, title, "", pattern)
        return Path(name) if name else None

    def save_file(self, parent: QWidget, title: str, name: str, pattern: str) -> Path | None:
        """A file to write; the dialog has asked about replacing it."""
        chosen, _ = QFileDialog.getSaveFileName(parent, title, name, pattern)
        return Path(chosen) if chosen else None

    def open_folder(self, parent: QWidget, title: str, start: str) -> Path | None:
        """A folder that exists."""
        chosen = QFileDialog.getExistingDirectory(parent, title, start)
        return Path(chosen) if chosen else None

    def show_in_desktop(self, folder: Path) -> bool:
        """Open the folder in the desktop's own file manager."""
        return QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
