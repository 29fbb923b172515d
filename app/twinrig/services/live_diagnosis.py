"""Reads the log of a running server as it grows, and tells when what it shows changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from twinrig.diagnosis.explain import conclude, live_failure
from twinrig.diagnosis.rules import Rules
from twinrig.diagnosis.scan import LogScan
from twinrig.domain.errors import TwinrigError
from twinrig.domain.ports import Clock
from twinrig.domain.supervision import Failure
from twinrig.services.log_reader import LogReader

INTERVAL_S = 2.0
CHUNK_BYTES = 128 * 1024
MAX_LINE_CHARS = 64 * 1024


class LogFollower:
    """One log file. ``step`` reads one piece; the numbers of lines are those of the file.

    After a rotation the new file is followed from its beginning: what the old one told is past.
    """

    def __init__(self, path: Path, rules: Rules, context: Mapping[str, str]) -> None:
        self._path = path
        self._rules = rules
        self._context = context
        self._reader = LogReader()
        self._file_id = ""
        self._offset = 0
        self._rest = ""
        self._scan = LogScan(rules, context)

    def step(self) -> bool:
        """Read one piece; whether there may be more. A log that cannot be read has no more."""
        try:
            chunk = self._reader.read(self._path, self._file_id, self._offset, CHUNK_BYTES)
        except TwinrigError:
            return False
        if chunk.file_id != self._file_id or chunk.offset < self._offset:
            self._scan, self._rest = LogScan(self._rules, self._context), ""
        self._file_id, self._offset = chunk.file_id, chunk.offset
        *lines, rest = (self._rest + chunk.text).split("\n")
        self._rest = rest[:MAX_LINE_CHARS]
        self._scan.feed(lines)
        return len(chunk.text) >= CHUNK_BYTES // 2

    def failure(self) -> Failure | None:
        """What the log shows by now; None: nothing that is sure."""
        return live_failure(conclude(self._scan, "", self._rules, self._context))


async def live_failures(
    path: Path, rules: Rules, context: Mapping[str, str], clock: Clock
) -> AsyncIterator[Failure | None]:
    """The first state, then each change; looks every two seconds, on a thread of its own."""
    follower = LogFollower(path, rules, context)
    told: Failure | None = None
    first = True
    while True:
        while await asyncio.to_thread(follower.step):
            await asyncio.sleep(0)
        found = await asyncio.to_thread(follower.failure)
        if first or found != told:
            yield found
        told, first = found, False
        await clock.sleep(INTERVAL_S)
