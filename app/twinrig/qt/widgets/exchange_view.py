"""One question and its reply: thoughts folded, figures below, copy and ask again beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from twinrig.messages import N_, message
from twinrig.qt.viewmodels.chat import (
    Exchange,
    ReplyState,
    end_line,
    figures_line,
    short_question,
)
from twinrig.qt.widgets.copy_button import CopyButton
from twinrig.qt.widgets.labels import Heading
from twinrig.qt.widgets.parts import Button, Label, ToneIcon, row
from twinrig.qt.widgets.reply_view import LongText, ReplyView
from twinrig.qt.widgets.surface import Surface
from twinrig.services.thinking import Part

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext


class ExchangeView(Surface):
    """Draws an ``Exchange`` as it grows."""

    link_clicked = Signal(str)
    again_wanted = Signal()

    def __init__(
        self, context: PageContext, exchange: Exchange, parent: QWidget | None = None
    ) -> None:
        super().__init__(context.theme, parent)
        self._context = context
        self.exchange = exchange
        bind = context.texts.bind
        self._you = Heading(1.0, self)
        bind(self._you, QLabel.setText, N_("You"))
        self._question = Label(context)
        text, left_out = short_question(exchange.question)
        self._question.setText(text)
        self._more = Label(context, tone="muted")
        self._more.setVisible(left_out > 0)
        if left_out:
            self._more.show_text(message("… and {count} more characters", count=left_out))
        self._model = Heading(1.0, self)
        bind(self._model, QLabel.setText, N_("Model"))
        self._fold = QToolButton(self)
        self._fold.setCheckable(True)
        self._fold.setAutoRaise(True)
        self._fold.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._fold.setArrowType(Qt.ArrowType.RightArrow)
        bind(self._fold, QToolButton.setText, N_("Thoughts of the model"))
        bind(self._fold, QWidget.setAccessibleName, N_("Thoughts of the model"))
        self._fold.toggled.connect(self._unfold)
        self._fold.hide()
        self._thoughts: LongText | None = None
        self.reply = ReplyView(
            lambda widget: bind(widget, QWidget.setAccessibleName, N_("Reply")), self
        )
        self.reply.link_clicked.connect(self.link_clicked)
        self._waiting = Label(context, N_("Waiting for the first token…"), tone="muted")
        self._error_icon = ToneIcon(context, "fail")
        self._error = Label(context, tone="fail")
        self._figures = Label(context, tone="muted")
        self._copy = CopyButton(
            context.texts,
            context.theme,
            context.icons,
            N_("Copy reply"),
            lambda: exchange.reply_text,
            self,
        )
        self._again = Button(
            context,
            N_("Ask again"),
            self.again_wanted.emit,
            icon="refresh",
            tip=N_("Forget this reply and ask the same question again"),
        )
        self._build()
        context.texts.changed.connect(self.render)
        self.render()

    def _build(self) -> None:
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        layout = QVBoxLayout(self)
        layout.setSpacing(4)
        layout.addWidget(self._you)
        layout.addWidget(self._question)
        layout.addWidget(self._more)
        layout.addWidget(self._model)
        layout.addWidget(self._fold, 0, Qt.AlignmentFlag.AlignLeft)
        self._thoughts_place = QVBoxLayout()
        layout.addLayout(self._thoughts_place)
        layout.addWidget(self._waiting)
        layout.addWidget(self.reply)
        error = row(self._error_icon, self._error)
        error.setStretch(1, 1)
        layout.addLayout(error)
        end = row(self._figures, self._copy, self._again)
        end.setStretch(0, 1)
        layout.addLayout(end)

    def take(self, parts: tuple[Part, ...], *, recast: bool) -> None:
        """The parts are in the exchange already; show them."""
        if recast:
            self.reply.show_text(self.exchange.reply_text)
            if self._thoughts is not None:
                self._thoughts.setPlainText(self.exchange.thoughts_text)
        else:
            for part in parts:
                if not part.thought:
                    self.reply.add(part.text)
                elif self._thoughts is not None:
                    self._thoughts.add(part.text)
        self.render()

    def finish(self) -> None:
        """Nothing more comes."""
        self.reply.finish()
        self.render()

    def set_last(self, last: bool) -> None:
        """Only the last question can be asked again."""
        self._again.setVisible(last and not self.exchange.busy)

    def render(self) -> None:
        """Everything but the texts that grow."""
        exchange, tr = self.exchange, self._context.texts.tr
        self._fold.setVisible(bool(exchange.thoughts))
        begun = bool(exchange.reply or exchange.thoughts)
        self._waiting.setVisible(exchange.state is ReplyState.WAITING and not begun)
        self.reply.setVisible(bool(exchange.reply))
        failed = exchange.error is not None
        self._error_icon.setVisible(failed)
        self._error.setVisible(failed)
        self._error.setText(self._context.texts.error(exchange.error) if exchange.error else "")
        lines = [line for line in (figures_line(exchange), end_line(exchange)) if line is not None]
        self._figures.setText("  ".join(tr(line) for line in lines))
        self._copy.setVisible(bool(exchange.reply) and not exchange.busy)

    def _unfold(self, shown: bool) -> None:
        self._fold.setArrowType(Qt.ArrowType.DownArrow if shown else Qt.ArrowType.RightArrow)
        if shown and self._thoughts is None:
            self._thoughts = LongText(self)
            self._thoughts.setFixedHeight(self.fontMetrics().lineSpacing() * 9)
            self._context.texts.bind(
                self._thoughts, QWidget.setAccessibleName, N_("What the model thought")
            )
            self._thoughts.add(self.exchange.thoughts_text)
            self._thoughts_place.addWidget(self._thoughts)
        if self._thoughts is not None:
            self._thoughts.setVisible(shown)
