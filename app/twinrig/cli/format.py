"""Numbers as people read them. Unavailable is never zero."""

from __future__ import annotations

from collections.abc import Sequence

UNKNOWN = "n/a"
_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = ".:-=+*#@"


def duration(seconds: float) -> str:
    """``0:07``, ``12:30``, ``1:02:03``."""
    total = max(0, int(seconds))
    hours, rest = divmod(total, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


def gib(size_bytes: float | None) -> str:
    """``11.9 GiB``; small amounts as ``24 MiB``."""
    if size_bytes is None:
        return UNKNOWN
    if 0 < size_bytes < 0.1 * 2**30:
        return f"{max(1, round(size_bytes / 2**20))} MiB"
    return f"{size_bytes / 2**30:.1f} GiB"


def number(value: float | None, unit: str = "", digits: int = 0) -> str:
    """``52 %``; ``n/a`` when unknown."""
    if value is None:
        return UNKNOWN
    text = f"{value:.{digits}f}"
    return f"{text} {unit}" if unit else text


def bar(share: float | None, cells: int, *, unicode: bool = True) -> str:
    """A bar filled to ``share`` (0 to 1); dots all along when unknown."""
    if share is None:
        return "·" * cells if unicode else "?" * cells
    full = round(min(1.0, max(0.0, share)) * cells)
    on, off = ("█", "░") if unicode else ("#", "-")
    return on * full + off * (cells - full)


def sparkline(values: Sequence[float | None], *, unicode: bool = True) -> str:
    """One character a value, scaled to the largest; a gap where it is unknown."""
    known = [v for v in values if v is not None]
    top = max(known, default=0.0)
    blocks = _BLOCKS if unicode else _ASCII_BLOCKS
    last = len(blocks) - 1
    return "".join(
        " " if v is None else blocks[0 if top <= 0 else min(last, round(v / top * last))]
        for v in values
    )
