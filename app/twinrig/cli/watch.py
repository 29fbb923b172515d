"""``twinrig watch``: the live view, once a second, for as long as wanted; or a recording."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import cast

from twinrig.cli.live import LiveView
from twinrig.cli.plain import plain
from twinrig.cli.session import FINE, Session
from twinrig.cli.terminal import Terminal
from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import ANSWERING_STATES
from twinrig.services.recording import Recorder, Replay
from twinrig.services.verdict import KEPT, verdict
from twinrig.services.workbench import Workbench


async def run(session: Session) -> int:
    """Until Ctrl+C, ``--seconds`` or ``--once``; with ``--json`` one object a line."""
    args = session.args
    async with session.bench() as bench:
        await view(
            session.terminal,
            bench,
            seconds=args.seconds,
            record=args.record,
            replay=args.replay,
            once=args.once,
            details=args.details,
        )
    return FINE


async def view(
    terminal: Terminal,
    bench: Workbench,
    *,
    seconds: float | None,
    record: str | None = None,
    replay: str | None = None,
    once: bool = False,
    details: bool = False,
) -> Snapshot | None:
    """Show snapshots; the last one is returned. ``record`` and ``replay`` name recordings."""
    source = Replay(Path(replay), bench.clock) if replay else bench.monitor(detailed=details)
    screen = _Screen(
        terminal, LiveView(terminal, bench.label), Recorder(record) if record else None
    )
    begun = bench.clock.monotonic()
    last: Snapshot | None = None
    try:
        stream = cast(AsyncGenerator[Snapshot, None], source.snapshots())
        async with aclosing(stream) as snapshots:
            async for snapshot in snapshots:
                first, last = last is None, snapshot
                if first and not (snapshot.samples or snapshot.gpu_error):
                    continue  # the cards have not been read yet
                if once and first and _lacks_rate(snapshot):
                    continue  # a rate needs two readings
                screen.show(snapshot)
                if once or (seconds is not None and bench.clock.monotonic() - begun >= seconds):
                    break
    finally:
        screen.close()
    return last


def _lacks_rate(snapshot: Snapshot) -> bool:
    record = snapshot.server
    if record is None or record.state not in ANSWERING_STATES:
        return False
    return bool(record.metrics_url) and snapshot.throughput.generation_tps is None


class _Screen:
    """Where snapshots go: the terminal as text or JSON, and a recording beside it."""

    def __init__(self, terminal: Terminal, live: LiveView, recorder: Recorder | None) -> None:
        self._terminal = terminal
        self._live = live
        self._recorder = recorder
        self._recent: deque[Snapshot] = deque(maxlen=KEPT)

    def show(self, snapshot: Snapshot) -> None:
        self._recent.append(snapshot)
        if self._recorder is not None:
            self._recorder.add(snapshot)
        judged = verdict(self._recent)
        terminal = self._terminal
        if not terminal.json_mode:
            self._live.show(snapshot, judged)
            return
        data = plain(snapshot, terminal.translator)
        data["verdict"] = plain(judged, terminal.translator)
        terminal.write(json.dumps(data, ensure_ascii=False) + "\n")

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()
