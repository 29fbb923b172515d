"""Preflight: is this machine able to do it? Checks with evidence, and fixes for what they find."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, QSize, Qt
from PySide6.QtGui import QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QComboBox,
    QHeaderView,
    QSplitter,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from twinrig.checks.registry import AREAS
from twinrig.domain.checks import Check, CheckResult, Status
from twinrig.domain.errors import TwinrigError
from twinrig.domain.fixes import FixPlan, Guidance
from twinrig.domain.profile import Profile
from twinrig.messages import N_, Message, Translator, message
from twinrig.qt.bridge import TaskHandle
from twinrig.qt.pages.base import Page, PageContext
from twinrig.qt.viewmodels.preflight import SHOW_WORDS, CheckRow, PreflightModel
from twinrig.qt.viewmodels.runs import preflight_run
from twinrig.qt.widgets.check_detail import CheckDetail
from twinrig.qt.widgets.check_list import CheckTable
from twinrig.qt.widgets.fix_dialog import FixDialog
from twinrig.qt.widgets.interrupted_bar import InterruptedBar
from twinrig.qt.widgets.parts import Button, Label, Notice
from twinrig.qt.widgets.safe_fix_dialog import SafeFixDialog
from twinrig.qt.widgets.wrapping import WrapRow, wrap_row
from twinrig.services.preflight import is_about

COUNT_WORDS = (
    (Status.FAIL, N_("Problems: {count}")),
    (Status.WARN, N_("Warnings: {count}")),
    (Status.ERROR, N_("Could not tell: {count}")),
    (Status.SKIP, N_("Skipped: {count}")),
    (Status.PASS, N_("Fine: {count}")),
)


class _CheckView(QTreeView):
    """Keeps the chosen check in sight when the detail below takes room from the list."""

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.currentIndex().isValid():
            self.scrollTo(self.currentIndex())


class PreflightPage(Page):
    """Runs the checks when first shown, and whenever asked; it never changes anything by itself."""

    page_id = "preflight"
    title = N_("Preflight")
    icon = "preflight"

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.model = PreflightModel(context.workbench.preflight.checks, AREAS)
        self._profile: Profile | None = None
        self._checked_for: str | None = None
        self._run: TaskHandle | None = None
        self._build()
        context.settings.current_profile_changed.connect(self._profile_changed)
        self._render()

    def _build(self) -> None:
        context = self.context
        self._headline = Label(context, scale=1.3)
        self._counts = Label(context, tone="muted")
        self._subject = Label(context, tone="muted")
        self._again = Button(
            context, N_("Check again"), self.refresh, icon="refresh", tip=N_("Check again (F5)")
        )
        self._cancel = Button(context, N_("Cancel"), self.cancel, icon="stop", tip=N_("Escape"))
        self._copy = Button(
            context,
            N_("Copy report"),
            self.copy_report,
            icon="copy",
            tip=N_("Copy all results as text; user names in paths are left out"),
        )
        tools = self._make_tools()
        self._interrupted = InterruptedBar(context)
        self._interrupted.changed.connect(self.refresh)
        self._notice = Notice(context)
        self._table = CheckTable(self.model, context, self)
        self._view = self._make_view()
        self._detail = CheckDetail(context)
        self._detail.fix_requested.connect(self._open_fix)
        self._detail.machine_changed.connect(self.refresh)
        splitter = QSplitter(Qt.Orientation.Vertical)
        splitter.addWidget(self._view)
        splitter.addWidget(self._detail)
        splitter.setStretchFactor(0, 3)
        splitter.setStretchFactor(1, 2)
        splitter.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.addLayout(
            wrap_row(self._headline, self._again, self._cancel, self._copy, stretch=self._headline)
        )
        layout.addWidget(self._interrupted)
        layout.addWidget(self._counts)
        layout.addWidget(self._subject)
        layout.addLayout(tools)
        layout.addWidget(self._notice)
        layout.addWidget(splitter, 1)
        escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), self)
        escape.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        escape.activated.connect(self.cancel)

    def _make_tools(self) -> WrapRow:
        """Under the headline: what is done to many checks at once, and which are shown."""
        context = self.context
        self._thorough = Button(
            context,
            N_("Check thoroughly"),
            self.check_thoroughly,
            icon="search",
            tip=N_("Also load the engine and let the cards exchange data; takes minutes"),
        )
        self._safe = Button(
            context,
            N_("Fix all that is safe…"),
            self.fix_safe,
            icon="fix",
            tip=N_("Only changes of the profile that Undo can take back; each is proven"),
        )
        self._show = QComboBox()
        for _ in SHOW_WORDS:
            self._show.addItem("")
        context.texts.bind(self._show, QWidget.setAccessibleName, N_("Which checks are shown"))
        self._show.currentIndexChanged.connect(self._filter)
        return wrap_row(self._thorough, self._safe, None, self._show)

    def _make_view(self) -> QTreeView:
        view = _CheckView()
        view.setModel(self._table)
        view.setRootIsDecorated(False)
        view.setUniformRowHeights(True)
        view.setAllColumnsShowFocus(True)
        view.setAlternatingRowColors(True)
        view.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        size = round(view.fontMetrics().height() * 1.1)
        view.setIconSize(QSize(size, size))
        header = view.header()
        header.setStretchLastSection(True)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(CheckTable.AREA, QHeaderView.ResizeMode.ResizeToContents)
        header.moveSection(CheckTable.AREA, 0)
        self.context.texts.bind(view, QWidget.setAccessibleName, N_("Checks"))
        view.selectionModel().currentRowChanged.connect(self._selected)
        return view

    def on_shown(self) -> None:
        """Look once by itself, and again when another profile was chosen meanwhile."""
        self._interrupted.reload()
        if not self.model.running and self._checked_for != self.context.settings.current_profile:
            self.refresh()

    def refresh(self) -> None:
        """F5: run all checks."""
        self.run()

    def check_thoroughly(self) -> None:
        """All checks, those that take minutes too."""
        profile_checks = self.context.workbench.preflight.checks
        self.run([check.id for check in profile_checks if self._asks(check)])

    def _asks(self, check: Check) -> bool:
        return self._profile is None or is_about(check, self._profile)

    def fix_safe(self) -> None:
        """Everything at once that needs no decision."""
        dialog = SafeFixDialog(self.context, self.model.results(), self._profile, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.changed.connect(self.refresh)
        dialog.open()

    def run(self, ids: Sequence[str] | None = None) -> None:
        """Run these checks (None = all); a run that is going on is replaced."""
        if self._run is not None and self._run.active:
            self._run.cancel()
            self.model.end()
        profile_id = self.context.settings.current_profile
        self._checked_for = profile_id
        self._profile = None
        self._notice.hide()
        self._table.changed(self.model.begin(ids))
        self._run = self.submit(
            preflight_run(self.context.workbench, profile_id, ids),
            self._ended,
            self._failed,
            self._arrived,
        )
        self._render()

    def cancel(self) -> None:
        """Stop the run; rows keep the answers they had."""
        if self._run is not None and self._run.active:
            self._run.cancel()
            self._checked_for = self.context.settings.current_profile
            self._finish()

    def copy_report(self) -> None:
        """All results as text."""
        translator = Translator(self.context.texts.language)
        QApplication.clipboard().setText(self.model.report(translator, self._about()))
        self._notice.tell(N_("The report was copied."), tone="ok")

    def retranslate(self) -> None:
        """Texts of the table and of the detail."""
        self._table.all_changed()
        self._render()

    def retheme(self) -> None:
        """Icons of the table."""
        self._table.all_changed()
        self._render_detail()

    def _about(self) -> str:
        label = self.context.workbench.label
        machine = self.tr(N_("Machine: {name}"), name=Message(label))
        if self._profile is None:
            return machine
        return machine + "\n" + self.tr(N_("Profile: {name}"), name=self._profile.name)

    def _profile_changed(self, _profile_id: str) -> None:
        if self.isVisible():
            self.refresh()

    def _arrived(self, item: CheckResult | Profile | TwinrigError) -> None:
        if isinstance(item, CheckResult):
            index = self.model.accept(item)
            self._table.changed([index])
            if index == self._view.currentIndex().row():
                self._render_detail()
        elif isinstance(item, Profile):
            self._profile = item
        else:
            self._notice.tell_error(item)
        self._render_head()

    def _ended(self, _result: object) -> None:
        self._finish(complete=True)
        if not self._view.currentIndex().isValid() or self._current_is_fine():
            problem = self.model.first_problem()
            chosen = self._view.currentIndex().row() if problem is None else problem
            index = self._table.index(max(0, chosen), 0)
            self._view.setCurrentIndex(index)
            self._view.scrollTo(index)

    def _failed(self, error: Exception) -> None:
        self._finish()
        self._notice.tell_error(error)

    def _finish(self, *, complete: bool = False) -> None:
        self._table.changed(self.model.end(complete=complete))
        self._render()

    def _current(self) -> CheckRow | None:
        index = self._view.currentIndex()
        return self.model.rows[index.row()] if index.isValid() else None

    def _current_is_fine(self) -> bool:
        current = self._current()
        return current is not None and current.finding is None

    def _selected(self, _current: QModelIndex, _previous: QModelIndex) -> None:
        self._render_detail()

    def _render(self) -> None:
        self._render_head()
        self._render_detail()

    def _filter(self) -> None:
        """Hide what the filter leaves out; the model keeps its rows."""
        show = tuple(SHOW_WORDS)[max(0, self._show.currentIndex())]
        rows = enumerate(self.model.rows)
        hidden = frozenset(n for n, entry in rows if not self.model.shown(entry, show))
        for number in range(len(self.model.rows)):
            self._view.setRowHidden(number, QModelIndex(), number in hidden)
        self._table.hide(hidden)

    def _render_head(self) -> None:
        for number, text in enumerate(SHOW_WORDS.values()):
            self._show.setItemText(number, self.tr(text))
        self._filter()
        running = self.model.running
        self._headline.show_text(self.model.headline())
        counts = self.model.counts()
        parts = [self.tr(text, count=counts[status]) for status, text in COUNT_WORDS]
        self._counts.setText("   ".join(parts) if any(counts.values()) else "")
        self._counts.setVisible(any(counts.values()))
        self._subject.show_text(self._subject_text())
        had_focus = self._again.hasFocus() or self._cancel.hasFocus()
        self._again.setVisible(not running)
        self._cancel.setVisible(running)
        if had_focus:
            (self._cancel if running else self._again).setFocus()
        self._copy.setEnabled(any(counts.values()))
        self._thorough.setEnabled(not running)
        self._safe.setEnabled(not running and any(r.fixable for r in self.model.rows))

    def _subject_text(self) -> Message:
        if self._profile is not None:
            return message("Checked for the profile {name}.", name=self._profile.name)
        return message(
            "Checked for the machine alone. Choose a profile to check its model and port too."
        )

    def _render_detail(self) -> None:
        self._detail.show_row(self._current(), self._profile)

    def _open_fix(self, option: FixPlan | Guidance) -> None:
        current = self._current()
        if current is None or current.finding is None:
            return
        titles = {r.check_id: r.title for r in self.model.rows}
        dialog = FixDialog(
            self.context, current.finding, self._profile, titles, self, first=option.fix_id
        )
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.changed.connect(self.refresh)
        dialog.open()
