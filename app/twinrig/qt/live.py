"""The one stream of snapshots that overview, tray, meter and status strip share."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from twinrig.domain.metrics import Snapshot
from twinrig.qt.bridge import Bridge, TaskHandle
from twinrig.qt.viewmodels.face import Settling
from twinrig.qt.viewmodels.figures import LastKnown
from twinrig.services.freed_memory import FreedMemory
from twinrig.services.history import History
from twinrig.services.recording import Replay
from twinrig.services.verdict import KEPT, verdict
from twinrig.services.verdict_words import Verdict

if TYPE_CHECKING:
    from twinrig.services.monitor import Monitor
    from twinrig.services.workbench import Workbench

RETRY_MS = 3000


class LiveData(QObject):
    """Runs one Monitor at a time; at half rate while nothing is to be seen.

    ``history`` remembers what came. ``snapshot`` carries a Snapshot; ``interrupted`` carries the
    reason when the stream broke (it is started again by itself). ``settled``: what can be seen
    has been the same for so long that nothing need be rendered. ``verdict`` judges the present;
    ``freed`` knows how much video memory came back when the cards were freed, ``last_known``
    what is told now and then only.

    A recording takes the place of the machine, with a history of its own; ``machine`` and
    ``machine_history`` stay those of the machine. ``recording_changed`` fires when one is
    opened, comes to its end or is closed; ``recording_failed`` carries why one cannot be shown.
    """

    snapshot = Signal(object)
    interrupted = Signal(object)
    recording_changed = Signal()
    recording_failed = Signal(object)

    def __init__(
        self, workbench: Workbench, bridge: Bridge, interval_s: float, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._workbench = workbench
        self._bridge = bridge
        self._interval_s = interval_s
        self._detailed = False
        self._visible = True
        self._handle: TaskHandle | None = None
        self._retry_timer: int = 0
        self.latest: Snapshot | None = None
        self.machine: Snapshot | None = None
        self.machine_history = History()
        self.recording: Path | None = None
        self.at_end = False
        self._replay: Replay | None = None
        self._speed = 1.0
        self._begin_afresh(self.machine_history)

    def _begin_afresh(self, history: History) -> None:
        self.history = history
        self.latest = None
        self.settled = False
        self.verdict: Verdict = verdict(())
        self.freed = FreedMemory()
        self.last_known = LastKnown()
        self._recent: deque[Snapshot] = deque(maxlen=KEPT)
        self._settling = Settling()

    @property
    def interval_s(self) -> float:
        """Seconds between snapshots now."""
        return self._interval_s if self._visible else 2 * self._interval_s

    def start(self) -> None:
        """Begin, or begin again with the present interval."""
        self.stop()
        source = self._replay or self._monitor()
        self._handle = self._bridge.submit(
            source.snapshots(), self, self._ended, self._failed, self.take
        )

    def _monitor(self) -> Monitor:
        if self._detailed:
            return self._workbench.monitor(self.interval_s, detailed=True)
        return self._workbench.monitor(self.interval_s)

    def stop(self) -> None:
        """No snapshot arrives after this."""
        if self._retry_timer:
            self.killTimer(self._retry_timer)
            self._retry_timer = 0
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def open_recording(self, path: Path) -> None:
        """Show a recording from its beginning, in place of the machine; also the same one again."""
        self.stop()
        self.recording, self.at_end = path, False
        self._replay = Replay(path, self._workbench.clock, self._speed)
        self._begin_afresh(History())
        self.recording_changed.emit()
        self.start()

    def close_recording(self) -> None:
        """Back to the machine, whose own history goes on."""
        if self.recording is None:
            return
        self.stop()
        self.recording, self.at_end, self._replay = None, False, None
        self._begin_afresh(self.machine_history)
        self.recording_changed.emit()
        self.start()

    def set_speed(self, speed: float) -> None:
        """How fast recordings are shown; 1.0 is the pace in which they were made."""
        self._speed = speed
        if self._replay is not None:
            self._replay.speed = speed

    def set_visible(self, visible: bool) -> None:
        """Half rate while hidden."""
        if visible != self._visible:
            self._visible = visible
            self._restart_if_running()

    def set_interval(self, seconds: float) -> None:
        if seconds != self._interval_s:
            self._interval_s = seconds
            self._restart_if_running()

    def set_detailed(self, wanted: bool) -> None:
        """With PCIe traffic and energy, or without."""
        if wanted != self._detailed:
            self._detailed = wanted
            self._restart_if_running()

    def _restart_if_running(self) -> None:
        if self.recording is None and (self._handle is not None or self._retry_timer):
            self.start()

    def take(self, snapshot: Snapshot) -> None:
        """A snapshot came: remember and judge it, then tell everybody."""
        self.latest = snapshot
        if self.recording is None:
            self.machine = snapshot
        self._recent.append(snapshot)
        self.history.take(snapshot)
        self.freed.take(snapshot)
        self.last_known.take(snapshot)
        self.settled = self._settling.take(snapshot)
        if not self.settled:
            self.verdict = verdict(self._recent)
        self.snapshot.emit(snapshot)

    def _ended(self, _result: object) -> None:
        if self.recording is None:
            self._schedule_retry()
            return
        self._handle, self.at_end = None, True
        self.recording_changed.emit()

    def _failed(self, error: Exception) -> None:
        if self.recording is not None:
            self.close_recording()
            self.recording_failed.emit(error)
            return
        self.interrupted.emit(error)
        self._schedule_retry()

    def _schedule_retry(self) -> None:
        self._handle = None
        if not self._retry_timer:
            self._retry_timer = self.startTimer(RETRY_MS)

    def timerEvent(self, _event: object) -> None:
        self.start()
