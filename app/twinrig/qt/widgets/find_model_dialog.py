"""Find a model on the hub: most used first, with size and whether it fits; download one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QDialog,
    QHeaderView,
    QLineEdit,
    QProgressBar,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from twinrig.domain.errors import TwinrigError
from twinrig.domain.memory import Verdict
from twinrig.messages import N_, Translator
from twinrig.qt.bridge import TaskHandle
from twinrig.qt.viewmodels.models import size_text
from twinrig.qt.viewmodels.setting_up import TONES, FoundModel, find_models, told
from twinrig.qt.widgets.parts import Button, Label, Notice, row
from twinrig.services.hub import DownloadProgress, ModelName
from twinrig.services.hub_words import TOKEN_NAME

if TYPE_CHECKING:
    from twinrig.qt.pages.base import PageContext

COLUMNS = (N_("Model"), N_("Size"), N_("Your cards"), N_("Downloads"))


class FindModelDialog(QDialog):
    """``downloaded`` carries the folder of a whole, verified model."""

    downloaded = Signal(str)

    def __init__(self, context: PageContext, engine_id: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._engine_id = engine_id
        self._rows: dict[ModelName, FoundModel] = {}
        self._search_task: TaskHandle | None = None
        self._load_task: TaskHandle | None = None
        self._build()
        context.texts.changed.connect(self._fill)
        self.search()

    def _build(self) -> None:
        context = self._context
        bind = context.texts.bind
        bind(self, QDialog.setWindowTitle, N_("Find a model"))
        bind(self, QWidget.setAccessibleName, N_("Find a model"))
        self.text = QLineEdit()
        bind(self.text, QWidget.setAccessibleName, N_("Search for"))
        bind(self.text, QLineEdit.setPlaceholderText, N_("Words of the name, or OWNER/NAME@BRANCH"))
        self._go = Button(context, N_("Search"), self.search, icon="search")
        self._fits = QCheckBox()
        bind(self._fits, QCheckBox.setText, N_("Only what fits"))
        bind(self._fits, QWidget.setAccessibleName, N_("Only what fits"))
        self._fits.toggled.connect(self._fill)
        self.list = QTreeWidget()
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setAllColumnsShowFocus(True)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.list.currentItemChanged.connect(self._offer)
        self.list.itemActivated.connect(lambda _item, _column: self.download())
        bind(self.list, QWidget.setAccessibleName, N_("Models found"))
        self._note = Label(context, tone="muted")
        self._notice = Notice(context)
        self._token = QLineEdit()
        self._token.setEchoMode(QLineEdit.EchoMode.Password)
        bind(self._token, QWidget.setAccessibleName, N_("Token of your account"))
        bind(self._token, QLineEdit.setPlaceholderText, N_("Token of your account"))
        self._keep = Button(context, N_("Store the token"), self._store_token, icon="key")
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        bind(self._bar, QWidget.setAccessibleName, N_("Progress of the download"))
        self._progress = Label(context)
        self._load = Button(context, N_("Download"), self.download, icon="down")
        self._close = Button(context, N_("Close"), self.reject)
        self._layout_parts()

    def _layout_parts(self) -> None:
        top = row(self.text, self._go, self._fits)
        top.setStretch(0, 1)
        layout = QVBoxLayout(self)
        layout.addLayout(top)
        layout.addWidget(self.list, 1)
        layout.addWidget(self._note)
        layout.addWidget(self._notice)
        layout.addLayout(row(self._token, self._keep))
        layout.addWidget(self._progress)
        layout.addWidget(self._bar)
        layout.addLayout(row(None, self._load, self._close))
        for widget in (self._token, self._keep, self._progress, self._bar):
            widget.hide()
        metrics = self.fontMetrics()
        self.resize(metrics.averageCharWidth() * 110, metrics.height() * 30)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return in the search field searches; it never closes the dialog."""
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter and self.text.hasFocus():
            self.search()
        elif enter and self._token.hasFocus():
            self._store_token()
        else:
            super().keyPressEvent(event)

    def search(self) -> None:
        """Look for what is typed; nothing typed = what others use with this engine."""
        if self._search_task is not None:
            self._search_task.cancel()
        self._rows.clear()
        self._notice.hide()
        self._note.show_text(N_("Searching…"))
        self._fill()
        self._search_task = self._context.bridge.submit(
            find_models(self._context.workbench, self.text.text().strip(), self._engine_id),
            self,
            lambda _none: self._searched(),
            self._failed,
            self._found,
        )

    def download(self) -> None:
        """Download the selected model; one that is cut off goes on where it was."""
        chosen = self._chosen()
        if chosen is None or not chosen.usable or self._load_task is not None:
            return
        self._notice.hide()
        hub = self._context.workbench.hub
        self._load_task = self._context.bridge.submit(
            told(lambda tell: hub.download(chosen.name, tell)),
            self,
            None,
            self._failed,
            self._told,
        )
        self._bar.setRange(0, 0)
        self._progress.show_text(N_("Asking for {name}…"), name=str(chosen.name))
        self._close.set_text(N_("Cancel"))
        self._offer()

    def reject(self) -> None:
        """First cancel a download (what is there is kept), then close."""
        if self._load_task is not None:
            self._load_task.cancel()
            self._load_ended()
            self._notice.tell(
                N_("Cancelled. What is downloaded is kept; Download goes on from there.")
            )
            return
        super().reject()

    def _found(self, item: tuple[FoundModel, ...] | FoundModel) -> None:
        for found in item if isinstance(item, tuple) else (item,):
            self._rows[found.name] = found
        self._fill()

    def _searched(self) -> None:
        if not self._rows:
            self._note.show_text(
                N_("Nothing was found. Try fewer words, or a full name such as OWNER/NAME.")
            )

    def _fill(self) -> None:
        tr = self._context.texts.tr
        selected = self._chosen()
        self.list.setHeaderLabels([tr(name) for name in COLUMNS])
        self.list.clear()
        for found in self._rows.values():
            misfit = found.fit.verdict in (None, Verdict.DOES_NOT_FIT)
            if self._fits.isChecked() and (misfit or not found.usable):
                continue
            item = self._item(found)
            self.list.addTopLevelItem(item)
            if selected is not None and found.name == selected.name:
                self.list.setCurrentItem(item)
        header = self.list.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in range(1, len(COLUMNS)):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        if self._rows:
            self._note.show_text(N_("Most used first; sizes and fit are looked up one by one."))
        if self._rows and not self.list.topLevelItemCount():
            self._note.show_text(
                N_(
                    "None of the {count} models found is known to fit these cards yet. Clear "
                    "“Only what fits” to see them, or search for a smaller one."
                ),
                count=len(self._rows),
            )
        self._offer()

    def _item(self, found: FoundModel) -> QTreeWidgetItem:
        texts = self._context.texts
        size = (
            "…"
            if found.size_bytes is None
            else size_text(found.size_bytes or None, Translator(texts.language))
        )
        fit = texts.tr(found.fit_word) if found.fit_word else ""
        if found.problem is not None:
            size, fit = "—", texts.tr(N_("see below"))
        count = f"{found.downloads:,}" if found.downloads else "—"
        item = QTreeWidgetItem([str(found.name), size, fit, count])
        item.setData(0, Qt.ItemDataRole.UserRole, found.name)
        tone = TONES.get(found.fit.verdict)
        if tone and found.problem is None:
            item.setForeground(2, self._context.theme.tokens.status(tone))
        for column in (1, 3):
            item.setTextAlignment(
                column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            )
        return item

    def _chosen(self) -> FoundModel | None:
        item = self.list.currentItem()
        return None if item is None else self._rows.get(item.data(0, Qt.ItemDataRole.UserRole))

    def _offer(self) -> None:
        chosen = self._chosen()
        loading = self._load_task is not None
        self._load.setEnabled(chosen is not None and chosen.usable and not loading)
        self._go.setEnabled(not loading)
        for widget in (self._bar, self._progress):
            widget.setVisible(loading)
        if chosen is None or loading:
            return
        if chosen.problem is not None:
            self._note.show_text(chosen.problem)
        elif chosen.gated:
            self._note.show_text(N_("Its owner wants you to accept the terms on its page first."))
        elif chosen.fit.text is not None:
            self._note.show_text(chosen.fit.text)

    def _told(self, item: DownloadProgress | str) -> None:
        if isinstance(item, str):
            self._load_ended()
            self._notice.tell(N_("Downloaded and verified: {path}"), tone="ok", path=item)
            self.downloaded.emit(item)
            return
        translator = Translator(self._context.texts.language)
        if item.waiting_s:
            self._progress.show_text(
                N_("Waiting {seconds} s before the next try…"), seconds=round(item.waiting_s)
            )
            return
        self._bar.setRange(0, 1000)
        self._bar.setValue(round(1000 * item.done_bytes / max(1, item.total_bytes)))
        self._progress.show_text(
            N_("{done} of {total}"),
            done=size_text(item.done_bytes, translator),
            total=size_text(item.total_bytes, translator),
        )

    def _load_ended(self) -> None:
        self._load_task = None
        self._close.set_text(N_("Close"))
        self._offer()

    def _failed(self, error: Exception) -> None:
        self._load_ended()
        self._notice.tell_error(error)
        if not self._rows:
            self._note.show_text("")
        asks = isinstance(error, TwinrigError) and error.finding_id == TOKEN_NAME
        self._token.setVisible(asks)
        self._keep.setVisible(asks)

    def _store_token(self) -> None:
        value = self._token.text().strip()
        if value:
            self._token.clear()
            secrets = self._context.workbench.secrets
            self._context.bridge.submit(
                secrets.set(TOKEN_NAME, value), self, lambda _none: self._stored(), self._failed
            )

    def _stored(self) -> None:
        self._token.hide()
        self._keep.hide()
        place = self._context.texts.tr(self._context.workbench.secrets.place)
        self._notice.tell(N_("Stored. Place: {place}"), tone="ok", place=place)
