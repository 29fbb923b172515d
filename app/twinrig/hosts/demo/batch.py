"""Continuous batching in real time: sequences join and leave between engine steps."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from twinrig.hosts.demo.physics import Split, busy_percent, step_s

PREFILL_CHUNK = 512
MAX_LAG_S = 0.25
"""A process that was held up for longer does not catch up: the tokens are late, not squeezed."""


@dataclass(eq=False)
class Sequence:
    """One reply in the making. ``tokens`` are all it will say; the queue carries them out.

    None in the queue ends the reply; ``aborted`` and ``failed`` tell why.
    """

    prompt_tokens: int
    tokens: list[str]
    queue: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)
    read: int = 0
    produced: int = 0
    aborted: bool = False
    failed: bool = False

    @property
    def reading(self) -> bool:
        """Whether a part of the prompt is still to be read."""
        return self.read < self.prompt_tokens

    @property
    def done(self) -> bool:
        """Whether everything was said or the reply was aborted."""
        return self.aborted or (not self.reading and self.produced >= len(self.tokens))

    @property
    def reserved(self) -> int:
        """Tokens of KV cache that are set aside for it."""
        return self.prompt_tokens + len(self.tokens)


@dataclass
class Counters:
    """What /metrics tells; they only grow."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: int = 0
    aborted: int = 0


class Batch:
    """The engine: at most ``max_num_seqs`` sequences run, the others wait in order.

    ``stalled`` stops all progress without an error, as a hung collective does.
    """

    def __init__(
        self,
        split: Split,
        max_num_seqs: int,
        kv_tokens: int,
        speed_scale: float = 1.0,
        weight: float = 1.0,
    ) -> None:
        self.counters = Counters()
        self.stalled = False
        self._split = split
        self._max = max_num_seqs
        self.kv_tokens = kv_tokens
        self._weight = weight / speed_scale
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._wake = asyncio.Event()
        self._busy = [0.0, 0.0]

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Sequences in the queue."""
        return len(self._waiting)

    @property
    def kv_usage(self) -> float:
        """Share of the KV cache that holds tokens, 0 to 1."""
        return sum(s.read + s.produced for s in self._running) / self.kv_tokens

    def take_busy(self) -> tuple[float, float]:
        """Percent-seconds of work of both cards since the last call."""
        first, second = self._busy
        self._busy = [0.0, 0.0]
        return first, second

    def add(self, sequence: Sequence) -> None:
        """Put a sequence into the queue."""
        self._waiting.append(sequence)
        self._wake.set()

    def abort(self, sequence: Sequence) -> None:
        """End one reply early, for example because its client is gone."""
        if sequence.done:
            return
        sequence.aborted = True
        self.counters.aborted += 1
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        if sequence in self._running:
            self._running.remove(sequence)
        sequence.queue.put_nowait(None)

    def abort_all(self, *, failed: bool = False) -> None:
        """End all replies, as a stop of the server does, or as the death of a worker does."""
        for sequence in [*self._running, *self._waiting]:
            sequence.failed = failed
            self.abort(sequence)

    async def tokens(self, sequence: Sequence) -> AsyncGenerator[str, None]:
        """Add the sequence and give its tokens as they come; closing early aborts it."""
        self.add(sequence)
        try:
            while (token := await sequence.queue.get()) is not None:
                yield token
        finally:
            self.abort(sequence)

    async def run(self) -> None:
        """Steps for ever; cancel to end. Steps keep to a schedule, so that the speed is exact."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            self._admit()
            if not self._running or self.stalled:
                await self._idle()
                due_s = loop.time()
                continue
            duration_s, prefill = self._plan()
            due_s = max(due_s, loop.time() - MAX_LAG_S) + duration_s
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            if not self.stalled:
                self._finish_step(duration_s, prefill)

    async def _idle(self) -> None:
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.25 if self.stalled else None):
                await self._wake.wait()

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._max:
            reserved = sum(s.reserved for s in self._running) + self._waiting[0].reserved
            if self._running and reserved > self.kv_tokens:
                return
            self._running.append(self._waiting.popleft())

    def _plan(self) -> tuple[float, dict[Sequence, int]]:
        budget = PREFILL_CHUNK
        prefill: dict[Sequence, int] = {}
        for sequence in self._running:
            if sequence.reading and budget:
                prefill[sequence] = min(budget, sequence.prompt_tokens - sequence.read)
                budget -= prefill[sequence]
        tokens = sum(prefill.values())
        return step_s(self._split, self._decoding(), tokens, self._weight), prefill

    def _decoding(self) -> int:
        return sum(not sequence.reading for sequence in self._running)

    def _finish_step(self, duration_s: float, prefill: dict[Sequence, int]) -> None:
        percent = busy_percent(self._split, self._decoding(), bool(prefill))
        self._busy = [b + p * duration_s for b, p in zip(self._busy, percent, strict=True)]
        for sequence in list(self._running):
            if sequence in prefill:
                sequence.read += prefill[sequence]
                self.counters.prompt_tokens += prefill[sequence]
            elif not sequence.reading:
                self._say(sequence)
            if sequence.done and sequence in self._running:
                self._running.remove(sequence)
                self.counters.finished += 1
                sequence.queue.put_nowait(None)

    def _say(self, sequence: Sequence) -> None:
        sequence.queue.put_nowait(sequence.tokens[sequence.produced])
        sequence.produced += 1
        self.counters.generation_tokens += 1
