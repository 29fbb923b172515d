"""A measurement that was cut off: what it has left behind is put back, in words."""

from __future__ import annotations

from twinrig.cli.terminal import Terminal
from twinrig.services.bench_note import put_back_after_cut
from twinrig.services.workbench import Workbench


async def put_back(terminal: Terminal, bench: Workbench) -> None:
    """Says nothing when there is nothing to put back."""
    told = await put_back_after_cut(bench)
    if told is not None:
        terminal.paragraph(told, style="warn")
