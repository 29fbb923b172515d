"""What deserves a word although nobody asked: once per episode, never twice for the same thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import ServerState
from twinrig.messages import Message, message
from twinrig.services.verdict_rules import SPILL_BYTES
from twinrig.services.verdict_words import Verdict

HOT_C = 90
"""Consumer cards slow themselves down a little below or above this."""

HOLD_S: Mapping[str, float] = MappingProxyType(
    {"hot": 10.0, "spill": 10.0, "stuck": 0.0, "degraded": 0.0, "card-lost": 5.0}
)
"""So long must it last before it is told."""

CLEAR_S = 60.0
"""So long must it be gone before the next time is news."""

_TITLES: Mapping[str, Message] = MappingProxyType(
    {
        "hot": message("A card is too hot"),
        "spill": message("Video memory is full"),
        "stuck": message("The server is stuck"),
        "degraded": message("The server does not answer as it should"),
        "card-lost": message("A graphics card does not answer"),
    }
)


@dataclass(frozen=True)
class Alarm:
    """``kind`` is a key of HOLD_S."""

    kind: str
    title: Message
    text: Message


@dataclass
class _Episode:
    since_s: float
    last_s: float
    told: bool = False


class Alarms:
    """Feed it each snapshot with its verdict. Times are those of the snapshots."""

    def __init__(self) -> None:
        self._episodes: dict[str, _Episode] = {}

    def take(self, snapshot: Snapshot, judged: Verdict) -> Alarm | None:
        """An alarm when one is due; the others wait for the next snapshot."""
        now_s = snapshot.taken_at_s
        for kind in _lasting(snapshot):
            if (known := self._episodes.get(kind)) is not None and known.told:
                known.last_s = now_s
        present = _conditions(snapshot, judged)
        for kind in [k for k, e in self._episodes.items() if not _goes_on(e, now_s)]:
            del self._episodes[kind]
        due: Alarm | None = None
        for kind, text in present.items():
            episode = self._episodes.get(kind)
            if episode is None:
                episode = self._episodes[kind] = _Episode(now_s, now_s)
            elif not episode.told and now_s - episode.last_s > HOLD_S[kind] + 5.0:
                episode.since_s = now_s  # it was gone before anything was said
            episode.last_s = now_s
            if due is None and not episode.told and now_s - episode.since_s >= HOLD_S[kind]:
                episode.told = True
                due = Alarm(kind, _TITLES[kind], text)
        return due


def _lasting(snapshot: Snapshot) -> tuple[str, ...]:
    """What goes on although no verdict says so: memory stays in RAM between two requests."""
    shared = [sample.shared_used_bytes or 0 for sample in snapshot.samples]
    return ("spill",) if max(shared, default=0) >= SPILL_BYTES else ()


def _goes_on(episode: _Episode, now_s: float) -> bool:
    return 0 <= now_s - episode.last_s < CLEAR_S


def _conditions(snapshot: Snapshot, judged: Verdict) -> dict[str, Message]:
    found: dict[str, Message] = {}
    if judged.id in ("stuck", "spill", "card-lost"):
        found[judged.id] = judged.text
    if judged.id == "too-hot":
        found["hot"] = judged.text
    names = {info.uuid: info.index for info in snapshot.gpus}
    for sample in snapshot.samples:
        if not sample.stale and (sample.temperature_c or 0) >= HOT_C:
            found.setdefault(
                "hot",
                message(
                    "GPU {index} is at {degrees} °C.",
                    index=names.get(sample.uuid, "?"),
                    degrees=sample.temperature_c,
                ),
            )
    record = snapshot.server
    if record is not None and record.state is ServerState.DEGRADED:
        reason = record.degraded_reason or message("Open Twinrig to see the log.")
        found["degraded"] = reason
    return found
