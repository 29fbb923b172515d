"""Where clients connect: the base URL, and buttons that copy what clients ask for."""

from __future__ import annotations

from PySide6.QtWidgets import QGridLayout, QLabel, QLineEdit, QWidget

from twinrig.domain.supervision import ServerRecord
from twinrig.messages import N_
from twinrig.qt.pages.base import PageContext
from twinrig.qt.viewmodels.overview import EndpointView
from twinrig.qt.widgets.copy_button import CopyButton
from twinrig.qt.widgets.labels import Heading, ToneLabel
from twinrig.qt.widgets.lan_switch import LanSwitch
from twinrig.qt.widgets.surface import Surface
from twinrig.qt.widgets.wrapping import wrap_row


class EndpointPanel(Surface):
    """Shows no address while there is none."""

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(context.theme, parent)
        self._context = context
        self._view: EndpointView | None = None
        self._profile_id = ""
        self._with_key = False
        texts = context.texts
        self._heading = Heading(1.0, self)
        texts.bind(self._heading, QLabel.setText, N_("Connect a client"))
        self._hint = ToneLabel(context.theme, "muted", self)
        self._url = QLineEdit(self)
        self._url.setReadOnly(True)
        texts.bind(self._url, QWidget.setAccessibleName, N_("Base URL"))
        self._heading.setBuddy(self._url)
        self._buttons = [
            self._button(N_("Copy base URL"), lambda: self._view.base_url if self._view else ""),
            self._button(N_("Copy model id"), lambda: self._view.model_id if self._view else ""),
            self._button(N_("Copy curl"), self._curl),
        ]
        self._lan = LanSwitch(context, self)
        self._build()
        texts.changed.connect(self._render)
        self._render()

    def show_endpoint(self, view: EndpointView | None, record: ServerRecord | None) -> None:
        """Show another endpoint, or that there is none."""
        if record is not None and record.profile_id != self._profile_id:
            self._profile_id = record.profile_id
            self._ask_key(record.profile_id)
            self._lan.show_profile(record.profile_id)
        if view != self._view:
            if record is not None and view is not None:
                self._lan.show_profile(record.profile_id)
            self._view = view
            self._render()

    def _build(self) -> None:
        layout = QGridLayout(self)
        layout.addWidget(self._heading, 0, 0)
        layout.addWidget(self._hint, 0, 1)
        layout.setColumnStretch(1, 1)
        layout.addLayout(wrap_row(self._url, *self._buttons, stretch=self._url), 1, 0, 1, 2)
        layout.addWidget(self._lan, 2, 0, 1, 2)

    def _button(self, label: str, source: object) -> CopyButton:
        context = self._context
        return CopyButton(context.texts, context.theme, context.icons, label, source, self)

    def _render(self) -> None:
        view, tr = self._view, self._context.texts.tr
        self._url.setText(view.base_url if view else "")
        self._url.setPlaceholderText(tr(N_("The address appears when a server is started.")))
        for button in self._buttons:
            button.setEnabled(view is not None)
        if view is None:
            self._hint.setText("")
        elif view.live:
            self._hint.setText(tr(N_("OpenAI-compatible; model {model}"), model=view.model_id))
        else:
            self._hint.setText(tr(N_("Does not answer yet")))

    def _curl(self) -> str:
        return self._view.curl(self._with_key) if self._view else ""

    def _ask_key(self, profile_id: str) -> None:
        self._with_key = False

        async def wants_key() -> bool:
            return bool(self._context.workbench.profiles.load(profile_id).network.key_name)

        def known(answer: bool) -> None:
            if profile_id == self._profile_id:
                self._with_key = answer

        # A broken profile is the Server page's business; here the command lacks the key only.
        self._context.bridge.submit(wants_key(), self, known, lambda _error: None)
