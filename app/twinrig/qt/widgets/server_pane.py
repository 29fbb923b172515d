"""One server: its state, buttons, steps, failure and live log. Knows nothing of other profiles."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QProgressBar,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from twinrig.domain.errors import TwinrigError
from twinrig.domain.profile import Profile
from twinrig.domain.quantities import duration
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Failure
from twinrig.messages import N_
from twinrig.qt.bridge import TaskHandle
from twinrig.qt.viewmodels.log import CHUNK_BYTES, LogTail, LogUpdate, read_around
from twinrig.qt.viewmodels.runs import cause_stream, load_or_none, log_stream, status_stream
from twinrig.qt.viewmodels.server import (
    NEVER_STARTED,
    PhaseState,
    ServerView,
    finding_of,
    remaining_s,
    server_view,
)
from twinrig.qt.widgets.dialogs import Dialogs
from twinrig.qt.widgets.failure_box import FailureBox
from twinrig.qt.widgets.fix_dialog import FixDialog
from twinrig.qt.widgets.log_view import LogView
from twinrig.qt.widgets.parts import Button, Label, Notice, ToneIcon
from twinrig.qt.widgets.phase_list import PhaseList
from twinrig.qt.widgets.proof_dialog import ProofDialog
from twinrig.qt.widgets.report_dialog import ReportDialog
from twinrig.qt.widgets.way_back import WayBack
from twinrig.qt.widgets.wrapping import wrap_row

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext
    from twinrig.services.controller import ServerStatus
    from twinrig.services.log_reader import LogChunk

REQUESTED_BY = "panel"
STATE_TONES = {
    ServerState.READY: "ok",
    ServerState.DEGRADED: "warn",
    ServerState.BACKOFF: "warn",
    ServerState.FAILED: "fail",
    ServerState.STOPPED: "stopped",
    ServerState.SLEEPING: "muted",
}


class ServerPane(QWidget):
    """``watch`` attaches to a profile's server, ``unwatch`` lets go; the server never notices.

    ``active_changed`` carries the id of the profile whose server is at work, "" for none;
    ``machine_changed`` fires after a fix was applied or taken back.
    """

    active_changed = Signal(str)
    machine_changed = Signal()

    def __init__(
        self, context: PageContext, dialogs: Dialogs, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._dialogs = dialogs
        self.profile_id = ""
        self.view: ServerView = NEVER_STARTED
        self._names: dict[str, str] = {}
        self._tail = LogTail()
        self._status_task: TaskHandle | None = None
        self._log_task: TaskHandle | None = None
        self._cause_task: TaskHandle | None = None
        self._live_cause: Failure | None = None
        self._pending = ""
        self._build()
        self._render()

    def _build(self) -> None:
        context = self._context
        bind = context.texts.bind
        self._icon = ToneIcon(context)
        self._state = Label(context, scale=1.3)
        self._detail = Label(context, tone="muted")
        self._start = Button(context, N_("Start"), self.start, icon="play")
        self._stop = Button(context, N_("Stop"), self.stop, icon="stop")
        self._restart = Button(context, N_("Restart"), self.restart, icon="restart")
        self._copy_url = Button(
            context,
            N_("Copy address"),
            self._copy_address,
            icon="copy",
            tip=N_("Copy the address that chat programs ask for"),
        )
        self._autostart = QCheckBox()
        bind(self._autostart, QCheckBox.setText, N_("Start at logon"))
        bind(self._autostart, QWidget.setAccessibleName, N_("Start at logon"))
        self._autostart.clicked.connect(self._set_autostart)
        self._notice = Notice(context)
        self._warning = Notice(context)
        self._failure = FailureBox(context)
        self._failure.jump_requested.connect(self._jump)
        self._failure.fix_requested.connect(self._look_for_fixes)
        self._way_back = WayBack(context, self._failure, self._ask, self._notice, self)
        self._progress = QProgressBar()
        self._progress.setTextVisible(False)
        bind(self._progress, QWidget.setAccessibleName, N_("Progress of this step"))
        self._progress_text = Label(context)
        self._phases = PhaseList(context)
        self.log = LogView(context)
        self.log.save_requested.connect(self._save_log)
        self._tabs = QTabWidget()
        self._tabs.setDocumentMode(True)
        self._tabs.addTab(self._phases, "")
        self._tabs.addTab(self.log, "")
        bind(self._tabs, QWidget.setAccessibleName, N_("Steps, log and changes"))
        self._report = Button(
            context,
            N_("Report…"),
            self.open_report,
            icon="copy",
            tip=N_("All that is known, without keys and names, to show it to others"),
        )
        self._prove = Button(
            context,
            N_("Prove that it stays…"),
            self.open_proof,
            icon="preflight",
            tip=N_("Leave the server alone for two minutes, then see whether it is still there"),
        )
        self._layout_parts()

    def _layout_parts(self) -> None:
        head = wrap_row(self._icon, self._state, self._prove, self._report, stretch=self._state)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 0, 0, 0)
        layout.addLayout(head)
        layout.addWidget(self._detail)
        layout.addLayout(
            wrap_row(self._start, self._stop, self._restart, self._copy_url, None, self._autostart)
        )
        for widget in (self._notice, self._warning, self._failure):
            layout.addWidget(widget)
        layout.addWidget(self._progress_text)
        layout.addWidget(self._progress)
        layout.addWidget(self._tabs, 1)

    def add_tab(self, widget: QWidget) -> None:
        """One more tab, after steps and log; ``retranslate`` names it."""
        self._tabs.addTab(widget, "")

    def reveal(self, part: str) -> None:
        """Bring a tab to the front: "steps", "log" or "changes"."""
        names = ("steps", "log", "changes")
        if part in names and names.index(part) < self._tabs.count():
            self._tabs.setCurrentIndex(names.index(part))

    def retranslate(self) -> None:
        """Texts that are not bound."""
        tr = self._context.texts.tr
        names = (N_("Steps"), N_("Log"), N_("Changes"))
        for number in range(self._tabs.count()):
            self._tabs.setTabText(number, tr(names[number]))
        self._render()

    def set_names(self, names: dict[str, str]) -> None:
        """Names of all profiles by id, for messages about the others."""
        self._names = names

    def watch(self, profile_id: str) -> None:
        """Show this profile's server from now on; the same one goes on where it was."""
        if self._status_task is not None and profile_id == self.profile_id:
            return
        self.unwatch()
        if profile_id != self.profile_id:
            self.profile_id = profile_id
            self._tail = LogTail()
            self.log.clear()
            self._live_cause = None
            self.view = NEVER_STARTED
            self._notice.hide()
            self._render()
        if profile_id:
            self._attach_status()
            self._attach_log()
            self._attach_cause()

    def unwatch(self) -> None:
        """Stop asking and reading; what is shown stays."""
        for handle in (self._status_task, self._log_task, self._cause_task):
            if handle is not None:
                handle.cancel()
        self._status_task = self._log_task = self._cause_task = None

    def _attach_status(self) -> None:
        work = status_stream(self._context.workbench, self.profile_id)
        self._status_task = self._context.bridge.submit(
            work, self, None, self._notice.tell_error, self._got_status
        )

    def _attach_log(self) -> None:
        tail = self._tail
        work = log_stream(self._context.workbench, self.profile_id, tail.file_id, tail.offset)
        self._log_task = self._context.bridge.submit(
            work, self, None, self._notice.tell_error, self._got_log
        )

    def _attach_cause(self) -> None:
        work = cause_stream(self._context.workbench, self.profile_id)
        self._cause_task = self._context.bridge.submit(
            work, self, None, self._notice.tell_error, self._got_cause
        )

    def _got_cause(self, failure: Failure | None) -> None:
        self._live_cause = failure
        self._render()

    def _shown_cause(self) -> Failure | None:
        """Why it failed; of a server that runs, what its log shows to be wrong."""
        running = self.view.state in (ServerState.READY, ServerState.DEGRADED)
        return self.view.failure or (self._live_cause if running else None)

    def _got_log(self, chunk: LogChunk) -> None:
        update = self._tail.feed(chunk)
        if update is not None:
            self.log.apply(update)

    def _got_status(self, item: tuple[ServerStatus, str]) -> None:
        status, other = item
        now = self._context.workbench.clock.now()
        before = self.view.state
        self.view = server_view(status, now, self._names.get(other, other))
        if before is not ServerState.FAILED and self.view.state is ServerState.FAILED:
            self._tabs.setCurrentWidget(self.log)
        self._way_back.other = other
        self.active_changed.emit(other or (self.profile_id if self.view.at_work else ""))
        self._render()

    def start(self) -> None:
        """Ask for the server."""
        self._tabs.setCurrentWidget(self._phases)
        controller = self._context.workbench.controller
        self._ask("start", controller.start(self.profile_id, REQUESTED_BY))

    def stop(self) -> None:
        """Ask it to end."""
        controller = self._context.workbench.controller
        self._ask("stop", controller.stop(self.profile_id, REQUESTED_BY))

    def restart(self) -> None:
        """Stop, then start."""
        self._tabs.setCurrentWidget(self._phases)
        self._way_back.restart(self.profile_id)

    def _ask(self, what: str, request: Coroutine[Any, Any, Any]) -> None:
        self._pending = what
        self._notice.hide()
        self._render()
        self._context.bridge.submit(request, self, self._asked, self._refused)

    def _asked(self, _result: object) -> None:
        self._pending = ""
        self._look_again()

    def _refused(self, error: Exception) -> None:
        self._pending = ""
        self._notice.tell_error(error)
        self._look_again()

    def _look_again(self) -> None:
        self._render()
        if self._status_task is not None:
            self._status_task.cancel()
            self._attach_status()

    def _set_autostart(self, wanted: bool) -> None:
        controller = self._context.workbench.controller
        self._ask("autostart", controller.set_autostart(self.profile_id, wanted))

    def _copy_address(self) -> None:
        QApplication.clipboard().setText(self.view.base_url + "/v1")
        self._notice.tell(
            N_("The address was copied: {url}"), tone="ok", url=self.view.base_url + "/v1"
        )

    def _save_log(self) -> None:
        tr = self._context.texts.tr
        source = self._context.workbench.layout.log(self.profile_id)
        chosen = self._dialogs.save_file(
            self, tr(N_("Save the log")), f"{self.profile_id}.log", "*.log"
        )
        if chosen is not None:
            self._context.bridge.submit(
                asyncio.to_thread(shutil.copyfile, source, chosen),
                self,
                partial(self._saved, chosen),
                self._notice.tell_error,
            )

    def open_report(self) -> None:
        """Make the report and show it; nothing is copied or saved before."""
        dialog = ReportDialog(self._context, self.profile_id, self._dialogs, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def open_proof(self) -> None:
        """Begin the proof and show how it goes."""
        dialog = ProofDialog(self._context, self.profile_id, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def _saved(self, path: Path, _result: object) -> None:
        self._notice.tell(N_("The log was saved: {path}"), tone="ok", path=str(path))

    def _jump(self, failure: Failure) -> None:
        self._tabs.setCurrentWidget(self.log)
        number, text = failure.log_line_no, failure.root_cause_line
        if number is not None and self.log.has_line(number, text):
            self.log.jump(number)
        elif not self.log.jump_to_text(text) and number is not None:
            self._read_excerpt(number)

    def _read_excerpt(self, number: int) -> None:
        read = partial(self._read_chunk, self.profile_id)
        self._context.bridge.submit(
            asyncio.to_thread(read_around, read, self._tail.file_id, number),
            self,
            partial(self._got_excerpt, number),
            self._notice.tell_error,
        )

    def _read_chunk(self, profile_id: str, file_id: str, offset: int) -> object:
        controller = self._context.workbench.controller
        return controller.read_log(profile_id, file_id, offset, CHUNK_BYTES)

    def _got_excerpt(self, number: int, update: LogUpdate | None) -> None:
        if update is None:
            self._notice.tell(N_("This line is not in the log any more."), tone="warn")
        else:
            self.log.show_excerpt(update, number)

    def _look_for_fixes(self, failure: Failure) -> None:
        work = load_or_none(self._context.workbench, self.profile_id)
        self._context.bridge.submit(
            work, self, partial(self._open_fix, failure), self._notice.tell_error
        )

    def _open_fix(
        self, failure: Failure, loaded: tuple[Profile | None, TwinrigError | None]
    ) -> None:
        finding = finding_of(failure)
        if finding is None:
            return
        titles = {check.id: check.title for check in self._context.workbench.preflight.checks}
        dialog = FixDialog(self._context, finding, loaded[0], titles, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.changed.connect(self.machine_changed)
        dialog.open()

    def _render(self) -> None:
        view = self.view
        self._icon.set_tone(STATE_TONES.get(view.state, "busy"))
        self._state.show_text(view.headline)
        self._render_detail()
        self._render_buttons()
        self._failure.show_failure(self._shown_cause())
        self._way_back.look(self.profile_id, self.view.failure)
        self.log.mark_decisive(self._failure.causes.decisive_lines())
        self._phases.show_rows(view.phases)
        self._render_progress()
        if view.warning is None:
            self._warning.hide()
        elif not self._warning.isVisible() or self._warning.message != view.warning:
            actions = self._way_back.switch_actions(self.profile_id)
            self._warning.tell(view.warning, tone="warn", closable=False, actions=actions)

    def _render_detail(self) -> None:
        tr = self._context.texts.tr
        view = self.view
        parts = [tr(view.detail)] if view.detail is not None else []
        if view.uptime_s is not None:
            parts.append(tr(N_("for {time}"), time=duration(view.uptime_s)))
        if view.base_url:
            parts.append(view.base_url + "/v1")
        self._detail.setText("   ·   ".join(parts))
        self._detail.setVisible(bool(parts))

    def _render_buttons(self) -> None:
        view, free = self.view, not self._pending
        known = bool(self.profile_id)
        self._start.setEnabled(known and free and view.can_start)
        self._stop.setEnabled(known and view.can_stop and self._pending != "stop")
        self._restart.setEnabled(known and free and view.can_restart)
        self._copy_url.setVisible(bool(view.base_url))
        self._report.setEnabled(known)
        self._prove.setEnabled(known and view.state is ServerState.READY)
        self._autostart.setEnabled(known and free and view.autostart is not None)
        self._autostart.setChecked(bool(view.autostart))
        self._context.texts.bind(self._autostart, QWidget.setToolTip, self._autostart_tip())

    def _autostart_tip(self) -> str:
        if self.view.autostart is not None:
            return N_("The server starts by itself when you log on, without this window")
        if self._context.workbench.service_kind == "detached":
            return N_("Not possible here: this system has no service manager for users")
        return N_("Not known yet whether it starts at logon")

    def _render_progress(self) -> None:
        tr = self._context.texts.tr
        running = [r for r in self.view.phases if r.state is PhaseState.RUNNING]
        shown = bool(running) or bool(self._pending and self._pending != "autostart")
        self._progress.setVisible(shown)
        self._progress_text.setVisible(shown)
        if not running:
            self._progress.setRange(0, 0)
            self._progress_text.setText(tr(N_("Asking the supervisor…")) if shown else "")
            return
        current = running[-1]
        fraction = current.fraction
        self._progress.setRange(0, 0 if fraction is None else 1000)
        self._progress.setValue(0 if fraction is None else round(1000 * fraction))
        left = remaining_s(running)
        text = tr(N_("{phase} · {time}"), phase=tr(current.word), time=duration(current.elapsed_s))
        if left:
            text += "   " + tr(N_("about {time} left"), time=duration(left))
        self._progress_text.setText(text)
