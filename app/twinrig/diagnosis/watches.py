"""Observations that no single line can tell: stalls, speeds, repeated answers, run times."""

from __future__ import annotations

import re
import statistics
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from twinrig.diagnosis.normalise import role

OBSERVATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "stalled": ("minutes",),
        "wedged": ("minutes",),
        "slow-shards": ("seconds",),
        "repeated-answer": (),
        "collective-fails-large": ("good_bytes", "bad_bytes"),
        "slow-generation": ("measured", "expected"),
        "ended-silently": (),
        "ran-three-days": (),
    }
)
"""Names that rules may ask for, and the parameters each gives."""

BROADCAST = "No available shared memory broadcast block"
GENERATION = "generation throughput"
METRICS = "Generate:"
SHARDS = "s/it]"
ANSWER = "output: '"
COLLECTIVE = "float"
FAILED_TEST = "Test CUDA failure"
ENDED = "0x41306"
NEEDLES = (BROADCAST, SHARDS, ANSWER, COLLECTIVE, FAILED_TEST, ENDED, "exceeded the time allocated")

_STATS = re.compile(
    r"Avg prompt throughput: (?P<prompt>[\d.]+) tokens/s, "
    r"Avg generation throughput: (?P<generation>[\d.]+) tokens/s"
    r"(?:, Running: (?P<running>\d+) reqs)?(?:, \w+: \d+ reqs)??"
    r"(?:, Waiting: (?P<waiting>\d+) reqs)?"
)
_METRICS = re.compile(r"Generate: (?P<generation>\d+(?:\.\d+)?)\s?T/s,\s?Context:")
_EMPTY_CACHE = re.compile(r"KV cache usage: 0\.0%")
_SHARD = re.compile(r"shards?:.*?(?P<seconds>\d+(?:\.\d+)?)s/it\]")
_SAME = re.compile(r"output: '(?P<letter>[^\s\w])(?P=letter){14,}'")
_ROW = re.compile(
    r"^\s*(?P<size>\d{2,})\s+\d+\s+\w+\s+\w+\s+-?\d+\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+(\S+)"
)
_SPAN = re.compile(
    r"started (\d{4}-\d\d-\d\d[ T]\d\d:\d\d)\S*,? ended (\d{4}-\d\d-\d\d[ T]\d\d:\d\d)"
)
_MAX_SPEEDS = 100_000
_STALL_TIMES, _STALL_GAP = 3, 10
_WEDGE_TIMES = 6
_SLOW_SHARD_S = 60.0
_SPILL_RATIO = 4.0
_STEP_BYTES = 512 * 1024
_THREE_DAYS_S, _TOLERANCE_S = 72 * 3600, 300


@dataclass(frozen=True)
class Observation:
    """Something that was seen over several lines; ``line_no`` is where it began."""

    name: str
    line_no: int | None
    line: str
    params: Mapping[str, str] = field(default_factory=dict)


class Watches:
    """Sees the lines that hold one of ``NEEDLES``, and whole blocks for speeds."""

    def __init__(self) -> None:
        self.speeds = array("d")
        self._found: dict[str, Observation] = {}
        self._stalls: dict[str, tuple[int, int, int, str]] = {}
        self._wedge: list[tuple[int, str]] = []
        self._good_bytes = 0
        self._first_speed: tuple[int, str] = (0, "")

    def restart(self) -> None:
        """A new run of the server began."""
        self._stalls.clear()
        self._wedge.clear()

    def block(
        self, texts: Sequence[str], numbers: Sequence[int], alternatives: Mapping[int, str]
    ) -> None:
        """Speeds and statistics of a block that holds some."""
        for index in [i for i, t in enumerate(texts) if GENERATION in t or METRICS in t]:
            if not self._measured(texts[index], numbers[index]) and index in alternatives:
                self._measured(alternatives[index], numbers[index])

    def _measured(self, text: str, number: int) -> bool:
        if GENERATION in text and (found := _STATS.search(text)):
            self._statistics(found, text, number)
            return True
        if METRICS in text and (found := _METRICS.search(text)):
            self._speed(float(found["generation"]), text, number)
            return True
        return False

    def _speed(self, value: float, text: str, number: int) -> None:
        if not self._first_speed[0]:
            self._first_speed = (number, text)
        if len(self.speeds) < _MAX_SPEEDS:
            self.speeds.append(value)

    def _statistics(self, found: re.Match[str], text: str, number: int) -> None:
        generation = float(found["generation"])
        self._speed(generation, text, number)
        running, waiting = int(found["running"] or 0), int(found["waiting"] or 0)
        busy = running > 0 or (waiting > 0 and _EMPTY_CACHE.search(text) is not None)
        if generation > 0 or float(found["prompt"]) > 0 or not busy:
            self._wedge.clear()
            return
        self._wedge.append((number, text))
        if len(self._wedge) == _WEDGE_TIMES:
            first_no, first = self._wedge[0]
            self._note("wedged", first_no, first, minutes="1")

    def line(self, text: str, number: int | None) -> None:
        """One line with a needle."""
        if BROADCAST in text:
            self._broadcast(text, number or 0)
        elif SHARDS in text:
            self._shard(text, number)
        elif ANSWER in text and _SAME.search(text):
            self._note("repeated-answer", number, text)
        elif FAILED_TEST in text:
            self._failed_test(text, number)
        elif COLLECTIVE in text and (found := _ROW.match(text)):
            self._good_bytes = max(self._good_bytes, int(found["size"]))
        elif found := _SPAN.search(text):
            self._ended(found, text, number)

    def _broadcast(self, text: str, number: int) -> None:
        who = role(text)
        times, last, first, first_text = self._stalls.get(who, (0, 0, number, text))
        if times and number - last > _STALL_GAP:
            times, first, first_text = 0, number, text
        self._stalls[who] = (times + 1, number, first, first_text)
        if times + 1 == _STALL_TIMES:
            self._found.pop("stalled", None)
            self._note("stalled", first, first_text, minutes=str(times + 1))

    def _shard(self, text: str, number: int | None) -> None:
        found = _SHARD.search(text)
        if found and float(found["seconds"]) > _SLOW_SHARD_S:
            self._note("slow-shards", number, text, seconds=found["seconds"])

    def _failed_test(self, text: str, number: int | None) -> None:
        if "illegal memory access" in text and 1024 <= self._good_bytes <= _STEP_BYTES:
            self._note(
                "collective-fails-large",
                number,
                text,
                good_bytes=str(self._good_bytes),
                bad_bytes=str(self._good_bytes * 2),
            )

    def _ended(self, found: re.Match[str], text: str, number: int | None) -> None:
        started, ended = (
            datetime.fromisoformat(value.replace(" ", "T")) for value in (found[1], found[2])
        )
        if abs((ended - started).total_seconds() - _THREE_DAYS_S) <= _TOLERANCE_S:
            self._note("ran-three-days", number, text)

    def _note(self, name: str, number: int | None, text: str, **params: str) -> None:
        self._found.setdefault(name, Observation(name, number, text, params))

    def finish(
        self, facts: Mapping[str, str], *, ready: bool, orderly: bool
    ) -> Mapping[str, Observation]:
        """Everything observed, also what only the whole log and the facts can tell."""
        found = dict(self._found)
        for seen in (self._slow_generation(facts), _reported_sizes(facts)):
            if seen is not None:
                found.setdefault(seen.name, seen)
        if ready and not orderly:
            found["ended-silently"] = Observation("ended-silently", None, "")
        return found

    def _slow_generation(self, facts: Mapping[str, str]) -> Observation | None:
        try:
            expected = float(facts.get("expected_tps", ""))
        except ValueError:
            return None
        busy = [speed for speed in self.speeds if speed > 0]
        # The first requests after a start may be slow and are no fault (communicators are built).
        judged = busy[1:] if len(busy) > 2 else busy
        if not judged or statistics.median(judged) * _SPILL_RATIO >= expected:
            return None
        number, text = self._first_speed
        params = {"measured": f"{statistics.median(judged):.1f}", "expected": f"{expected:g}"}
        return Observation("slow-generation", number, text, params)


def _reported_sizes(facts: Mapping[str, str]) -> Observation | None:
    good, bad = (facts.get(f"allreduce_{name}_bytes", "") for name in ("largest_ok", "first_bad"))
    if good.isdecimal() and bad.isdecimal() and 0 < int(good) < _STEP_BYTES <= int(bad):
        params = {"good_bytes": good, "bad_bytes": bad}
        return Observation("collective-fails-large", None, "", params)
    return None
