"""Writes minutes and events of the machine to the history file, off the GUI thread."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from twinrig.domain.errors import DamagedFileError, NewerSchemaError, TwinrigError
from twinrig.domain.metrics import Snapshot
from twinrig.qt.bridge import Bridge
from twinrig.qt.live import LiveData
from twinrig.services.history import Event, Minute
from twinrig.services.history_store import HistoryStore

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench

_log = logging.getLogger(__name__)


class HistoryKeeper(QObject):
    """One write a minute. A file that cannot be written is logged; the panel works without it."""

    def __init__(
        self, workbench: Workbench, bridge: Bridge, live: LiveData, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._live = live
        self._store: HistoryStore = workbench.history_store()
        self._writing = False
        live.snapshot.connect(self._take)

    def finish(self) -> None:
        """At the end: write the minute that has begun, here and now (a few milliseconds)."""
        minutes, events = self._live.machine_history.take_pending(all_of_it=True)
        try:
            self._store.write(minutes, events)
        except TwinrigError as error:
            _log.warning("the history was not written: %s", error)

    def _take(self, _snapshot: Snapshot) -> None:
        history = self._live.machine_history
        if self._writing or not history.has_pending:
            return
        self._writing = True
        minutes, events = history.take_pending()
        work = asyncio.to_thread(self._store.write, minutes, events)
        self._bridge.submit(
            work, self, self._written, lambda error: self._failed(error, minutes, events)
        )

    def _written(self, _done: object) -> None:
        self._writing = False

    def _failed(self, error: Exception, minutes: list[Minute], events: list[Event]) -> None:
        self._writing = False
        _log.warning("the history was not written: %s", error)
        # What was moved aside as damaged has been written anew; all else is tried again.
        if not _was_written(error):
            self._live.machine_history.give_back(minutes, events)


def _was_written(error: Exception) -> bool:
    return isinstance(error, DamagedFileError) and not isinstance(error, NewerSchemaError)
