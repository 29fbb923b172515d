"""One pass over a log of any size: hits of signatures, markers, facts, observations.

Works on blocks of lines. Which lines hold a phrase is asked of their *shapes*: logs repeat
themselves, so that a line that tells nothing costs little more than finding that its shape is
known. Memory does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain

from twinrig.diagnosis.crashes import crash_place, is_asynchronous
from twinrig.diagnosis.facts import ENVIRONMENT_NEEDLES, FactBook
from twinrig.diagnosis.index import Interest, index_of, merged
from twinrig.diagnosis.normalise import by_engine, is_info, is_warning, role
from twinrig.diagnosis.root_cause import API_PROCESS, DEAD_WORKER, HINTS, RootCause, is_root
from twinrig.diagnosis.rules import READY, STARTED, STOPPED, Kind, Rules, Signature
from twinrig.diagnosis.shapes import Shapes
from twinrig.diagnosis.unfold import Unfolded, logical_lines
from twinrig.diagnosis.watches import Observation, Watches

BLOCK_LINES = 512
NEAR_LINES = 120
MAX_LINE_CHARS = 8000
MAX_MERGED = 4096
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
        self._shapes = Shapes(self._index.needles)
        self._merged: dict[tuple[str, ...], Interest] = {}
        self._pending: list[str] = []
        self._next_no = 1
        self._above: list[str] = []
        self._speakers: dict[int, str | None] = {}
        self._order = 0
        self._numbered = True
        self._epoch = self._began = 0
        self._seen: dict[str, int] = {}
        self._ever_ready = False
        self._troubled = False
        self._counts: dict[int, int] = {}
        self._hits: dict[int, tuple[Kind, Hit]] = {}
        self._earlier: dict[int, tuple[Kind, Hit]] = {}
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
            hits=[*self._earlier.values(), *self._hits.values()],
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
        turns = any(p in joined for name in (STARTED, READY) for p in self._rules.markers[name])
        unwanted = {p for p in self._index.passing if not self._wants(p, hints=turns)}
        found = self._shapes.find(block.texts, unwanted)
        others = _others(self._shapes, block, unwanted) if block.alternatives else {}
        if found or others:
            phrases = {p for needles in chain(found.values(), others.values()) for p in needles}
            self._present.update(self._index.phrases & phrases)
            self._visit(block, found, others)
        self._watches.block(block.texts, block.numbers, block.alternatives)
        self._speakers.clear()
        self._above = (self._above + block.texts)[-NEAR_LINES:]
        self._order += len(block.texts)

    def _wants(self, needle: str, *, hints: bool) -> bool:
        """Whether lines with a passing phrase may still tell something. ``hints``: in this block
        the server starts or becomes ready, after which another exception counts."""
        if needle in self._index.phrases and needle not in self._present:
            return True
        if needle in HINTS and (hints or not self._root_known()):
            return True
        facts = self._index.facts.get(needle, ())
        return needle in ENVIRONMENT_NEEDLES or any(not self._book.knows(f.name) for f in facts)

    def _root_known(self) -> bool:
        ready = self._seen.get(READY, 0)
        return bool(self._roots) and (not ready or self._roots[-1][1] >= ready)

    def _visit(
        self, block: Unfolded, found: Mapping[int, list[str]], others: Mapping[int, list[str]]
    ) -> None:
        """``others`` are phrases of the other readings of folded lines."""
        for index in sorted(found.keys() | others.keys()) if others else found:
            number = block.numbers[index] if self._numbered else None
            order = self._order + index + 1
            if index in found:
                text = block.texts[index][:MAX_LINE_CHARS]
                if self._line(_Line(text, number, order, index), found[index], block):
                    continue
            if index in others:
                text = block.alternatives[index][:MAX_LINE_CHARS]
                self._line(_Line(text, number, order, index), others[index], block)

    def _interest(self, needles: Sequence[str]) -> Interest:
        if len(needles) == 1:
            return self._index.interests[needles[0]]
        key = tuple(needles)
        known = self._merged.get(key)
        if known is None:
            if len(self._merged) >= MAX_MERGED:
                self._merged.clear()
            known = merged([self._index.interests[needle] for needle in needles])
            self._merged[key] = known
        return known

    def _line(self, line: _Line, needles: Sequence[str], block: Unfolded) -> bool:
        """Everything a line may tell; whether a signature held."""
        interest = self._interest(needles)
        self._read(interest, line)
        if interest.harmless:
            return False
        held = False
        for kind, signature in interest.signatures:
            if id(signature) not in self._hits:
                held |= self._try(kind, signature, line, block)
        if interest.root:
            self._look_for_root(line)
        return held

    def _read(self, interest: Interest, line: _Line) -> None:
        """What a line tells of the run, whether or not it is an error."""
        for name in interest.markers:
            if name == STARTED or name not in self._seen:
                self._mark(name, line)
        for pattern in interest.facts:
            self._book.read(pattern, line.text)
        if interest.environment:
            self._book.read_environment(line.text)
        if interest.watched:
            self._watches.line(line.text, line.number)
        if interest.refused:
            self._excuse(line)

    def _mark(self, name: str, line: _Line) -> None:
        if name == STARTED and (self._troubled or READY in self._seen):
            self._new_run(line.order)
        if name not in self._seen:
            self._seen[name] = line.order
            if len(self._marker_hits) < 200:
                self._marker_hits.append(MarkerHit(name, line.number, line.text, self._epoch))
        if name == READY:
            self._ever_ready = True

    def _new_run(self, order: int) -> None:
        """Of earlier runs only what may still count is kept, and of that the first."""
        self._epoch, self._began = self._epoch + 1, order
        self._seen = {}
        self._roots, self._dead, self._troubled = [], None, False
        self._counts.clear()
        for key, held in self._hits.items():
            if held[1].signature.after_stop:
                self._earlier.setdefault(key, held)
        self._hits.clear()
        self._watches.restart()

    def _try(self, kind: Kind, signature: Signature, line: _Line, block: Unfolded) -> bool:
        """Cheap questions first: nearly all signatures fail at one of them."""
        seen = self._seen
        if signature.before and not seen.keys().isdisjoint(signature.before):
            return False
        if signature.after and not seen.keys() >= set(signature.after):
            return False
        if not _level_fits(signature, line):
            return False
        found = signature.match.search(line.text) if signature.match else None
        if signature.match and not found:
            return False
        if signature.excludes and signature.excludes.search(line.text):
            return False
        if not self._near_fits(signature, line, block):
            return False
        key = id(signature)
        self._counts[key] = count = self._counts.get(key, 0) + 1
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
                STOPPED in seen,
            ),
        )
        return True

    def _near_fits(self, signature: Signature, line: _Line, block: Unfolded) -> bool:
        if signature.near is None and signature.not_near is None:
            return True
        if line.frames is None:
            line.frames = self._frames(line, block)
        if signature.near is not None and not any(map(signature.near.search, line.frames)):
            return False
        return signature.not_near is None or not any(map(signature.not_near.search, line.frames))

    def _frames(self, line: _Line, block: Unfolded) -> list[str]:
        """Lines of the same process up to the beginning of its traceback; the block above when
        the process cannot be told. None of an earlier run."""
        who = role(line.text)
        frames: list[str] = []
        lines = min(NEAR_LINES, line.index + len(self._above), line.order - self._began)
        for at in range(line.index - 1, line.index - lines - 1, -1):
            text = block.texts[at] if at >= 0 else self._above[at]
            if at not in self._speakers:
                self._speakers[at] = _speaker(text)
            if self._speakers[at] in ("", who):
                frames.append(text)
                if TRACEBACK in text:
                    break
        return frames

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

    def _excuse(self, line: _Line) -> None:
        """A ready server refused a request: what its API process threw above ended nothing."""
        ready = self._seen.get(READY, 0)
        if not ready or not self._roots:
            return
        root, order = self._roots[-1]
        near = order > max(ready, line.order - NEAR_LINES)
        if near and role(root.line) in ("", API_PROCESS):
            self._roots.pop()

    def _take_root(self, root: RootCause, order: int) -> None:
        ready = self._seen.get(READY, 0)
        if not self._roots or (ready and self._roots[-1][1] < ready <= order):
            self._roots.append((root, order))


@dataclass(slots=True)
class _Line:
    """``info`` and ``frames`` are computed when somebody asks, and kept."""

    text: str
    number: int | None
    order: int
    index: int
    info: bool | None = None
    frames: list[str] | None = None


def _level_fits(signature: Signature, line: _Line) -> bool:
    if line.info is None:
        line.info = is_info(line.text)
    if line.info:
        return signature.info and not (signature.tier == "windows" and by_engine(line.text))
    return signature.warning or not is_warning(line.text)


def _others(shapes: Shapes, block: Unfolded, unwanted: Set[str]) -> dict[int, list[str]]:
    places = sorted(block.alternatives)
    found = shapes.find([block.alternatives[place] for place in places], unwanted)
    return {places[index]: needles for index, needles in found.items()}


def _speaker(text: str) -> str | None:
    """Process that wrote a line, "" when it does not say; None for one of level INFO."""
    return None if is_info(text) else role(text)
