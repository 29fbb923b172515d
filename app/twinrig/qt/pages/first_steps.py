"""First steps: from a machine as it is to a first reply, along what the other pages can do."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QVBoxLayout, QWidget

from twinrig.domain.checks import CheckResult
from twinrig.domain.errors import TwinrigError
from twinrig.domain.metrics import Snapshot
from twinrig.domain.profile import Profile
from twinrig.messages import N_, message
from twinrig.qt.actions import REQUESTED_BY
from twinrig.qt.bridge import TaskHandle
from twinrig.qt.pages.base import Page, PageContext
from twinrig.qt.viewmodels.chat import Running
from twinrig.qt.viewmodels.first_look import (
    Remembered,
    first_reply,
    look_round,
    make_first_profile,
)
from twinrig.qt.viewmodels.first_steps import (
    Act,
    Found,
    Seen,
    StepButton,
    StepId,
    StepState,
    complete,
    steps,
)
from twinrig.qt.viewmodels.runs import preflight_run
from twinrig.qt.viewmodels.server import phase_rows
from twinrig.qt.widgets.dialogs import Dialogs, QtDialogs
from twinrig.qt.widgets.fix_dialog import FixDialog
from twinrig.qt.widgets.model_picker import ModelPicker
from twinrig.qt.widgets.parts import Button, Label, Notice, row
from twinrig.qt.widgets.phase_list import PhaseList
from twinrig.qt.widgets.setup_dialog import open_setup
from twinrig.qt.widgets.step_box import StepBox
from twinrig.services.first_reply import QUESTION
from twinrig.services.thinking import Part

PAGE_ID = "first-steps"


class FirstStepsPage(Page):
    """Every step is read off the machine, so it can be left and taken up at any time."""

    page_id = PAGE_ID
    title = N_("First steps")
    icon = "right"

    def __init__(
        self,
        context: PageContext,
        parent: QWidget | None = None,
        *,
        dialogs: Dialogs | None = None,
    ) -> None:
        super().__init__(context, parent)
        self.remembered = Remembered(context.settings, context.workbench.target)
        self.seen = Seen(proven=self.remembered.proven, skipped=self.remembered.skipped)
        self._checked_for: str | None = None
        self._look: TaskHandle | None = None
        self._check: TaskHandle | None = None
        self._running = Running()
        self._reply: list[str] = []
        self._scanned = False
        self._build(dialogs or QtDialogs())
        context.live.snapshot.connect(self._take)
        self._render()

    # -- layout --------------------------------------------------------------------------------

    def _build(self, dialogs: Dialogs) -> None:
        context = self.context
        self.picker = ModelPicker(context, dialogs)
        self.picker.picked.connect(lambda path: self._use.setEnabled(bool(path.strip())))
        self._use = Button(context, N_("Use this model"), self.use_model, icon="ok")
        self._use.setEnabled(False)
        models = QWidget()
        column = QVBoxLayout(models)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.picker)
        column.addLayout(row(self._use, None))
        self._phases = PhaseList(context)
        self._answer = Label(context)
        context.texts.bind(self._answer, QWidget.setAccessibleName, N_("The reply"))
        self._logon = QCheckBox()
        bind = context.texts.bind
        bind(self._logon, QCheckBox.setText, N_("Start the server when I log on"))
        bind(self._logon, QWidget.setAccessibleName, N_("Start the server when I log on"))
        self._logon.clicked.connect(self._set_logon)
        extras = {
            StepId.MODEL: models,
            StepId.START: self._phases,
            StepId.CHAT: self._answer,
            StepId.LOGON: self._logon,
        }
        self.boxes = {step: StepBox(context, step, extras.get(step)) for step in StepId}
        for step, box in self.boxes.items():
            box.pressed.connect(self._act)
            box.skipped.connect(lambda wanted, step=step: self._skip(step, wanted))
            box.demo.connect(lambda: context.open_target("demo"))
        self._notice = Notice(context)
        self._back = Button(
            context,
            N_("Back to this machine"),
            lambda: context.open_target("auto"),
            icon="undo",
            tip=N_("Close the demo rig and look at this machine again"),
        )
        self._back.setVisible(context.workbench.demo)
        self._close = Button(context, N_("Close these steps"), self.finish)
        self._lay_out()

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setSpacing(6)
        layout.addWidget(Label(self.context, N_("First steps"), scale=1.3))
        layout.addWidget(
            Label(
                self.context,
                N_(
                    "From this machine to a first reply. Every step can be skipped; go away and "
                    "come back as you like: what is done is seen. Settings opens this again."
                ),
                tone="muted",
            )
        )
        layout.addWidget(self._notice)
        for box in self.boxes.values():
            layout.addWidget(box)
        layout.addStretch(1)
        layout.addLayout(row(self._back, None, self._close))

    # -- looking -------------------------------------------------------------------------------

    def on_shown(self) -> None:
        """Look again: other pages may have done a step."""
        self.remembered.begun = True
        if not self._scanned:
            self._scanned = True
            self.picker.scan()
        self.look()

    def refresh(self) -> None:
        """F5: look, and check again."""
        self._checked_for = None
        self.picker.scan()
        self.look()

    def look(self) -> None:
        """Read off the machine where everything stands."""
        if self._look is not None:
            self._look.cancel()
        wanted = self.context.settings.current_profile
        self._look = self.submit(
            look_round(self.context.workbench, wanted), self._looked, self._blind
        )

    def _looked(self, found: Found) -> None:
        newest = self.context.live.machine
        if newest is not None:  # one source for the server's state, or it would go to and fro
            found = replace(found, record=newest.server)
        self.seen = replace(self.seen, found=found)
        self.picker.engine_id = found.install.engine_id if found.install is not None else ""
        if found.machine_fault is None and self._checked_for != self._profile_id():
            self.check()
        self._render()

    def _blind(self, error: Exception) -> None:
        fault = error if isinstance(error, TwinrigError) else _unexpected(error)
        found = Found(looked=True, demo=self.context.workbench.demo, machine_fault=fault)
        self.seen = replace(self.seen, found=found)
        self._render()

    def _profile_id(self) -> str:
        profile = self.seen.found.profile
        return "" if profile is None else profile.id

    def _take(self, snapshot: Snapshot) -> None:
        if snapshot.recorded or not self.seen.found.looked:
            return
        found, record = self.seen.found, snapshot.server
        before = None if found.record is None else found.record.state
        changed = before is not (None if record is None else record.state)
        self.seen = replace(self.seen, found=replace(found, record=record))
        if changed and self.isVisible():
            self.look()
        if changed or self._phases.isVisible():
            self._render()

    # -- what the buttons do -------------------------------------------------------------------

    def _act(self, button: StepButton) -> None:
        self._notice.hide()
        deeds = {
            Act.LOOK: self.refresh,
            Act.CHECK: self.check,
            Act.FIX: lambda: self.open_fix(button.param),
            Act.PREFLIGHT: lambda: self.context.navigate("preflight"),
            Act.SET_UP: lambda: self.open_setup(button.param),
            Act.PLAN: self._open_plan,
            Act.START: self.start,
            Act.SERVER: lambda: self.context.navigate("server/steps"),
            Act.ASK: self.ask,
        }
        deeds[button.act]()

    def check(self) -> None:
        """Run the checks; they change nothing."""
        if self._check is not None:
            self._check.cancel()
        profile_id = self._checked_for = self._profile_id()
        arrived: list[CheckResult] = []

        def take(item: CheckResult | Profile | TwinrigError) -> None:
            if isinstance(item, CheckResult):
                arrived.append(item)

        def failed(error: Exception) -> None:
            fault = error if isinstance(error, TwinrigError) else _unexpected(error)
            self.seen = replace(self.seen, checking=False, check_fault=fault)
            self._render()

        def ended(_none: object) -> None:
            self.seen = replace(self.seen, checking=False, results=tuple(arrived))
            self._render()

        self.seen = replace(self.seen, checking=True, check_fault=None)
        work = preflight_run(self.context.workbench, profile_id, None)
        self._check = self.submit(work, ended, failed, take)
        self._render()

    def open_fix(self, check_id: str) -> None:
        """The fix dialog for what this check has found."""
        found = next((r for r in self.seen.results or () if r.check_id == check_id), None)
        if found is None or found.finding is None:
            return
        titles = {c.id: c.title for c in self.context.workbench.preflight.checks}
        profile = self.seen.found.profile
        dialog = FixDialog(self.context, found.finding, profile, titles, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.changed.connect(self.refresh)
        dialog.open()

    def open_setup(self, engine_id: str) -> None:
        """The dialog that sets an engine up."""
        dialog = open_setup(self.context, engine_id, self.seen.found.profile, self)
        dialog.changed.connect(self.refresh)

    def use_model(self) -> None:
        """Make a profile for the chosen model and work on it from now on."""
        path = self.picker.path
        if path:
            self._use.setEnabled(False)
            work = make_first_profile(self.context.workbench, path)
            self.submit(work, self._made, self._not_made)

    def _made(self, profile: Profile) -> None:
        self._notice.hide()
        self.context.settings.current_profile = profile.id
        self.look()

    def _not_made(self, error: Exception) -> None:
        self._use.setEnabled(True)
        self._notice.tell_error(error)

    def _open_plan(self) -> None:
        self.context.settings.current_profile = self._profile_id()
        self.context.navigate("plan/context_length")

    def start(self) -> None:
        """Ask for the server."""
        controller = self.context.workbench.controller
        work = controller.start(self._profile_id(), REQUESTED_BY)
        self.submit(work, lambda _none: self.look(), self._notice.tell_error)

    def ask(self) -> None:
        """One short question; its reply is shown as it comes."""
        self._reply.clear()
        self._answer.setText("")
        self.seen = replace(self.seen, asking=True, reply_fault=None)
        work = first_reply(self.context.workbench, self.tr(QUESTION), self._running)
        self.submit(work, self._answered, self._unanswered, self._heard)
        self._render()

    def _heard(self, parts: tuple[Part, ...]) -> None:
        for part in parts:
            if part.recast:
                self._reply.clear()
            if not part.thought:
                self._reply.append(part.text)
        self._answer.setText("".join(self._reply).strip())

    def _answered(self, _none: object) -> None:
        self.remembered.proven = True
        self.seen = replace(self.seen, asking=False, proven=True)
        self._render()

    def _unanswered(self, error: Exception) -> None:
        fault = error if isinstance(error, TwinrigError) else _unexpected(error)
        self.seen = replace(self.seen, asking=False, reply_fault=fault)
        self._render()

    def _set_logon(self, wanted: bool) -> None:
        controller = self.context.workbench.controller
        work = controller.set_autostart(self._profile_id(), wanted)
        self.submit(work, lambda _none: self.look(), self._logon_refused)

    def _logon_refused(self, error: Exception) -> None:
        self._notice.tell_error(error)
        self._render()

    def _skip(self, step: StepId, wanted: bool) -> None:
        self.remembered.skip(step, wanted)
        self.seen = replace(self.seen, skipped=self.remembered.skipped)
        self._render()

    def finish(self) -> None:
        """They do not come by themselves any more."""
        self.remembered.over = True
        self.context.navigate("overview")

    # -- what is shown -------------------------------------------------------------------------

    def _render(self) -> None:
        found = steps(self.seen)
        state = {step.id: step.state for step in found}
        for step in found:
            self.boxes[step.id].show_step(step)
        record = self.seen.found.record
        now_s = self.context.workbench.clock.now()
        phases = () if record is None else phase_rows(record, now_s)
        self._phases.show_rows(phases)
        loading = state[StepId.START] in (StepState.BUSY, StepState.CANNOT)
        self._phases.setVisible(bool(phases) and loading)
        self._answer.setVisible(bool(self._answer.text()))
        autostart = self.seen.found.autostart
        self._logon.setChecked(bool(autostart))
        offered = state[StepId.LOGON] in (StepState.NEXT, StepState.DONE)
        self._logon.setVisible(autostart is not None and offered)
        done = complete(found)
        self._close.set_text(N_("Finish") if done else N_("Close these steps"))

    def retranslate(self) -> None:
        """Times in the list of phases."""
        self._render()


def _unexpected(error: Exception) -> TwinrigError:
    return TwinrigError(message("Something went wrong: {reason}", reason=repr(error)))
