"""Rows of figures for ``twinrig bench``; "-" is not known, never zero."""

from __future__ import annotations

from collections.abc import Sequence

from twinrig.cli.terminal import Terminal
from twinrig.domain.benchmark import BenchmarkResult, Figure, LoadResult
from twinrig.domain.quantities import number
from twinrig.messages import message
from twinrig.services.bench_results import words_of_load
from twinrig.services.bench_store import difference


def result_rows(terminal: Terminal, result: BenchmarkResult) -> list[list[str]]:
    """One line a load: speed with its spread, waits, cards, and what went wrong."""
    heads = (
        message("load"),
        message("T/s, all"),
        message("T/s, each"),
        message("first token, s"),
        message("prompt T/s"),
        message("cards"),
        message("KV cache"),
        message("notes"),
    )
    rows = [[terminal.text(head) for head in heads]]
    rows += [_row(terminal, found) for found in result.loads]
    return rows


def _row(terminal: Terminal, found: LoadResult) -> list[str]:
    usage = found.figure("kv_cache_usage")
    return [
        terminal.text(words_of_load(found.load)),
        stated(found.figure("generation_tps")),
        stated(found.figure("stream_tps")),
        _seconds(found.figure("first_token_s")),
        stated(found.figure("prompt_tps")),
        _cards(found),
        "-" if usage is None else f"{usage.median:.0%}",
        _notes(terminal, found),
    ]


def stated(figure: Figure | None) -> str:
    """A figure with its spread."""
    if figure is None:
        return "-"
    return f"{number(figure.median)} ±{number(figure.spread)}"


def _seconds(figure: Figure | None) -> str:
    return "-" if figure is None else f"{figure.median:.2f}"


def _cards(found: LoadResult) -> str:
    """Load and power of each card."""
    cards = [
        f"{'-' if c.load is None else round(c.load)}%"
        + ("" if c.power_w is None else f" {round(c.power_w)}W")
        for c in found.cards
    ]
    return ", ".join(cards) or "-"


def _notes(terminal: Terminal, found: LoadResult) -> str:
    notes = []
    if found.failures:
        notes.append(terminal.text(message("failed: {count}", count=found.failures)))
    if found.loops:
        notes.append(terminal.text(message("loops: {count}", count=found.loops)))
    accepted = found.figure("draft_acceptance")
    if accepted is not None:
        percent = round(accepted.median * 100)
        notes.append(terminal.text(message("drafts right: {percent} %", percent=percent)))
    return ", ".join(notes)


def comparison_rows(terminal: Terminal, results: Sequence[BenchmarkResult]) -> list[list[str]]:
    """T/s of all streams together, a column a result, for the loads that all have."""
    rows = [[terminal.text(message("T/s, all")), *(r.profile_name for r in results)]]
    for found in results[0].loads:
        others = [r.at(found.load) for r in results]
        if all(other is not None for other in others):
            cells = [stated(o.figure("generation_tps")) for o in others if o is not None]
            rows.append([terminal.text(words_of_load(found.load)), *cells])
    return rows


def difference_rows(one: BenchmarkResult, other: BenchmarkResult) -> list[list[str]]:
    """Name, value of one, value of the other."""
    return [
        [name, "-" if a is None else str(a), "-" if b is None else str(b)]
        for name, a, b in difference(one, other)
    ]
