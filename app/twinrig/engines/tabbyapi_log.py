"""What tabbyAPI's log tells: load phases, where it listens, and the work done.

Forms of tabbyAPI from March 2024 to August 2026. Without a terminal its console folds at 80
columns (rich); versions since 2026-03-27 can be told a width, and all of them heed COLUMNS.
"""

from __future__ import annotations

import re

from twinrig.domain.metrics import EngineMetrics
from twinrig.domain.server import Phase
from twinrig.engines.base import PhaseEvent

_MAX_SCAN_CHARS = 600
_MAX_FOLDED_PARTS = 12
_CLIENT_TEXT = re.compile(r'"(?:GET|POST|PUT|DELETE|HEAD|OPTIONS) /')
_RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_BAR = re.compile(r"Loading (?:draft|vision|model) modules\b.*?(\d{1,3})%")
_MOVED = re.compile(r"Port \d+ is currently in use\. Switching to (\d+)")
_LISTENS = re.compile(r"Uvicorn running on https?://\S+:(\d+)")

_PHRASES: tuple[tuple[str, Phase], ...] = (
    ("Configured backend:", Phase.CONFIG),
    ("exllamav3 version:", Phase.CONFIG),
    ("Using main model MTP component", Phase.CONFIG),
    ("Using configured cache_size", Phase.CONFIG),
    ("Loading model: ", Phase.CONFIG),
    ("Loading with tensor parallel", Phase.WORKERS),
    ("-- NCCL init:", Phase.WORKERS),
    ("-- NCCL warmup", Phase.WORKERS),
    ("-- Finished NCCL warmup", Phase.WORKERS),
    ("Loading with autosplit", Phase.WEIGHTS),
    ("Loading with a manual GPU split", Phase.WEIGHTS),
    ("Model successfully loaded", Phase.MEMORY),
    ("Developer documentation:", Phase.LISTEN),
    ("Starting OAI API", Phase.LISTEN),
    ("Shutting down", Phase.STOP),
    ("Finished server process", Phase.STOP),
)
_PHRASE = re.compile("|".join(re.escape(phrase) for phrase, _ in _PHRASES))
_PHASES = dict(_PHRASES)

SHORTEST_REPLY = 16
"""Tokens; a shorter reply, such as our own probe's, says nothing about the speed."""

_METRICS = re.compile(r"Metrics(?: \(ID: \w+\))?: (\d+)\s+tokens generated in ([\d.]+) seconds")
_END = re.compile(r"\)(?:\s*<-- Not accurate \(truncated\))?\s*$")
_PROCESS = re.compile(r"Process: (?:\d+ cached tokens and \d+ new tokens at )?([\d.]+) T/s")
_GENERATE = re.compile(r"Generate: ([\d.]+) T/s")
_CONTEXT = re.compile(r"[Cc]ontext:? (\d+) tokens")
_CACHED = re.compile(r"(\d+) cached tokens and (\d+) new tokens")
_DRAFT = re.compile(r"Draft: (\d+) / (\d+)")


def tabby_phase_of(line: str) -> PhaseEvent | None:
    """The phase that a line tells; a bar is printed once it is full when nobody watches."""
    text = line.rstrip("\r\n").rpartition("\r")[2][:_MAX_SCAN_CHARS]
    if _CLIENT_TEXT.search(text):
        return None
    if found := _MOVED.search(text):
        return PhaseEvent(Phase.CONFIG, port=int(found[1]))
    if found := _LISTENS.search(text):
        return PhaseEvent(Phase.LISTEN, port=int(found[1]))
    if found := _BAR.search(text):
        return PhaseEvent(Phase.WEIGHTS, min(int(found[1]), 100) / 100)
    found = _PHRASE.search(text)
    return None if found is None else PhaseEvent(_PHASES[found[0]])


class TabbyMeter:
    """Adds up the line that is written at the end of each request.

    Nothing is told while a request runs, so the counters stand still until it ends.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._generated = 0
        self._read = 0
        self._cached = 0
        self._tells_cached = False
        self._drafted = 0
        self._accepted = 0
        self._last_tps: float | None = None
        self._last_prompt_tps: float | None = None
        self._requests = 0
        self._seconds = 0.0

    def feed(self, line: str) -> bool:
        """One more line of the log, folded or not; True when a request was added."""
        text = line.rstrip("\r\n")
        if "Metrics" in text and ("Metrics:" in text or "Metrics (ID" in text):
            self._parts = [text]
        elif self._parts and not _RECORD.match(text):
            self._parts.append(text.strip())
        else:
            self._parts = []
        return bool(self._parts) and self._take()

    def metrics(self) -> EngineMetrics:
        """Counters since the start of the run, and the rates of the request that ended last."""
        asked = self._read + self._cached
        return EngineMetrics(
            generation_tokens=float(self._generated),
            prompt_tokens=float(self._read),
            prefix_queries=float(asked) if self._tells_cached else None,
            prefix_hits=float(self._cached) if self._tells_cached else None,
            draft_tokens=float(self._drafted) if self._drafted else None,
            accepted_tokens=float(self._accepted) if self._drafted else None,
            last_generation_tps=self._last_tps,
            last_prompt_tps=self._last_prompt_tps,
            requests_finished=float(self._requests),
            generation_seconds=self._seconds,
            counted_at_end=True,
        )

    def _take(self) -> bool:
        whole = " ".join(self._parts)
        found = _METRICS.search(whole)
        open_ended = whole.count("(") != whole.count(")") or not _END.search(whole)
        if found is None or open_ended:
            return self._give_up()
        self._parts = []
        generated = int(found[1])
        self._generated += generated
        self._requests += 1
        rate = _rate(_GENERATE, whole)
        self._seconds += generated / rate if rate else float(found[2])
        self._add_prompt(whole)
        if generated >= SHORTEST_REPLY:
            self._last_tps = rate or _quotient(generated, float(found[2]))
        if draft := _DRAFT.search(whole):
            self._accepted += int(draft[1])
            self._drafted += int(draft[2])
        return True

    def _add_prompt(self, whole: str) -> None:
        if counts := _CACHED.search(whole):
            self._tells_cached = True
            self._cached += int(counts[1])
            self._read += int(counts[2])
        elif context := _CONTEXT.search(whole):
            self._read += int(context[1])
        self._last_prompt_tps = _rate(_PROCESS, whole)

    def _give_up(self) -> bool:
        if len(self._parts) > _MAX_FOLDED_PARTS:
            self._parts = []
        return False


def _rate(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    return float(found[1]) if found else None


def _quotient(tokens: int, seconds: float) -> float | None:
    return tokens / seconds if seconds > 0 else None
