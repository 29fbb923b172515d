"""What one check found: summary, what to do, evidence, and a button per fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QAbstractButton,
    QPlainTextEdit,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from twinrig.domain.checks import CheckResult, Finding, Status
from twinrig.domain.fixes import FixPlan, Guidance
from twinrig.domain.profile import Profile
from twinrig.messages import N_
from twinrig.qt.bridge import TaskHandle
from twinrig.qt.viewmodels.preflight import CheckRow, RowState
from twinrig.qt.viewmodels.setting_up import engine_of_finding
from twinrig.qt.widgets.parts import Button, Label, mono_font
from twinrig.qt.widgets.setup_dialog import open_setup

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

MAX_EVIDENCE_LINES = 14


class CheckDetail(QScrollArea):
    """Asks for the fixes of a finding when it is looked at; ``fix_requested`` carries one.

    ``machine_changed``: an engine was set up.
    """

    fix_requested = Signal(object)
    machine_changed = Signal()

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._row: CheckRow | None = None
        self._asked: tuple[Finding, Profile | None] | None = None
        self._options: tuple[FixPlan | Guidance, ...] = ()
        self._task: TaskHandle | None = None
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        context.texts.bind(self, QWidget.setAccessibleName, N_("Details of the check"))
        self._title = Label(context, scale=1.1)
        self._summary = Label(context)
        self._next = Label(context)
        self._fix_note = Label(context, tone="muted")
        self._fix_row = QVBoxLayout()
        self._fix_row.setContentsMargins(0, 0, 0, 0)
        self._toggle = QToolButton()
        self._toggle.setCheckable(True)
        self._toggle.setAutoRaise(True)
        self._toggle.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        context.texts.bind(self._toggle, QAbstractButton.setText, N_("Evidence"))
        context.texts.bind(self._toggle, QWidget.setAccessibleName, N_("Evidence"))
        context.texts.bind(
            self._toggle, QWidget.setToolTip, N_("What was asked, and what the machine answered")
        )
        self._toggle.toggled.connect(self._render_evidence)
        self._evidence = QPlainTextEdit()
        self._evidence.setReadOnly(True)
        self._evidence.setTabChangesFocus(True)
        self._evidence.setFont(mono_font(self._evidence))
        context.texts.bind(self._evidence, QWidget.setAccessibleName, N_("Evidence of the check"))
        inner = QWidget()
        layout = QVBoxLayout(inner)
        for widget in (self._title, self._summary, self._next, self._fix_note):
            layout.addWidget(widget)
        layout.addLayout(self._fix_row)
        layout.addWidget(self._toggle)
        layout.addWidget(self._evidence)
        layout.addStretch(1)
        self.setWidget(inner)

    def show_row(self, row: CheckRow | None, profile: Profile | None) -> None:
        """Show another check, or the same with another answer."""
        self._row = row
        self._render_text()
        self._render_evidence()
        finding = row.finding if row is not None and row.fixable else None
        if finding is None:
            self._forget_fixes()
        elif self._asked != (finding, profile):
            self._ask(finding, profile)
        else:
            self._render_fixes()

    def _render_text(self) -> None:
        row = self._row
        tr = self._context.texts.tr
        result = None if row is None else row.result
        if row is None:
            self._title.show_text(N_("Choose a check to see what it found."))
        else:
            self._title.show_text(row.title)
        self._summary.setText(tr(result.summary) if result is not None else "")
        self._summary.setVisible(result is not None)
        following = self._following(result)
        self._next.setText(following)
        self._next.setVisible(bool(following))

    def _following(self, result: CheckResult | None) -> str:
        tr = self._context.texts.tr
        if result is None:
            return ""
        if result.next_step is not None:
            return tr(result.next_step)
        if result.status is Status.ERROR:
            return tr(N_("This is not known, so no fix is offered. The evidence says why."))
        return ""

    def _render_evidence(self) -> None:
        result = None if self._row is None else self._row.result
        pieces = () if result is None else result.evidence
        arrow = Qt.ArrowType.DownArrow if self._toggle.isChecked() else Qt.ArrowType.RightArrow
        self._toggle.setArrowType(arrow)
        self._toggle.setVisible(bool(pieces))
        self._evidence.setVisible(bool(pieces) and self._toggle.isChecked())
        text = "\n\n".join(f"$ {p.source}\n{p.text}".rstrip() for p in pieces)
        self._evidence.setPlainText(text)
        lines = max(3, min(MAX_EVIDENCE_LINES, text.count("\n") + 2))
        spacing = self._evidence.fontMetrics().lineSpacing()
        margin = round(2 * self._evidence.document().documentMargin())
        self._evidence.setFixedHeight(lines * spacing + margin + 2 * self._evidence.frameWidth())

    def _ask(self, finding: Finding, profile: Profile | None) -> None:
        self._forget_fixes()
        self._asked = (finding, profile)
        self._fix_note.show_text(N_("Looking for fixes…"))
        self._fix_note.show()
        self._task = self._context.bridge.submit(
            self._context.workbench.fixer.options(finding, profile),
            self,
            self._got_options,
            self._options_failed,
        )

    def _forget_fixes(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._asked, self._options = None, ()
        self._fix_note.hide()
        self._clear_buttons()

    def _got_options(self, options: tuple[FixPlan | Guidance, ...]) -> None:
        self._options = tuple(options)
        self._fix_note.setVisible(not options)
        if not options:
            self._fix_note.show_text(N_("There is no fix for this on this machine."))
        self._render_fixes()

    def _options_failed(self, error: Exception) -> None:
        self._asked = None
        self._fix_note.show_text("")
        self._fix_note.setText(self._context.texts.error(error))
        self._fix_note.show()

    def _render_fixes(self) -> None:
        self._clear_buttons()
        done = self._row is not None and self._row.state is RowState.DONE
        for number, option in enumerate(self._options):
            text = N_("Fix: {title}…") if isinstance(option, FixPlan) else N_("How to: {title}…")
            button = Button(self._context, "", icon="fix" if number == 0 else "")
            button.set_text(text, title=option.title)
            button.clicked.connect(lambda _=False, o=option: self.fix_requested.emit(o))
            button.setEnabled(done)
            self._fix_row.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        self._add_setup()

    def _add_setup(self) -> None:
        """One more way out where the engine is missing or does not fit."""
        finding, profile = self._asked if self._asked is not None else (None, None)
        work = self._context.workbench
        engine_id = "" if finding is None else engine_of_finding(work, finding, profile)
        if engine_id:
            button = Button(self._context, "", icon="down")
            button.set_text(N_("Set up {engine}…"), engine=work.engines[engine_id].name)
            button.clicked.connect(lambda: self._open_setup(engine_id, profile))
            self._fix_row.insertWidget(0, button, 0, Qt.AlignmentFlag.AlignLeft)

    def _open_setup(self, engine_id: str, profile: Profile | None) -> None:
        dialog = open_setup(self._context, engine_id, profile, self)
        dialog.changed.connect(self.machine_changed)

    def _clear_buttons(self) -> None:
        while self._fix_row.count():
            item = self._fix_row.takeAt(0)
            if item.widget() is not None:
                item.widget().hide()
                item.widget().deleteLater()
