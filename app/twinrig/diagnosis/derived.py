"""Values computed from what a log line says; rules name them under ``derive``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

SPARE_GIB = 0.3
"""Kept free below what was free at the failed start, which another program may need again."""

CONTEXT_STEP = 256


@dataclass(frozen=True)
class Derivation:
    """``compute`` gets the captured texts and returns None when they do not suffice."""

    gives: str
    compute: Callable[[Mapping[str, str]], str | None]


def _gpu_share(captured: Mapping[str, str]) -> str | None:
    """Largest share of GPU memory that was free: floor((free - 0.3) / total, two digits)."""
    try:
        free, total = float(captured["free_gib"]), float(captured["total_gib"])
    except (KeyError, ValueError):
        return None
    if not total > 0:
        return None
    share = math.floor((free - SPARE_GIB) / total * 100 + 1e-9) / 100
    return f"{share:.2f}" if 0 < share <= 1 else None


def _rounded_context(captured: Mapping[str, str]) -> str | None:
    """The engine's own estimate, rounded down to a multiple of 256 tokens where that is more."""
    digits = captured.get("estimated", "").replace(",", "")
    if not (digits.isascii() and digits.isdigit()) or int(digits) <= 0:
        return None
    tokens = int(digits)
    return str(tokens // CONTEXT_STEP * CONTEXT_STEP or tokens)


def _cuda_version(captured: Mapping[str, str]) -> str | None:
    """Torch prints 12080 for 12.8."""
    digits = captured.get("found", "")
    if not (digits.isascii() and digits.isdigit()):
        return None
    return f"{int(digits) // 1000}.{int(digits) % 1000 // 10}"


DERIVATIONS: Mapping[str, Derivation] = MappingProxyType(
    {
        "gpu_share": Derivation("suggested_share", _gpu_share),
        "rounded_context": Derivation("suggested_context", _rounded_context),
        "cuda_version": Derivation("driver_cuda", _cuda_version),
    }
)
