"""One pass over a log of any size: hits of signatures, markers, facts, observations.

Works on blocks of lines. Which phrases occur in a block is asked of the *set of words* of the
block: logs repeat themselves, so that this set is small, and a block without any phrase costs
little more than splitting it into words. Memory does not grow with the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from twinrig.diagnosis import watches as w
from twinrig.diagnosis.crashes import crash_place, is_asynchronous
from twinrig.diagnosis.facts import ENVIRONMENT_NEEDLES, FactBook
from twinrig.diagnosis.index import index_of
from twinrig.diagnosis.normalise import by_engine, is_info, is_warning, role
from twinrig.diagnosis.root_cause import DEAD_WORKER, HINTS, RootCause, is_root
from twinrig.diagnosis.rules import READY, STARTED, STOPPED, Kind, Rules, Signature
from twinrig.diagnosis.unfold import Unfolded, logical_lines
from twinrig.diagnosis.vocabulary import Vocabulary
from twinrig.diagnosis.watches import Observation, Watches

BLOCK_LINES = 512
NEAR_LINES = 120
MAX_LINE_CHARS = 8000
MAX_HITS_A_BLOCK = 64
MAX_CRASHES = 20
TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Hit:
    """First place where a signature held in one run of the server. ``order`` counts lines over
    the log and what was read beside it; ``line_no`` is None there."""

    signature: Signature
    line_no: int | None
    line: str
    captured: Mapping[str, str]
    order: int
    epoch: int
    stopped: bool


@dataclass(frozen=True)
class MarkerHit:
    """Where a marker stood."""

    name: str
    line_no: int | None
    line: str
    epoch: int


@dataclass
class Scanned:
    """What a scan found. ``ready_order`` is 0 for a run that never became ready."""

    hits: list[tuple[Kind, Hit]]
    present: frozenset[str]
    facts: Mapping[str, str]
    observations: Mapping[str, Observation]
    speeds: Sequence[float]
    epoch: int
    ready: bool
    ever_ready: bool
    ready_order: int
    stopped: bool
    root: RootCause | None
    crashes: tuple[str, ...] = ()
    markers: list[MarkerHit] = field(default_factory=list)
    lines: int = 0


class LogScan:
    """Feed lines, then ``finish``. ``context`` holds facts the caller knows."""

    def __init__(self, rules: Rules, context: Mapping[str, str] | None = None) -> None:
        self._rules = rules
        self._book = FactBook(context or {})
        self._watches = Watches()
        self._index = index_of(rules)
        self._vocabulary = Vocabulary(self._index.needles)
        self._pending: list[str] = []
        self._next_no = 1
        self._above: list[str] = []
        self._order = 0
        self._numbered = True
        self._epoch = 0
        self._seen: dict[str, int] = {}
        self._ever_ready = False
        self._troubled = False
        self._counts: dict[int, int] = {}
        self._hits: dict[tuple[int, int], tuple[Kind, Hit]] = {}
        self._present: set[str] = set()
        self._roots: list[tuple[RootCause, int]] = []
        self._dead: RootCause | None = None
        self._crashes: dict[int, str] = {}
        self._marker_hits: list[MarkerHit] = []

    def feed(self, lines: Sequence[str]) -> None:
        """More lines, without their ends, in the order of the log."""
        pending = self._pending
        pending.extend(lines)
        start = 0
        while len(pending) - start >= BLOCK_LINES:
            self._block(pending[start : start + BLOCK_LINES])
            start += BLOCK_LINES
        if start:
            del pending[:start]

    def feed_beside(self, lines: Sequence[str]) -> None:
        """Lines that are not of the log (kernel log, events); they get no line number."""
        self._flush()
        self._numbered = False
        for start in range(0, len(lines), BLOCK_LINES):
            self._block(list(lines[start : start + BLOCK_LINES]))
        self._numbered = True

    def _flush(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, []
            self._block(pending)

    def finish(self) -> Scanned:
        """The result so far; more may be fed afterwards."""
        self._flush()
        ready = READY in self._seen
        facts = self._book.facts()
        stopped = STOPPED in self._seen
        return Scanned(
            hits=list(self._hits.values()),
            present=frozenset(self._present),
            facts=facts,
            observations=self._watches.finish(
                facts, ready=ready, orderly=stopped or "ending" in self._seen
            ),
            speeds=tuple(self._watches.speeds),
            epoch=self._epoch,
            ready=ready,
            ever_ready=self._ever_ready,
            ready_order=self._seen.get(READY, 0),
            stopped=stopped,
            root=self._root(),
            crashes=tuple(self._crashes.values()),
            markers=self._marker_hits,
            lines=self._next_no - 1,
        )

    def _root(self) -> RootCause | None:
        """Of a server that was ready, an error after that comes first."""
        ready = self._seen.get(READY, 0)
        for root, order in self._roots:
            if order >= ready:
                return root
        return self._roots[0][0] if self._roots else self._dead

    def _block(self, raw: list[str]) -> None:
        first = self._next_no
        block = logical_lines(raw, first)
        if self._numbered:
            self._next_no += len(raw)
        joined = "\n".join(block.texts)
        if block.alternatives:
            joined = "\n".join([joined, *block.alternatives.values()])
        if not joined.isascii():  # wide characters (progress bars) make every search slower
            joined = joined.encode("ascii", "replace").decode("ascii")
        present = self._vocabulary.present(joined)
        if present:
            self._present.update(self._index.phrases.intersection(present))
            wanted = {text: at for text, at in present.items() if self._wants(text)}
            self._visit(block, joined, wanted)
        if w.GENERATION in joined or w.METRICS in joined:
            self._watches.block(block.texts, block.numbers, block.alternatives)
        self._above = (self._above + block.texts)[-NEAR_LINES:]
        self._order += len(block.texts)

    def _wants(self, needle: str) -> bool:
        """Whether lines with the phrase may still tell something."""
        if needle not in self._index.passing:
            return True
        if needle in HINTS and not self._root_known():
            return True
        facts = self._index.facts.get(needle, ())
        return needle in ENVIRONMENT_NEEDLES or any(not self._book.knows(f.name) for f in facts)

    def _root_known(self) -> bool:
        ready = self._seen.get(READY, 0)
        return bool(self._roots) and (not ready or self._roots[-1][1] >= ready)

    def _visit(self, block: Unfolded, joined: str, present: Mapping[str, int]) -> None:
        wanted = self._lines_of(block, joined, present)
        for index in sorted(wanted):
            text = block.texts[index][:MAX_LINE_CHARS]
            number = block.numbers[index] if self._numbered else None
            line = _Line(text, number, self._order + index + 1, index, wanted[index])
            if self._line(line, block) or index not in block.alternatives:
                continue
            other = block.alternatives[index][:MAX_LINE_CHARS]
            needles = [n for n in present if n in other]
            self._line(_Line(other, number, line.order, index, needles), block)

    def _lines_of(
        self, block: Unfolded, joined: str, present: Mapping[str, int]
    ) -> dict[int, list[str]]:
        """Index of each line that holds phrases -> these phrases."""
        ends = list(accumulate(map((1).__add__, map(len, block.texts))))
        found: dict[int, list[str]] = {}
        for needle, first in present.items():
            position, hits = joined.find(needle) if first < 0 else first, 0
            while position >= 0 and hits < MAX_HITS_A_BLOCK:
                index = bisect_right(ends, position)
                if index >= len(ends):
                    break
                found.setdefault(index, []).append(needle)
                hits += 1
                position = joined.find(needle, ends[index])
        for index, text in block.alternatives.items():
            needles = [needle for needle in present if needle in text]
            if needles and index not in found:
                found[index] = []
        return found

    def _line(self, line: _Line, block: Unfolded) -> bool:
        """Everything a line may tell; whether a signature held."""
        interests = [self._index.interests[needle] for needle in line.needles]
        harmless = root = held = False
        for interest in interests:
            for name in interest.markers:
                self._mark(name, line)
            for pattern in interest.facts:
                self._book.read(pattern, line.text)
            if interest.environment:
                self._book.read_environment(line.text)
            if interest.watched:
                self._watches.line(line.text, line.number)
            harmless |= interest.harmless
            root |= interest.root
        if harmless:
            return False
        for interest in interests:
            for kind, signature in interest.signatures:
                held |= self._try(kind, signature, line, block)
        if root:
            self._look_for_root(line)
        return held

    def _mark(self, name: str, line: _Line) -> None:
        if name == STARTED and (self._troubled or READY in self._seen):
            self._epoch += 1
            self._seen = {}
            self._roots, self._dead, self._troubled = [], None, False
            self._counts.clear()
            self._watches.restart()
        if name not in self._seen:
            self._seen[name] = line.order
            if len(self._marker_hits) < 200:
                self._marker_hits.append(MarkerHit(name, line.number, line.text, self._epoch))
        if name == READY:
            self._ever_ready = True

    def _try(self, kind: Kind, signature: Signature, line: _Line, block: Unfolded) -> bool:
        key = (id(signature), self._epoch)
        if key in self._hits or not _level_fits(signature, line.text):
            return False
        found = signature.match.search(line.text) if signature.match else None
        if signature.match and not found:
            return False
        if signature.excludes and signature.excludes.search(line.text):
            return False
        if not (self._seen.keys() >= set(signature.after)) or not self._seen.keys().isdisjoint(
            signature.before
        ):
            return False
        if not self._near_fits(signature, line, block):
            return False
        count = self._counts.get(key[0], 0) + 1
        self._counts[key[0]] = count
        if count < signature.repeats:
            return False
        captured = found.groupdict() if found else {}
        self._hits[key] = (
            kind,
            Hit(
                signature,
                line.number,
                line.text,
                {k: v for k, v in captured.items() if v is not None},
                line.order,
                self._epoch,
                STOPPED in self._seen,
            ),
        )
        return True

    def _near_fits(self, signature: Signature, line: _Line, block: Unfolded) -> bool:
        if signature.near is None and signature.not_near is None:
            return True
        above = (self._above + block.texts[: line.index])[-NEAR_LINES:]
        frames = _frames(above, role(line.text))
        if signature.near is not None and not any(map(signature.near.search, frames)):
            return False
        return signature.not_near is None or not any(map(signature.not_near.search, frames))

    def _look_for_root(self, line: _Line) -> None:
        if STOPPED in self._seen:
            return
        if is_asynchronous(line.text) and not is_info(line.text):
            known = self._crashes.get(self._epoch, "")
            if crash_place(known) in ("", "?") and len(self._crashes) < MAX_CRASHES:
                self._crashes[self._epoch] = line.text
        if self._root_known():
            return
        if DEAD_WORKER in line.text and self._dead is None:
            self._dead = RootCause(line.number, line.text)
        for part in line.text.split("\r"):
            if is_root(part, self._rules.wrappers):
                self._troubled = True
                self._take_root(RootCause(line.number, part), line.order)
                return

    def _take_root(self, root: RootCause, order: int) -> None:
        ready = self._seen.get(READY, 0)
        if not self._roots or (ready and self._roots[-1][1] < ready <= order):
            self._roots.append((root, order))


@dataclass(slots=True)
class _Line:
    text: str
    number: int | None
    order: int
    index: int
    needles: Sequence[str]


def _level_fits(signature: Signature, text: str) -> bool:
    if is_info(text):
        return signature.info and not (signature.tier == "windows" and by_engine(text))
    return signature.warning or not is_warning(text)


def _frames(above: Sequence[str], who: str) -> list[str]:
    """Lines of the same process up to the beginning of its traceback; the block above when the
    process cannot be told."""
    frames: list[str] = []
    for text in reversed(above):
        if is_info(text) or role(text) not in ("", who):
            continue
        frames.append(text)
        if TRACEBACK in text:
            break
    return frames
