"""Quick chat with the running server: it proves that everything works, and shows how fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from twinrig.domain.errors import TwinrigError
from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import ANSWERING_STATES
from twinrig.messages import N_, message
from twinrig.qt.bridge import TaskHandle
from twinrig.qt.viewmodels.chat import (
    ChatModel,
    ReplyState,
    Running,
    about_tokens,
    recommended_samplers,
    stream_parts,
)
from twinrig.qt.viewmodels.markdown import may_open
from twinrig.qt.widgets.chat_input import ChatInput
from twinrig.qt.widgets.dialogs import Dialogs, QtDialogs
from twinrig.qt.widgets.exchange_view import ExchangeView
from twinrig.qt.widgets.parts import Button, Label, Notice, row
from twinrig.qt.widgets.sampler_panel import SamplerPanel
from twinrig.qt.widgets.surface import ShareBar
from twinrig.qt.widgets.wrapping import wrap_row
from twinrig.services.thinking import Part

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext


class ChatPane(QWidget):
    """``model`` holds the conversation; it stays in memory and goes to the server only."""

    def __init__(
        self,
        context: PageContext,
        dialogs: Dialogs | None = None,
        open_url: Callable[[QUrl], bool] = QDesktopServices.openUrl,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._dialogs = dialogs or QtDialogs()
        self._open_url = open_url
        self.model = ChatModel()
        self._views: list[ExchangeView] = []
        self._running = Running()
        self._task: TaskHandle | None = None
        self._pastes: list[str] = []
        self._ready_for = ""
        self._build()
        context.live.snapshot.connect(self.take_snapshot)
        context.texts.changed.connect(self._render)
        self._render()

    # -- layout --------------------------------------------------------------------------------

    def _build(self) -> None:
        context = self._context
        bind = context.texts.bind
        self._who = Label(context, tone="muted")
        self._gauge_text = Label(context, tone="muted")
        self._gauge_text.setWordWrap(False)
        self._gauge = ShareBar(context.theme, self)
        self._gauge.setFixedWidth(self.fontMetrics().averageCharWidth() * 16)
        bind(self._gauge, QWidget.setAccessibleName, N_("Context in use"))
        self._new = Button(context, N_("New conversation"), self.clear, icon="add")
        self._more = QToolButton(self)
        self._more.setCheckable(True)
        bind(self._more, QToolButton.setText, N_("Settings of the chat"))
        bind(self._more, QWidget.setAccessibleName, N_("Settings of the chat"))
        self.settings = SamplerPanel(context, self)
        self.settings.setFixedWidth(self.fontMetrics().averageCharWidth() * 36)
        self.settings.hide()
        self._more.toggled.connect(self.settings.setVisible)
        self._notice = Notice(context)
        self._hint = Label(context, tone="muted")
        self._scroll = self._make_scroll()
        self._attached = Label(context, tone="muted")
        self._drop = Button(context, N_("Remove pasted text"), self._drop_pastes, icon="delete")
        self.input = ChatInput(self)
        bind(self.input, QWidget.setAccessibleName, N_("Your question"))
        bind(
            self.input,
            ChatInput.setPlaceholderText,
            N_("Ask something. Enter sends, Shift+Enter begins a new line."),
        )
        self.input.send.connect(self.send)
        self.input.again.connect(self.again)
        self.input.pasted.connect(self._attach)
        self._send = Button(context, N_("Send"), self.send, icon="play", tip=N_("Enter"))
        self._stop = Button(context, N_("Stop reply"), self.stop, icon="stop", tip=N_("Escape"))
        head = wrap_row(
            self._who, self._gauge_text, self._gauge, self._new, self._more, stretch=self._who
        )
        middle = QHBoxLayout()
        middle.addWidget(self._scroll, 1)
        middle.addWidget(self.settings)
        foot = row(self.input, self._send, self._stop)
        foot.setStretch(0, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(head)
        layout.addWidget(self._notice)
        layout.addLayout(middle, 1)
        layout.addLayout(row(self._attached, self._drop, None))
        layout.addLayout(foot)
        escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), self)
        escape.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        escape.activated.connect(self.stop)

    def _make_scroll(self) -> QScrollArea:
        inside = QWidget()
        self._column = QVBoxLayout(inside)
        self._column.setContentsMargins(0, 0, 6, 0)
        self._column.addWidget(self._hint)
        self._column.addStretch(1)
        area = QScrollArea(self)
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(inside)
        bar = area.verticalScrollBar()
        self._follow = True
        bar.valueChanged.connect(lambda v: setattr(self, "_follow", v >= bar.maximum() - 4))
        bar.rangeChanged.connect(lambda _low, high: bar.setValue(high) if self._follow else None)
        return area

    # -- the conversation ----------------------------------------------------------------------

    def send(self) -> None:
        """Ask what stands in the input and what was pasted."""
        text = "\n\n".join([*filter(str.strip, [self.input.toPlainText()]), *self._pastes])
        if not text.strip() or self.model.busy or not self._ready_for:
            return
        self.input.clear()
        self._drop_pastes()
        self._begin(text)

    def again(self) -> None:
        """Ask the last question once more, in the place of its reply."""
        last = self.model.last
        if last is None or self.model.busy or not self._ready_for:
            return
        self.model.exchanges.pop()
        self._remove_view(self._views.pop())
        self._begin(last.question)

    def stop(self) -> None:
        """Hang up; what has come stays."""
        if self._task is None or not self._task.active:
            return
        self._task.cancel()
        self._finish(ReplyState.STOPPED)

    def clear(self) -> None:
        """A new conversation."""
        self.stop()
        self.model.clear()
        for view in self._views:
            self._remove_view(view)
        self._views.clear()
        self._render()
        self.input.setFocus()

    def _begin(self, question: str) -> None:
        self.model.system = self.settings.system
        self.model.samplers = self.settings.values
        self.model.max_tokens = self.settings.max_tokens
        exchange = self.model.ask(question)
        view = ExchangeView(self._context, exchange)
        view.link_clicked.connect(self._link)
        view.again_wanted.connect(self.again)
        self._views.append(view)
        self._column.insertWidget(self._column.count() - 1, view)
        self._follow = True
        self._running = Running()
        self._task = self._context.bridge.submit(
            stream_parts(
                self._context.workbench,
                self.model.messages(),
                self.model.options(),
                self._running,
            ),
            self,
            lambda _nothing: self._finish(ReplyState.DONE),
            self._failed,
            self._arrived,
        )
        self._render()

    def _arrived(self, parts: tuple[Part, ...]) -> None:
        recast = self.model.take(parts)
        if self.model.last is not None and self._views:
            self.model.last.figures = self._running.figures()
            self._views[-1].take(parts, recast=recast)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, TwinrigError):
            self._finish(ReplyState.FAILED, error)
            return
        self._finish(ReplyState.FAILED, TwinrigError(message("The reply failed.")))
        self._context.report(error)

    def _finish(self, state: ReplyState, error: TwinrigError | None = None) -> None:
        self.model.end(state, self._running.figures(), error)
        if self._views:
            self._views[-1].finish()
        self._render()

    def _remove_view(self, view: ExchangeView) -> None:
        self._column.removeWidget(view)
        view.hide()
        view.deleteLater()

    # -- input ---------------------------------------------------------------------------------

    def _attach(self, text: str) -> None:
        self._pastes.append(text)
        self._render()

    def _drop_pastes(self) -> None:
        self._pastes.clear()
        self._render()

    def _link(self, address: str) -> None:
        """Shown first: what a model writes is nobody's recommendation."""
        tr = self._context.texts.tr
        if not may_open(address):
            self._notice.tell(
                N_("This link is not opened: it is no web address: {address}"),
                tone="warn",
                address=address[:300],
            )
            return
        pressed = self._dialogs.choose(
            self,
            tr(N_("Open a link")),
            tr(
                N_("The model wrote this link. Open it in the browser?\n\n{address}"),
                address=address,
            ),
            (tr(N_("Open")), tr(N_("Cancel"))),
            1,
        )
        if pressed == 0:
            self._open_url(QUrl(address))

    # -- what is shown -------------------------------------------------------------------------

    def take_snapshot(self, snapshot: Snapshot) -> None:
        record = snapshot.server
        ready = ""
        if record is not None and record.state in ANSWERING_STATES and record.base_url:
            ready = record.model_id or record.profile_id
        if ready == self._ready_for:
            return
        self._ready_for = ready
        if ready:
            self._context.bridge.submit(
                recommended_samplers(self._context.workbench),
                self,
                self.settings.recommend,
                lambda _error: None,
            )
        self._render()

    def _render(self) -> None:
        tr = self._context.texts.tr
        busy = self.model.busy
        if self._ready_for:
            self._who.setText(tr(N_("You talk to {model} on this machine."), model=self._ready_for))
        else:
            self._who.setText(tr(N_("No server is ready: start one on the page Server.")))
        self._send.setVisible(not busy)
        self._send.setEnabled(bool(self._ready_for))
        self._stop.setVisible(busy)
        self._new.setEnabled(bool(self.model.exchanges))
        self._hint.setVisible(not self.model.exchanges)
        self._hint.setText(
            tr(
                N_(
                    "A first question proves that the server works, and shows how fast it is. "
                    "What you write goes to your own server and nowhere else; it is not kept."
                )
            )
        )
        for view in self._views:
            view.set_last(view is self._views[-1])
        self._render_gauge()
        self._render_pastes()

    def _render_gauge(self) -> None:
        share = self.model.context_share()
        for widget in (self._gauge, self._gauge_text):
            widget.setVisible(share is not None)
        self._gauge.set_share(share)
        if share is not None:
            text = message("Context in use: {percent} %", percent=round(share * 100))
            self._gauge_text.setText(self._context.texts.tr(text))
            self._gauge.setAccessibleDescription(self._gauge_text.text())

    def _render_pastes(self) -> None:
        count = sum(len(text) for text in self._pastes)
        for widget in (self._attached, self._drop):
            widget.setVisible(bool(count))
        if count:
            tokens = sum(about_tokens(text) for text in self._pastes)
            self._attached.show_text(
                message(
                    "Pasted text of {count} characters goes along (about {tokens} tokens).",
                    count=f"{count:,}",
                    tokens=f"{tokens:,}",
                )
            )

    def focus_input(self) -> None:
        """Where one begins to type."""
        QTimer.singleShot(0, self.input, self.input.setFocus)
