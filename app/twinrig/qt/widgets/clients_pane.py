"""What to enter in other programs, with the real address and model; the key only on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QComboBox, QPlainTextEdit, QVBoxLayout, QWidget

from twinrig import assets
from twinrig.domain.errors import TwinrigError
from twinrig.domain.metrics import Snapshot
from twinrig.domain.supervision import ServerRecord
from twinrig.messages import N_
from twinrig.qt.widgets.copy_button import CopyButton
from twinrig.qt.widgets.parts import Button, Label, Notice, mono_font, row
from twinrig.services.clients import KEY_PLACE, NO_KEY, load_clients
from twinrig.services.endpoints import key_of

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext


class ClientsPane(QWidget):
    """The key is fetched at the click that copies it, and never shown."""

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._clients = load_clients(assets.read_text)
        self._record: ServerRecord | None = None
        bind = context.texts.bind
        self._choice = QComboBox(self)
        self._choice.addItems([client.name for client in self._clients])
        bind(self._choice, QWidget.setAccessibleName, N_("Client program"))
        self._choice.currentIndexChanged.connect(lambda _row: self._render())
        self._label = Label(context, N_("Client program"))
        self._label.setBuddy(self._choice)
        self._state = Label(context, tone="muted")
        self._help = Label(context)
        self._text = QPlainTextEdit(self)
        self._text.setReadOnly(True)
        self._text.setTabChangesFocus(True)
        self._text.setFont(mono_font(self._text))
        self._text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        bind(self._text, QWidget.setAccessibleName, N_("What to enter"))
        self._copy = CopyButton(
            context.texts, context.theme, context.icons, N_("Copy"), self._snippet, self
        )
        self._copy_key = Button(
            context,
            N_("Copy the key"),
            self._fetch_key,
            icon="key",
            tip=N_("Puts the key of this server on the clipboard; it is not shown"),
        )
        self._to_server = Button(
            context, N_("Start a server"), lambda: context.navigate("server"), icon="server"
        )
        self._notice = Notice(context)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(row(self._label, self._choice, None))
        layout.addWidget(self._state)
        layout.addWidget(self._help)
        layout.addWidget(self._notice)
        layout.addWidget(self._text)
        layout.addLayout(row(self._to_server, None, self._copy_key, self._copy))
        layout.addStretch(1)
        context.live.snapshot.connect(self.take_snapshot)
        context.texts.changed.connect(self._render)
        self._render()

    def take_snapshot(self, snapshot: Snapshot) -> None:
        before, now = self._record, snapshot.server
        old = (before.base_url, before.model_id, before.state) if before else None
        new = (now.base_url, now.model_id, now.state) if now else None
        self._record = now
        if old != new:
            self._render()

    def _snippet(self) -> str:
        return self._text.toPlainText()

    def _render(self) -> None:
        record, tr = self._record, self._context.texts.tr
        known = record is not None and bool(record.base_url)
        client = self._clients[max(0, self._choice.currentIndex())]
        self._help.setText(tr(client.help))
        for widget in (self._text, self._copy, self._copy_key):
            widget.setVisible(known)
        self._to_server.setVisible(not known)
        if record is None or not known:
            self._state.setText(tr(N_("The address appears when a server is started.")))
            self._text.setPlainText("")
            return
        keyed = self._has_key(record)
        self._copy_key.setVisible(keyed)
        self._state.setText(
            tr(N_("In the place of {word} enter the key of this server."), word=KEY_PLACE)
            if keyed
            else tr(N_("This server asks for no key; clients that insist on one take any word."))
        )
        key = KEY_PLACE if keyed else NO_KEY
        self._show(client.snippet(f"{record.base_url}/v1", record.model_id, key))

    def _show(self, snippet: str) -> None:
        """As high as its lines: an empty field below them would look like something missing."""
        self._text.setPlainText(snippet)
        lines = self._text.fontMetrics().lineSpacing() * (snippet.count("\n") + 1)
        edges = self._text.contentsMargins()
        rest = edges.top() + edges.bottom() + 2 * self._text.document().documentMargin()
        bar = self._text.horizontalScrollBar().sizeHint().height()
        self._text.setFixedHeight(round(lines + rest + bar))

    def _has_key(self, record: ServerRecord) -> bool:
        try:
            return bool(self._context.workbench.profiles.load(record.profile_id).network.key_name)
        except TwinrigError:
            return False

    def _fetch_key(self) -> None:
        record, workbench = self._record, self._context.workbench
        if record is None:
            return

        async def fetch() -> str:
            return await key_of(workbench, workbench.profiles.load(record.profile_id)) or ""

        self._context.bridge.submit(fetch(), self, self._got_key, self._notice.tell_error)

    def _got_key(self, key: str) -> None:
        from PySide6.QtGui import QGuiApplication

        if not key:
            self._notice.tell(N_("No key is stored for this server."), tone="warn")
            return
        QGuiApplication.clipboard().setText(key)
        self._notice.tell(N_("The key is on the clipboard."), tone="ok")
