"""History as CSV, for spreadsheets: UTC times, a point as decimal sign, empty = not available."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime

from twinrig.services.history import CardPoint, Minute, Point

_SPEED = ("generation_tps", "prompt_tps", "kv_cache_usage")
_CARD = ("load_percent", "memory_bytes", "power_w", "temperature_c")


def csv_text(rows: Sequence[Point | Minute]) -> str:
    """A header and one line per reading or minute; cards are columns, in order of first sight."""
    uuids = list(dict.fromkeys(card.uuid for row in rows for card in row.cards))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = [f"gpu{index}_{name}" for index in range(len(uuids)) for name in _CARD]
    writer.writerow(["time_utc", "epoch_s", "seconds", *_SPEED, *heads])
    for row in rows:
        cards = {card.uuid: card for card in row.cards}
        figures = [value for uuid in uuids for value in _figures(cards.get(uuid))]
        writer.writerow([*_head(row), *map(_text, figures)])
    return out.getvalue()


def _head(row: Point | Minute) -> list[str]:
    if isinstance(row, Point):
        at_s, seconds = row.at_s, row.step_s
        rates = (row.generation_tps, row.prompt_tps)
    else:
        at_s, seconds = row.start_s, row.seconds
        rates = (_per(row.generation_tokens, seconds), _per(row.prompt_tokens, seconds))
    moment = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
    values = (at_s, seconds, *rates, row.kv_cache_usage)
    return [moment, *map(_text, values)]


def _figures(card: CardPoint | None) -> tuple[float | None, ...]:
    if card is None:
        return (None,) * len(_CARD)
    return card.load, card.memory_bytes, card.power_w, card.temperature_c


def _per(tokens: float | None, seconds: float) -> float | None:
    return None if tokens is None or seconds <= 0 else tokens / seconds


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")
