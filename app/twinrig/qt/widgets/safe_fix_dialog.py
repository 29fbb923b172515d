"""All fixes that are safe: look at them, apply them one after the other, see what helped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QPlainTextEdit, QProgressBar, QVBoxLayout, QWidget

from twinrig.domain.checks import CheckResult
from twinrig.domain.profile import Profile
from twinrig.messages import N_, Message
from twinrig.qt.widgets.parts import Button, Label, mono_font, row
from twinrig.services.safe_fixes import SafeFix, SafeFixes

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext
    from twinrig.services.workbench import Workbench


class SafeFixDialog(QDialog):
    """``changed`` fires after something was applied."""

    changed = Signal()

    def __init__(
        self,
        context: PageContext,
        results: Sequence[CheckResult],
        profile: Profile | None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._results = tuple(results)
        self._profile = profile
        bench = context.workbench
        self._safe = SafeFixes(bench.fixer, bench.profiles)
        self.done: list[SafeFix] = []
        self._working = False
        context.texts.bind(self, QDialog.setWindowTitle, N_("Fix all that is safe"))
        context.texts.bind(self, QWidget.setAccessibleName, N_("Fix all that is safe"))
        self._headline = Label(context, N_("Working out exactly what would be changed…"))
        self._text = QPlainTextEdit()
        self._text.setReadOnly(True)
        self._text.setTabChangesFocus(True)
        self._text.setFont(mono_font(self._text))
        context.texts.bind(
            self._text, QWidget.setAccessibleName, N_("Exactly what will be changed")
        )
        metrics = self._text.fontMetrics()
        self._text.setMinimumSize(metrics.averageCharWidth() * 64, metrics.height() * 12)
        self._progress = QProgressBar()
        self._progress.setRange(0, 0)
        self._progress.setTextVisible(False)
        context.texts.bind(self._progress, QWidget.setAccessibleName, N_("Working"))
        self._apply = Button(context, N_("Apply all"), self.apply, icon="fix")
        self._apply.setEnabled(False)
        self._close = Button(context, N_("Close"), self.reject)
        layout = QVBoxLayout(self)
        for widget in (self._headline, self._text, self._progress):
            layout.addWidget(widget)
        layout.addLayout(row(None, self._apply, self._close))
        work = preview_all(bench, self._safe, self._results, profile)
        context.bridge.submit(work, self, self._got, self._failed)

    def apply(self) -> None:
        """Apply, prove, and take back what does not help."""
        self._working = True
        self._progress.show()
        self._apply.setEnabled(False)
        self._close.setEnabled(False)
        self._headline.show_text(N_("Applying, then checking again whether it helped…"))
        self._text.setPlainText("")
        work = self._safe.apply(self._results, self._profile)
        self._context.bridge.submit(work, self, self._ended, self._failed, self._arrived)

    def reject(self) -> None:
        """Close; while something is being changed the end is awaited."""
        if not self._working:
            self._context.bridge.cancel_all(self)
            super().reject()

    def _got(self, previews: list[tuple[Message, str]]) -> None:
        tr = self._context.texts.tr
        self._progress.hide()
        self._apply.setVisible(bool(previews))
        self._apply.setEnabled(bool(previews))
        if not previews:
            self._headline.show_text(N_("Nothing can be fixed without a look at it."))
            self._text.hide()
            return
        self._headline.show_text(
            N_(
                "This is exactly what will be changed, in the profile only. "
                "What does not help is taken back."
            )
        )
        self._text.setPlainText("\n\n".join(f"{tr(title)}\n{text}" for title, text in previews))

    def _arrived(self, item: SafeFix) -> None:
        self.done.append(item)
        self._text.appendPlainText(self._context.texts.tr(item.text))

    def _ended(self, _result: object) -> None:
        self._over()
        kept = sum(item.kept for item in self.done)
        self._headline.show_text(
            N_("Done: everything that was applied is proven.")
            if kept == len(self.done)
            else N_("Done. What did not help was taken back.")
        )

    def _failed(self, error: Exception) -> None:
        self._over()
        self._headline.setText(self._context.texts.error(error))

    def _over(self) -> None:
        was_working, self._working = self._working, False
        self._progress.hide()
        self._apply.setVisible(False)
        self._close.setEnabled(True)
        if was_working:
            self.changed.emit()


async def preview_all(
    bench: Workbench, safe: SafeFixes, results: Sequence[CheckResult], profile: Profile | None
) -> list[tuple[Message, str]]:
    """Title and exact change of each."""
    found = []
    for _, plan in await safe.find(results, profile):
        preview = await bench.fixer.preview(plan)
        found.append((plan.title, "\n".join(step.text for step in preview.steps)))
    return found
