"""The one stream of snapshots that overview, tray, meter and status strip share."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from twinrig.domain.metrics import Snapshot
from twinrig.qt.bridge import Bridge, TaskHandle
from twinrig.qt.viewmodels.face import Settling
from twinrig.services.history import History
from twinrig.services.verdict import KEPT, verdict
from twinrig.services.verdict_words import Verdict

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench

RETRY_MS = 3000


class LiveData(QObject):
    """Runs one Monitor at a time; at half rate while nothing is to be seen.

    ``history`` remembers what came. ``snapshot`` carries a Snapshot; ``interrupted`` carries the
    reason when the stream broke (it is started again by itself). ``settled``: what can be seen
    has been the same for so long that nothing need be rendered. ``verdict`` judges the present.
    """

    snapshot = Signal(object)
    interrupted = Signal(object)

    def __init__(
        self, workbench: Workbench, bridge: Bridge, interval_s: float, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._bridge = bridge
        self._interval_s = interval_s
        self._visible = True
        self._handle: TaskHandle | None = None
        self._retry_timer: int = 0
        self.latest: Snapshot | None = None
        self.history = History()
        self.settled = False
        self.verdict: Verdict = verdict(())
        self._recent: deque[Snapshot] = deque(maxlen=KEPT)
        self._settling = Settling()

    @property
    def interval_s(self) -> float:
        """Seconds between snapshots now."""
        return self._interval_s if self._visible else 2 * self._interval_s

    def start(self) -> None:
        """Begin, or begin again with the present interval."""
        self.stop()
        monitor = self._workbench.monitor(self.interval_s)
        self._handle = self._bridge.submit(
            monitor.snapshots(), self, self._ended, self._failed, self.take
        )

    def stop(self) -> None:
        """No snapshot arrives after this."""
        if self._retry_timer:
            self.killTimer(self._retry_timer)
            self._retry_timer = 0
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def set_visible(self, visible: bool) -> None:
        """Half rate while hidden."""
        if visible != self._visible:
            self._visible = visible
            self._restart_if_running()

    def set_interval(self, seconds: float) -> None:
        if seconds != self._interval_s:
            self._interval_s = seconds
            self._restart_if_running()

    def _restart_if_running(self) -> None:
        if self._handle is not None or self._retry_timer:
            self.start()

    def take(self, snapshot: Snapshot) -> None:
        """A snapshot came: remember and judge it, then tell everybody."""
        self.latest = snapshot
        self._recent.append(snapshot)
        self.history.take(snapshot)
        self.settled = self._settling.take(snapshot)
        if not self.settled:
            self.verdict = verdict(self._recent)
        self.snapshot.emit(snapshot)

    def _ended(self, _result: object) -> None:
        self._schedule_retry()

    def _failed(self, error: Exception) -> None:
        self.interrupted.emit(error)
        self._schedule_retry()

    def _schedule_retry(self) -> None:
        self._handle = None
        if not self._retry_timer:
            self._retry_timer = self.startTimer(RETRY_MS)

    def timerEvent(self, _event: object) -> None:
        self.start()
