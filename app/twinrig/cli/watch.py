"""``twinrig watch``: the live view, once a second, for as long as wanted."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import TextIO, cast

from twinrig.cli.live import LiveView
from twinrig.cli.plain import plain
from twinrig.cli.session import FINE, Session
from twinrig.cli.terminal import Terminal
from twinrig.domain.errors import UsageError
from twinrig.domain.metrics import Snapshot
from twinrig.messages import message
from twinrig.services.workbench import Workbench


async def run(session: Session) -> int:
    """Until Ctrl+C or ``--seconds``; with ``--json`` one object a line."""
    args = session.args
    async with session.bench() as bench:
        await view(session.terminal, bench, seconds=args.seconds, record=args.record)
    return FINE


async def view(
    terminal: Terminal, bench: Workbench, *, seconds: float | None, record: str | None = None
) -> Snapshot | None:
    """Show snapshots; the last one is returned. ``record`` names a file of JSON lines."""
    live = LiveView(terminal, bench.label)
    sink = _open(record) if record else None
    begun = bench.clock.monotonic()
    last: Snapshot | None = None
    try:
        source = cast(AsyncGenerator[Snapshot, None], bench.monitor().snapshots())
        async with aclosing(source) as snapshots:
            async for snapshot in snapshots:
                if last is None and not (snapshot.samples or snapshot.gpu_error):
                    last = snapshot
                    continue  # the cards have not been read yet
                last = snapshot
                _write(terminal, live, snapshot, sink)
                if seconds is not None and bench.clock.monotonic() - begun >= seconds:
                    break
    finally:
        if sink is not None:
            sink.close()
    return last


def _write(terminal: Terminal, live: LiveView, snapshot: Snapshot, sink: TextIO | None) -> None:
    if sink is not None or terminal.json_mode:
        text = json.dumps(plain(snapshot, terminal.translator), ensure_ascii=False) + "\n"
        if sink is not None:
            sink.write(text)
            sink.flush()
        if terminal.json_mode:
            terminal.write(text)
    if not terminal.json_mode:
        live.show(snapshot)


def _open(path: str) -> TextIO:
    try:
        return Path(path).open("a", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            message("{path} cannot be written: {reason}.", path=path, reason=error.strerror or ""),
            message("Choose another file name."),
        ) from error
