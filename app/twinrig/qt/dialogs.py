"""The questions and the one complaint of the panel: quit, a file, and what went wrong."""

from __future__ import annotations

import traceback
from enum import Enum
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from twinrig.domain.errors import TwinrigError
from twinrig.messages import N_
from twinrig.qt.text import Texts


class QuitAnswer(Enum):
    """What happens to the running server."""

    LEAVE = "leave"
    STOP = "stop"
    CANCEL = "cancel"


def ask_quit(texts: Texts, model: str, parent: QWidget | None) -> QuitAnswer:
    """Ask about the running server; leaving it running is the default."""
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Question)
    box.setWindowTitle(texts.tr(N_("Quit Twinrig")))
    box.setText(texts.tr(N_("A server is running: {model}"), model=model))
    box.setInformativeText(
        texts.tr(N_("It can go on without this window; Twinrig finds it again at the next start."))
    )
    leave = box.addButton(texts.tr(N_("Leave it running")), QMessageBox.ButtonRole.AcceptRole)
    stop = box.addButton(texts.tr(N_("Stop the server")), QMessageBox.ButtonRole.DestructiveRole)
    cancel = box.addButton(texts.tr(N_("Cancel")), QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(leave)
    box.setEscapeButton(cancel)
    _name_buttons(box)
    box.exec()
    answers = {leave: QuitAnswer.LEAVE, stop: QuitAnswer.STOP}
    return answers.get(box.clickedButton(), QuitAnswer.CANCEL)


def ask_switch(texts: Texts, running: str, wanted: str, parent: QWidget | None) -> bool:
    """Whether to stop the running server for another one; keeping it is the default."""
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Question)
    box.setWindowTitle(texts.tr(N_("Switch the profile")))
    text = N_("Stop the server of {running} and start {wanted}?")
    box.setText(texts.tr(text, running=running, wanted=wanted))
    box.setInformativeText(texts.tr(N_("Replies that are being written are cut off.")))
    switch = box.addButton(texts.tr(N_("Stop and start")), QMessageBox.ButtonRole.AcceptRole)
    keep = box.addButton(texts.tr(N_("Keep it running")), QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(keep)
    box.setEscapeButton(keep)
    _name_buttons(box)
    box.exec()
    return box.clickedButton() is switch


def ask_recording(texts: Texts, parent: QWidget | None) -> Path | None:
    """Which recording to show; None when the user thinks better of it."""
    kinds = f"{texts.tr(N_('Recordings'))} (*.jsonl);;{texts.tr(N_('All files'))} (*)"
    name, _kind = QFileDialog.getOpenFileName(parent, texts.tr(N_("Open a recording")), "", kinds)
    return Path(name) if name else None


def error_box(texts: Texts, error: BaseException, parent: QWidget | None) -> QMessageBox:
    """What happened and what to do next; the trace of an unexpected one is in the details."""
    expected = isinstance(error, TwinrigError)
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Warning if expected else QMessageBox.Icon.Critical)
    box.setWindowTitle("Twinrig")
    what, _, next_step = texts.error(error).partition("\n")
    box.setText(what)
    box.setInformativeText(next_step)
    if not expected:
        box.setDetailedText("".join(traceback.format_exception(error)))
    close = box.addButton(texts.tr(N_("Close")), QMessageBox.ButtonRole.AcceptRole)
    box.setEscapeButton(close)
    _name_buttons(box)
    return box


def _name_buttons(box: QMessageBox) -> None:
    for button in box.buttons():
        button.setAccessibleName(button.text().replace("&", ""))
