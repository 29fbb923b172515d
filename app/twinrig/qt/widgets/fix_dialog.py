"""One fix: look at it, apply it, see whether it helped, take it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QPlainTextEdit,
    QProgressBar,
    QVBoxLayout,
    QWidget,
)

from twinrig.domain.checks import Finding
from twinrig.domain.errors import TwinrigError
from twinrig.domain.fixes import FixPlan, Guidance
from twinrig.domain.profile import Profile
from twinrig.domain.wording import STATUS_WORDS
from twinrig.messages import N_, Message, message
from twinrig.qt.viewmodels.fixing import BUSY, FixFlow, Stage
from twinrig.qt.widgets.parts import Button, Label, ToneIcon, fit_height, mono_font, row
from twinrig.services.nccl_search import NcclFound, search_nccl
from twinrig.services.server_proof import ServerProof, prove_by_server

if TYPE_CHECKING:
    from twinrig.qt.bridge import TaskHandle
    from twinrig.qt.pages.base import PageContext
    from twinrig.services.fixer import FixOutcome, FixPreview
    from twinrig.services.nccl_experiment import Progress, Trial

TONES = {
    Stage.PROVEN: "ok",
    Stage.UNDONE: "ok",
    Stage.NOT_PROVEN: "warn",
    Stage.FAILED: "fail",
    Stage.GUIDANCE: "muted",
    Stage.PREVIEW: "muted",
    Stage.SEARCHED: "warn",
}


class FixDialog(QDialog):
    """Modal to the window. ``changed`` fires after something on the machine was changed."""

    changed = Signal()

    def __init__(
        self,
        context: PageContext,
        finding: Finding,
        profile: Profile | None,
        titles: dict[str, str],
        parent: QWidget | None = None,
        *,
        first: str = "",
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._first = first
        self._finding = finding
        self._profile = profile
        self._titles = titles
        self.flow = FixFlow()
        self._searching: TaskHandle | None = None
        bind = context.texts.bind
        bind(self, QDialog.setWindowTitle, N_("Fix"))
        bind(self, QWidget.setAccessibleName, N_("Fix"))
        self._build()
        context.texts.changed.connect(self._render)
        self._render()
        context.bridge.submit(
            context.workbench.fixer.options(finding, profile), self, self._got_options, self._failed
        )

    def _build(self) -> None:
        context = self._context
        bind = context.texts.bind
        self._choice_label = Label(context, N_("What to do"), tone="muted")
        self._choice = QComboBox()
        bind(self._choice, QWidget.setAccessibleName, N_("What to do"))
        self._choice.activated.connect(self._choose)
        self._icon = ToneIcon(context)
        self._headline = Label(context, scale=1.15)
        self._next = Label(context)
        self._notes = Label(context, tone="muted")
        self._text = QPlainTextEdit()
        self._text.setReadOnly(True)
        self._text.setTabChangesFocus(True)
        self._text.setFont(mono_font(self._text))
        self._text.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        bind(self._text, QWidget.setAccessibleName, N_("Exactly what will be changed"))
        metrics = self._text.fontMetrics()
        self._text.setMinimumSize(metrics.averageCharWidth() * 64, metrics.height() * 12)
        self._results = Label(context)
        self._progress = QProgressBar()
        self._progress.setRange(0, 0)
        self._progress.setTextVisible(False)
        bind(self._progress, QWidget.setAccessibleName, N_("Working"))
        self._search = Button(
            context,
            N_("Search now"),
            self.search,
            icon="search",
            tip=N_("Try known settings with real transfers between the cards; changes nothing"),
        )
        self._stop = Button(context, N_("Cancel"), self.stop_search, icon="stop")
        self._ask = Button(
            context,
            N_("Prove with the server"),
            self.ask,
            icon="play",
            tip=N_("Start the server, ask it once, and stop it again; can take minutes"),
        )
        self._apply = Button(context, N_("Apply"), self.apply, icon="fix")
        self._undo = Button(context, N_("Undo"), self.undo, icon="undo")
        self._close = Button(context, N_("Close"), self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(self._choice_label)
        layout.addWidget(self._choice)
        layout.addLayout(row(self._icon, self._headline))
        layout.itemAt(2).layout().setStretch(1, 1)
        for widget in (self._next, self._notes):
            layout.addWidget(widget)
        layout.addWidget(self._text, 1)
        layout.addWidget(self._results)
        layout.addWidget(self._progress)
        buttons = (self._undo, self._ask, self._search, self._stop, self._apply, self._close)
        layout.addLayout(row(None, *buttons))

    def apply(self) -> None:
        """Apply exactly what is shown."""
        plan = self.flow.option
        if not self.flow.can_apply or not isinstance(plan, FixPlan):
            return
        self.flow.applying()
        self._render()
        fixer = self._context.workbench.fixer
        self._submit(fixer.apply(self._finding, plan, self._profile), self._applied)

    def undo(self) -> None:
        """Take back what was applied."""
        outcome = self.flow.outcome
        if not self.flow.can_undo or outcome is None:
            return
        self.flow.undoing()
        self._render()
        self._submit(self._context.workbench.fixer.undo(outcome.entry_id), self._undone)

    def search(self) -> None:
        """Find by experiment the settings with which the cards talk."""
        if not self.flow.can_search or self._profile is None:
            return
        self.flow.searching()
        self._render()
        work = search_nccl(self._context.workbench, self._profile)
        self._searching = self._context.bridge.submit(
            work, self, self._searched, self._failed, self._heard
        )

    def stop_search(self) -> None:
        """Cancel the experiment; its processes are ended."""
        if self._searching is not None and self.flow.stage is Stage.SEARCHING:
            self._searching.cancel()
            self.flow.search_stopped()
            self._render()

    def ask(self) -> None:
        """Start the server and ask it one question."""
        if not self.flow.can_ask or self._profile is None:
            return
        self.flow.asking()
        self._render()
        controller = self._context.workbench.controller
        self._submit(prove_by_server(controller, self._profile.id), self._answered)

    def _heard(self, item: Progress | Trial | NcclFound) -> None:
        if self.flow.stage is not Stage.SEARCHING:
            return
        if isinstance(item, NcclFound):
            self.flow.found(item)
            option = self.flow.option
            if isinstance(option, FixPlan):
                self._choice.setItemText(self.flow.chosen, self._context.texts.tr(option.title))
                self._load_preview()
        else:
            self.flow.heard(item)
        self._render()

    def _searched(self, _result: object) -> None:
        self._searching = None

    def _answered(self, proof: ServerProof) -> None:
        self.flow.answered(proof)
        self._render()

    def reject(self) -> None:
        """Close; while something is being changed the end is awaited."""
        if self.flow.stage not in (Stage.APPLYING, Stage.UNDOING, Stage.ASKING):
            self._context.bridge.cancel_all(self)
            super().reject()

    def _submit(self, work: object, on_result: object) -> None:
        self._context.bridge.submit(work, self, on_result, self._failed)

    def _choose(self, index: int) -> None:
        if self.flow.stage in BUSY - {Stage.LOADING}:
            self._choice.setCurrentIndex(self.flow.chosen)
            return
        self.flow.choose(index)
        self._load_preview()

    def _got_options(self, options: tuple[FixPlan | Guidance, ...]) -> None:
        self.flow.got_options(options)
        self._choice.clear()
        self._choice.addItems([self._context.texts.tr(o.title) for o in options])
        for index, option in enumerate(options):
            if option.fix_id == self._first:
                self.flow.choose(index)
                self._choice.setCurrentIndex(index)
        self._load_preview()

    def _load_preview(self) -> None:
        option = self.flow.option
        self._render()
        if isinstance(option, FixPlan):
            self._submit(self._context.workbench.fixer.preview(option), self._got_preview)

    def _got_preview(self, preview: FixPreview) -> None:
        self.flow.got_preview(preview)
        self._render()

    def _applied(self, outcome: FixOutcome) -> None:
        self.flow.applied(outcome)
        self._render()
        self.changed.emit()

    def _undone(self, _entry: object) -> None:
        self.flow.undone()
        self._render()
        self.changed.emit()

    def _failed(self, error: Exception) -> None:
        working = self.flow.stage in (Stage.APPLYING, Stage.UNDOING)
        if not isinstance(error, TwinrigError):
            text = message("Something unexpected happened: {error}.", error=repr(error))
            error = TwinrigError(text, message("The log file of Twinrig has the details."))
        self.flow.failed(error)
        self._render()
        if working:
            self.changed.emit()

    def _render(self) -> None:
        flow = self.flow
        self._icon.set_tone(TONES.get(flow.stage, "busy"))
        self._headline.show_text(flow.headline())
        following = flow.next_step()
        self._next.setVisible(following is not None)
        self._next.show_text(following or "")
        many = len(flow.options) > 1 and flow.stage in (
            Stage.LOADING,
            Stage.GUIDANCE,
            Stage.PREVIEW,
            Stage.SEARCHED,
        )
        self._choice.setVisible(many)
        self._choice_label.setVisible(many)
        self._render_notes()
        self._render_text()
        self._results.setVisible(flow.outcome is not None and flow.stage is not Stage.UNDONE)
        self._results.setText(self._results_text())
        self._progress.setVisible(flow.stage in BUSY)
        self._apply.setVisible(flow.stage in (Stage.LOADING, Stage.PREVIEW, Stage.APPLYING))
        self._apply.setEnabled(flow.can_apply)
        self._undo.setVisible(flow.can_undo or flow.stage is Stage.UNDOING)
        self._undo.setEnabled(flow.can_undo)
        self._render_proofs()
        fit_height(self)

    def _render_proofs(self) -> None:
        flow = self.flow
        self._search.setVisible(flow.can_search)
        self._search.setEnabled(self._profile is not None)
        self._stop.setVisible(flow.stage is Stage.SEARCHING)
        self._ask.setVisible(flow.can_ask and self._profile is not None)
        working = (Stage.APPLYING, Stage.UNDOING, Stage.ASKING)
        self._close.setEnabled(flow.stage not in working)

    def _render_notes(self) -> None:
        shown = self.flow.stage in (Stage.LOADING, Stage.PREVIEW)
        notes = (*self.flow.why(), *(self.flow.notes() if shown else ()))
        self._notes.setText("\n".join("• " + self._context.texts.tr(n) for n in notes))
        self._notes.setVisible(bool(notes))

    def _render_text(self) -> None:
        tr = self._context.texts.tr
        flow = self.flow
        option = flow.option
        text = ""
        if flow.trials and flow.preview is None:
            text = "\n".join(tr(line) for line in flow.trials)
        elif isinstance(option, Guidance):
            text = numbered([tr(m) for m in option.instructions])
        elif flow.preview is not None:
            text = preview_text(flow.preview, self._context)
        self._text.setPlainText(text)
        self._text.setVisible(bool(text) or flow.stage is Stage.LOADING)

    def _results_text(self) -> str:
        if self.flow.outcome is None:
            return ""
        tr = self._context.texts.tr
        return "\n".join(
            tr(
                N_("{status} · {check}: {summary}"),
                status=tr(STATUS_WORDS[r.status]),
                check=tr(self._titles.get(r.check_id, r.check_id)),
                summary=r.summary,
            )
            for r in self.flow.outcome.results
        )


def numbered(lines: list[str]) -> str:
    """``1. ...`` a line each."""
    return "\n".join(f"{i}. {line}" for i, line in enumerate(lines, 1))


def preview_text(preview: FixPreview, context: PageContext) -> str:
    """All steps with their exact commands and differences."""
    tr = context.texts.tr
    if not preview.steps:
        return tr(N_("Nothing has to be changed: everything is as the fix would make it."))
    parts = []
    for number, step in enumerate(preview.steps, 1):
        title: Message | str = step.title
        head = f"{number}. {tr(title)}"
        if step.root:
            head += "  " + tr(N_("(with administrator rights)"))
        parts.append(head + "\n" + "\n".join("   " + line for line in step.text.splitlines()))
    return "\n\n".join(parts)
