"""Memory figures that vLLM's log prints at a start. Shapes as vLLM 0.6 to 0.33 print them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from twinrig.domain.memory import GIB

_NUMBER = r"(-?[\d.,]+)"
_WEIGHTS = re.compile(rf"(?:Model loading|Loading model weights) took {_NUMBER} Gi?B")
_POOL = re.compile(rf"Available KV cache memory: {_NUMBER} GiB")
_TOKENS = re.compile(rf"GPU KV cache size: {_NUMBER} tokens")
_REQUESTS = re.compile(rf"Maximum concurrency for {_NUMBER} tokens per request: {_NUMBER}x")
_GRAPHS = re.compile(rf"Graph capturing finished in .*?took {_NUMBER} GiB")
_NEW_START = "API server version"
_MAX_LINE = 2000


@dataclass(frozen=True)
class StartFigures:
    """What one start printed; per GPU, the largest weights and the smallest pool of all ranks."""

    weights_bytes: int | None = None
    pool_bytes: int | None = None
    graphs_bytes: int | None = None
    capacity_tokens: int | None = None
    concurrency: float | None = None
    context_tokens: int | None = None


def read_start(lines: Iterable[str]) -> StartFigures:
    """Figures of the last start in ``lines``; what is not printed stays None."""
    found = StartFigures()
    for line in lines:
        if _NEW_START in line:
            found = StartFigures()
        if len(line) <= _MAX_LINE and ("GiB" in line or "tokens" in line or "GB" in line):
            found = _add(found, line)
    return found


def _add(found: StartFigures, line: str) -> StartFigures:
    if match := _WEIGHTS.search(line):
        return replace(found, weights_bytes=_most(found.weights_bytes, _bytes(match[1])))
    if match := _POOL.search(line):
        size = _bytes(match[1])
        smaller = found.pool_bytes if found.pool_bytes is not None else size
        return replace(found, pool_bytes=None if size is None else min(smaller or size, size))
    if match := _GRAPHS.search(line):
        return replace(found, graphs_bytes=_most(found.graphs_bytes, _bytes(match[1])))
    if match := _TOKENS.search(line):
        found = replace(found, capacity_tokens=_count(match[1]))
    if match := _REQUESTS.search(line):
        found = replace(found, context_tokens=_count(match[1]), concurrency=_float(match[2]))
    return found


def _most(one: int | None, other: int | None) -> int | None:
    return max((v for v in (one, other) if v is not None), default=None)


def _float(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _bytes(text: str) -> int | None:
    number = _float(text)
    return None if number is None else int(number * GIB)


def _count(text: str) -> int | None:
    number = _float(text)
    return None if number is None or number < 0 else int(number)
