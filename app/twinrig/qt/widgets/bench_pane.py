"""Measure one profile or compare several; advice that one click follows and one takes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QProgressBar,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from twinrig.domain.benchmark import BenchmarkResult
from twinrig.domain.profile import Profile
from twinrig.files import write_atomic
from twinrig.messages import N_, message
from twinrig.qt.actions import REQUESTED_BY, ServerActions
from twinrig.qt.bridge import TaskHandle
from twinrig.qt.viewmodels.bench import (
    Advice,
    Measured,
    advise,
    apply_advice,
    difference_lines,
    last_measured,
    look_first,
    run_benchmark,
    table_rows,
)
from twinrig.qt.widgets.advice_box import AdviceBox
from twinrig.qt.widgets.dialogs import Dialogs, QtDialogs
from twinrig.qt.widgets.parts import Button, Label, Notice, row
from twinrig.qt.widgets.speed_table import SpeedTable
from twinrig.services.bench_server import Touch
from twinrig.services.bench_store import csv_of, result_to_json
from twinrig.services.benchmark import MAX_STREAMS, BenchmarkPlan, Progress, plan_for
from twinrig.services.fixer import FixOutcome

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

PROGRESS_STEPS = 1000
DEFAULT_USERS = 8
END_POLL_MS = 200
ALONE = N_("Nothing: measure one profile")


class BenchPane(QWidget):
    """One run at a time; it goes on while another page is shown."""

    def __init__(
        self, context: PageContext, dialogs: Dialogs | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._dialogs = dialogs or QtDialogs()
        self._task: TaskHandle | None = None
        self._measured: Measured | None = None
        self._profiles: tuple[Profile, ...] = ()
        self._actions = ServerActions(context.workbench, context.bridge, self)
        self._actions.failed.connect(lambda error: self._notice.tell_error(error))
        self._end_watch = QTimer(self)
        self._end_watch.setInterval(END_POLL_MS)
        self._end_watch.timeout.connect(self._watch_end)
        self._actions.profiles_changed.connect(self._fill)
        self._build()
        context.texts.changed.connect(self._render)
        self._render()

    @property
    def running(self) -> bool:
        """Whether something is being measured, or put back after that."""
        return self._task is not None and not self._task.finished

    # -- layout --------------------------------------------------------------------------------

    def _build(self) -> None:
        context = self._context
        bind = context.texts.bind
        self._intro = Label(
            context,
            N_(
                "Measures how fast a profile answers one person and several at once. To compare, "
                "profiles take turns, and the server is restarted each time."
            ),
            tone="muted",
        )
        self._first = self._combo(N_("Profile to measure"))
        self._second = self._combo(N_("Compare with"))
        bind(self._second, _name_first, ALONE)
        self._first_label = Label(context, N_("Profile"))
        self._second_label = Label(context, N_("Compare with"))
        self._users = QSpinBox(self)
        self._users.setRange(1, MAX_STREAMS)
        self._users.setValue(DEFAULT_USERS)
        bind(self._users, QWidget.setAccessibleName, N_("Most requests at once"))
        self._users_label = Label(context, N_("Most requests at once"))
        self._thorough = QCheckBox(self)
        bind(self._thorough, QCheckBox.setText, N_("Thorough"))
        bind(self._thorough, QWidget.setAccessibleName, N_("Thorough"))
        bind(
            self._thorough,
            QWidget.setToolTip,
            N_("Every number of requests with both prompts and both ways to sample; takes longer"),
        )
        self._go = Button(context, N_("Measure"), self.measure, icon="play")
        self._cancel = Button(context, N_("Cancel the measurement"), self.cancel, icon="stop")
        self._progress = QProgressBar(self)
        self._progress.setRange(0, PROGRESS_STEPS)
        self._progress.setTextVisible(False)
        bind(self._progress, QWidget.setAccessibleName, N_("Progress of the measurement"))
        self._doing = Label(context, tone="muted")
        self._notice = Notice(context)
        self._table = SpeedTable(context, self)
        self._empty = Label(
            context,
            N_(
                "Nothing was measured here yet. One profile with eight users takes some minutes; "
                "results are kept, and the next ones stand beside them."
            ),
            tone="muted",
        )
        self._empty.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeading)
        self._differences = Label(context, tone="muted")
        self._boxes = [AdviceBox(context, self), AdviceBox(context, self)]
        for box in self._boxes:
            box.apply_wanted.connect(self._apply)
        self._csv = Button(context, N_("Save as CSV…"), self._save_csv, icon="export")
        self._json = Button(context, N_("Save as JSON…"), self._save_json, icon="export")
        self._lay_out()

    def _combo(self, name: str) -> QComboBox:
        combo = QComboBox(self)
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self._context.texts.bind(combo, QWidget.setAccessibleName, name)
        return combo

    def _lay_out(self) -> None:
        for label in (self._first_label, self._second_label, self._users_label):
            label.setWordWrap(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._intro)
        layout.addLayout(
            row(self._first_label, self._first, self._second_label, self._second, None)
        )
        layout.addLayout(
            row(self._users_label, self._users, self._thorough, self._go, self._cancel, None)
        )
        layout.addWidget(self._progress)
        layout.addWidget(self._doing)
        layout.addWidget(self._notice)
        for box in self._boxes:
            layout.addWidget(box)
        layout.addWidget(self._table, 1)
        layout.addWidget(self._empty, 1)
        layout.addWidget(self._differences)
        layout.addLayout(row(None, self._csv, self._json))

    # -- profiles ------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read profiles, and the last results when nothing is shown yet."""
        self._actions.read_profiles()
        if self._measured is None and not self.running:
            self._context.bridge.submit(
                last_measured(self._context.workbench), self, self._show_last, self._failed
            )

    def _fill(self) -> None:
        profiles = self._actions.profiles
        wanted = self._first.currentData() or self._context.settings.current_profile
        other = self._second.currentData() or ""
        self._profiles = profiles
        self._first.clear()
        self._second.clear()
        self._second.addItem(self._context.texts.tr(ALONE), "")
        for profile in profiles:
            self._first.addItem(profile.name, profile.id)
            self._second.addItem(profile.name, profile.id)
        self._first.setCurrentIndex(max(0, self._first.findData(wanted)))
        self._second.setCurrentIndex(max(0, self._second.findData(other)))
        self._render()

    def _chosen(self) -> list[str]:
        ids = [self._first.currentData(), self._second.currentData()]
        return list(dict.fromkeys(i for i in ids if i))

    # -- a run ---------------------------------------------------------------------------------

    def measure(self) -> None:
        """Look what would be touched, ask where somebody must agree, then measure."""
        ids = self._chosen()
        if not ids or self.running:
            return
        users, thorough = self._users.value(), self._thorough.isChecked()
        plan = plan_for(users, profiles=len(ids), thorough=thorough)
        self._notice.hide()
        self._task = self._context.bridge.submit(
            look_first(self._context.workbench, ids, plan),
            self,
            lambda touch: self._looked(touch, ids, plan),
            self._failed,
        )
        self._render()

    def _looked(self, touch: Touch, ids: Sequence[str], plan: BenchmarkPlan) -> None:
        if touch.asks and not self._agrees(touch):
            self._task = None
            self._render()
            return
        self._task = self._context.bridge.submit(
            run_benchmark(self._context.workbench, ids, plan),
            self,
            lambda _nothing: self._ended(),
            self._failed,
            self._arrived,
        )
        self._render()

    def _agrees(self, touch: Touch) -> bool:
        tr = self._context.texts.tr
        text = "\n\n".join(tr(line) for line in touch.texts)
        buttons = (tr(N_("Measure")), tr(N_("Cancel")))
        return self._dialogs.choose(self, tr(N_("Measure")), text, buttons, 1) == 0

    def cancel(self) -> None:
        """Stop measuring; what ran before runs again."""
        if self.running and self._task is not None:
            self._task.cancel()
            self._doing.show_text(N_("Putting back what ran before…"))
            self._cancel.setEnabled(False)
            self._end_watch.start()

    def _watch_end(self) -> None:
        """A cancelled task calls nobody when it has put everything back."""
        if self.running:
            return
        self._end_watch.stop()
        self._task = None
        self._notice.tell(N_("Nothing was kept. The server that ran before is put back."))
        self._render()

    def _arrived(self, item: Progress | Measured) -> None:
        if isinstance(item, Measured):
            self._show(item)
            return
        self._progress.setValue(round(item.share * PROGRESS_STEPS))
        self._doing.show_text(item.text)

    def _ended(self) -> None:
        self._task = None
        self._render()

    def _failed(self, error: Exception) -> None:
        self._task = None
        self._notice.tell_error(error)
        self._render()

    # -- results -------------------------------------------------------------------------------

    def _show_last(self, measured: Measured | None) -> None:
        if measured is None or self._measured is not None or self.running:
            return
        ids = [result.profile_id for result in measured.results]
        for combo, profile_id in zip((self._first, self._second), ids, strict=False):
            combo.setCurrentIndex(max(0, combo.findData(profile_id)))
        self._show(measured)

    def _show(self, measured: Measured) -> None:
        self._measured = measured
        if measured.problem is not None:
            self._notice.tell(measured.problem, tone="warn")
        self._table.show_rows(table_rows(measured))
        for box in self._boxes:
            box.show_advice(None)
        self._context.bridge.submit(
            advise(self._context.workbench, measured.results), self, self._advised, self._failed
        )
        self._render()

    def _advised(self, advice: tuple[Advice, ...]) -> None:
        for index, box in enumerate(self._boxes):
            box.show_advice(advice[index] if index < len(advice) else None)

    def _apply(self, advice: Advice) -> None:
        for box in self._boxes:
            box.set_enabled_use(False)
        self._context.bridge.submit(
            apply_advice(self._context.workbench, advice),
            self,
            lambda outcome: self._applied(advice, outcome),
            self._not_applied,
        )

    def _applied(self, advice: Advice, outcome: FixOutcome) -> None:
        name = advice.profile.name if advice.profile else ""
        self._changed(
            N_("{profile} has these settings now. A running server must be restarted to use them."),
            name,
            (
                (N_("Undo"), lambda: self._undo(outcome.entry_id, name)),
                (N_("Restart server"), lambda: self._restart(advice)),
            ),
        )

    def _undo(self, entry_id: str, name: str) -> None:
        self._context.bridge.submit(
            self._context.workbench.fixer.undo(entry_id),
            self,
            lambda _entry: self._changed(N_("{profile} is as it was before."), name, ()),
            self._not_applied,
        )

    def _restart(self, advice: Advice) -> None:
        if advice.profile is not None:
            controller = self._context.workbench.controller
            self._context.bridge.submit(
                controller.restart(advice.profile.id, REQUESTED_BY),
                self,
                lambda _nothing: self._context.navigate("server"),
                self._not_applied,
            )

    def _changed(
        self,
        text: str,
        name: str,
        actions: tuple[tuple[str, Callable[[], object]], ...],
    ) -> None:
        self._notice.tell(text, tone="ok", actions=actions, profile=name)
        if self._measured is not None:
            self._context.bridge.submit(
                advise(self._context.workbench, self._measured.results),
                self,
                self._advised,
                self._failed,
            )
        for box in self._boxes:
            box.set_enabled_use(True)

    def _not_applied(self, error: Exception) -> None:
        self._notice.tell_error(error)
        for box in self._boxes:
            box.set_enabled_use(True)

    # -- files ---------------------------------------------------------------------------------

    def _save_csv(self) -> None:
        self._save("twinrig-benchmark.csv", "CSV (*.csv)", csv_of)

    def _save_json(self) -> None:
        self._save("twinrig-benchmark.json", "JSON (*.json)", _json_of)

    def _save(
        self, name: str, pattern: str, render: Callable[[Sequence[BenchmarkResult]], str]
    ) -> None:
        if self._measured is None:
            return
        title = self._context.texts.tr(N_("Save the figures"))
        path = self._dialogs.save_file(self, title, name, pattern)
        if path is None:
            return
        try:
            write_atomic(Path(path), render(self._measured.results).encode())
        except OSError as error:
            text = message(
                "{path} cannot be written: {reason}.", path=str(path), reason=error.strerror or ""
            )
            self._notice.tell(text, tone="fail")
            return
        self._notice.tell(N_("Saved as {path}."), tone="ok", path=str(path))

    # -- what is shown -------------------------------------------------------------------------

    def _render(self) -> None:
        running, measured = self.running, self._measured
        for widget in (self._first, self._second, self._users, self._thorough):
            widget.setEnabled(not running)
        had_focus = self._go.hasFocus() or self._cancel.hasFocus()
        self._go.setVisible(not running)
        self._go.setEnabled(bool(self._profiles))
        self._cancel.setVisible(running)
        self._cancel.setEnabled(not self._end_watch.isActive())
        if had_focus:
            (self._cancel if running else self._go).setFocus()
        self._progress.setVisible(running)
        self._doing.setVisible(running)
        for widget in (self._table, self._csv, self._json):
            widget.setVisible(measured is not None)
        self._empty.setVisible(measured is None)
        lines = difference_lines(measured) if measured is not None else ()
        self._differences.setVisible(bool(lines))
        if lines:
            head = self._context.texts.tr(N_("Settings that differ:"))
            self._differences.setText("\n".join([head, *lines]))


def _json_of(results: Sequence[BenchmarkResult]) -> str:
    return json.dumps([result_to_json(r) for r in results], ensure_ascii=False, indent=1) + "\n"


def _name_first(combo: QComboBox, text: str) -> None:
    combo.setItemText(0, text)
