"""What of a snapshot can be seen, as one value: while it stays the same, nothing is rendered."""

from __future__ import annotations

from collections.abc import Hashable

from twinrig.domain.gpu import GpuSample
from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import is_silent
from twinrig.services.situation import is_busy

MIB_100 = 100 * 1024 * 1024
SETTLED_AFTER = 15
"""Longer than any verdict about an idle server needs."""

_RESTING = (ServerState.STOPPED, ServerState.READY, ServerState.SLEEPING, ServerState.FAILED)


def face(snapshot: Snapshot) -> Hashable | None:
    """None while anything is under way: then every snapshot is another one."""
    record = snapshot.server
    if is_busy(snapshot) or (record is not None and record.state not in _RESTING):
        return None
    about_server: Hashable = None
    if record is not None:
        ready_s = snapshot.taken_at_s - (record.ready_at_s or snapshot.taken_at_s)
        silent = is_silent(record, snapshot.taken_at_s)
        who = (record.state, record.profile_id, record.run_id, record.model_id, record.base_url)
        seen = (*who, record.sleep_fault is not None)
        # A silent supervisor is told with its age in seconds.
        about_server = (*seen, int(ready_s // 60), snapshot.taken_at_s if silent else 0)
    cards = tuple(_sample(sample) for sample in snapshot.samples)
    return about_server, cards, len(snapshot.gpus), snapshot.throughput, snapshot.gpu_error


def _sample(sample: GpuSample) -> Hashable:
    power_w, memory = sample.power_w, sample.memory_used_bytes
    return (
        sample.uuid,
        sample.utilisation_percent,
        None if memory is None else memory // MIB_100,
        None if power_w is None else round(power_w),
        sample.temperature_c,
        sample.clock_sm_mhz,
        sample.throttle_reasons,
        sample.stale,
    )


class Settling:
    """Tells when the face has been the same for a while."""

    def __init__(self) -> None:
        self._face: Hashable | None = None
        self._same = 0

    def take(self, snapshot: Snapshot) -> bool:
        """Whether this snapshot need not be rendered."""
        new = face(snapshot)
        self._same = self._same + 1 if new is not None and new == self._face else 0
        self._face = new
        return self._same >= SETTLED_AFTER
