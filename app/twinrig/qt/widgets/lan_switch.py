"""The switch "Reachable from other devices": shows how it is, previews and makes the change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QWidget

from twinrig.domain.checks import Finding
from twinrig.domain.errors import TwinrigError
from twinrig.domain.profile import Profile
from twinrig.fixes.lan_open import NO_KEY
from twinrig.messages import N_, Message, message
from twinrig.qt.widgets.fix_dialog import FixDialog
from twinrig.qt.widgets.key_dialog import KeyDialog
from twinrig.qt.widgets.labels import ToneLabel
from twinrig.qt.widgets.parts import Button
from twinrig.services.lan import LanAnswer, LanState

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

_NOTES: dict[LanAnswer | None, tuple[str, Message]] = {
    LanAnswer.GUARDED: ("ok", message("Other devices: {url}")),
    LanAnswer.UNGUARDED: (
        "fail",
        message("Other devices get in without the key: {url}. Restart the server."),
    ),
    LanAnswer.SILENT: ("muted", message("Other devices: {url} (does not answer yet)")),
}


class LanSwitch(QWidget):
    """For the server of one profile; hidden while there is none."""

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._profile_id = ""
        self._state: LanState | None = None
        self._fault: TwinrigError | None = None
        self.box = QCheckBox(self)
        context.texts.bind(self.box, QCheckBox.setText, N_("Reachable from other devices"))
        self.box.clicked.connect(self._clicked)
        self.note = ToneLabel(context.theme, "muted", self)
        self.note.setWordWrap(True)
        self.note.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.box)
        layout.addWidget(self.note, 1)
        tip = N_("Another key for this server, for its next start")
        self.key_button = Button(context, N_("Key…"), self._new_key, tip=tip)
        layout.addWidget(self.key_button)
        context.texts.changed.connect(self._render)
        self._render()

    def show_profile(self, profile_id: str) -> None:
        """Another profile, or another look at the same."""
        if profile_id != self._profile_id:
            self._state = self._fault = None
        self._profile_id = profile_id
        self._render()
        if profile_id:
            self._look()

    def _look(self) -> None:
        workbench, wanted = self._context.workbench, self._profile_id

        async def look() -> LanState:
            return await workbench.lan().state(workbench.profiles.load(wanted))

        def known(state: LanState) -> None:
            if wanted == self._profile_id:
                self._state = state
                self._render()

        # A broken profile is the Server page's business.
        self._context.bridge.submit(look(), self, known, lambda _error: None)

    def _clicked(self, share: bool) -> None:
        """The box shows what is, not what is wished: it turns when the change was made."""
        self._fault = None
        self._render()
        workbench, wanted = self._context.workbench, self._profile_id

        async def wish() -> tuple[Profile, Finding]:
            profile = workbench.profiles.load(wanted)
            return profile, workbench.lan().wish(profile, share=share)

        self._context.bridge.submit(wish(), self, self._ask, self._refused)

    def _ask(self, wish: tuple[Profile, Finding]) -> None:
        profile, finding = wish
        titles = {check.id: check.title for check in self._context.workbench.preflight.checks}
        dialog = FixDialog(self._context, finding, profile, titles, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.changed.connect(self._look)
        dialog.open()

    def _refused(self, error: Exception) -> None:
        self._fault = error if isinstance(error, TwinrigError) else None
        self._render()
        if self._fault is not None and self._fault.finding_id == NO_KEY:
            self._ask_key(share=True)

    def _new_key(self) -> None:
        self._ask_key(share=False)

    def _ask_key(self, *, share: bool) -> None:
        """With ``share`` the wish that was refused for want of a key is taken up again."""
        try:
            profile = self._context.workbench.profiles.load(self._profile_id)
        except TwinrigError as error:
            self._fault = error
            self._render()
            return
        dialog = KeyDialog(self._context, profile, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.stored.connect(lambda: self._clicked(True) if share else self._look())
        dialog.open()

    def _render(self) -> None:
        self.setVisible(bool(self._profile_id))
        state = self._state
        self.box.setEnabled(state is not None)
        self.box.setChecked(state is not None and state.shared)
        self.key_button.setVisible(state is not None and state.shared)
        tone, text = self._words()
        self.note.set_tone(tone)
        self.note.setText(text)

    def _words(self) -> tuple[str, str]:
        tr, state = self._context.texts.tr, self._state
        if self._fault is not None:
            step = self._fault.next_step
            return "warn", " ".join(tr(part) for part in (self._fault.text, step) if part)
        if state is None or not state.shared:
            return "muted", ""
        if not state.urls:
            return "muted", tr(N_("The address for other devices is not known."))
        tone, words = _NOTES.get(state.answer, _NOTES[LanAnswer.SILENT])
        return tone, tr(Message(words.msgid, {"url": state.urls[0]}))
