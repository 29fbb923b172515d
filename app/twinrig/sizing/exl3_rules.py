"""Settings of tabbyAPI and exllamav3: cache mode, bits, batch slots, reserves."""

from __future__ import annotations

import re
from dataclasses import dataclass

from twinrig.domain.errors import UsageError
from twinrig.domain.memory import SizingSettings
from twinrig.messages import message
from twinrig.sizing.families import ring_since
from twinrig.sizing.reading import missing
from twinrig.sizing.shape import AttentionKind, ModelShape
from twinrig.sizing.versions import Version, version_or_newest

PAGE = 256
DEFAULT_HEAD_BITS = 6.0
DEFAULT_DRAFT_BITS = 4.0
RECURRENT_SLOTS = 4
PLAIN_SLOTS = 128
_PAIR = re.compile(r"\s*([2-8])\s*,\s*([2-8])\s*")
_NAMED = {"Q8": (8, 8), "Q6": (6, 6), "Q4": (4, 4)}


@dataclass(frozen=True)
class Exl3Rules:
    """Rules of one load. ``key_bits`` None: FP16. ``rings``: see ``uses_rings``."""

    version: Version
    bits: float
    head_bits: float
    key_bits: float | None
    value_bits: float | None
    cache_tokens: int
    slots: int
    rings: bool
    drafts: int


def exl3_rules(shape: ModelShape, settings: SizingSettings) -> Exl3Rules:
    """Rules for these settings; what is not set is tabbyAPI's default.

    Raises UnsizableError when nothing says how many bits a weight has, UsageError for a cache
    mode that tabbyAPI would reject.
    """
    version = version_or_newest(settings.engine_version)
    keys, values = _cache_bits(settings.cache_mode)
    rings = uses_rings(shape, version)
    slots = RECURRENT_SLOTS if shape.hybrid or rings else PLAIN_SLOTS
    tokens = settings.context_tokens or shape.max_position or 4096
    return Exl3Rules(
        version=version,
        bits=_bits(shape, settings),
        head_bits=settings.head_bits or _stated(shape, "head_bits") or DEFAULT_HEAD_BITS,
        key_bits=keys,
        value_bits=values,
        cache_tokens=-(-tokens // PAGE) * PAGE,
        slots=settings.max_batch_size or slots,
        rings=rings,
        drafts=settings.draft_tokens,
    )


def uses_rings(shape: ModelShape, version: Version) -> bool:
    """Whether this version keeps the sliding layers of this class in rings of a fixed size."""
    slides = any(a.kind is AttentionKind.SLIDING for a, _ in shape.attentions)
    since = ring_since(shape.architecture)
    return slides and since is not None and version >= since


def _bits(shape: ModelShape, settings: SizingSettings) -> float:
    bits = settings.bits_per_weight or _stated(shape, "bits")
    if bits is None:
        if shape.quantization:
            raise missing("bits")
        return 16.0
    return bits


def _stated(shape: ModelShape, name: str) -> float | None:
    if shape.quantization.get("quant_method") != "exl3":
        return None
    value = shape.quantization.get(name)
    return float(value) if isinstance(value, (int, float)) and 0 < value <= 16 else None


def _cache_bits(mode: str) -> tuple[float | None, float | None]:
    """Half a bit more a value: one 16-bit scale for 32 values."""
    if mode == "FP16":
        return None, None
    found = _PAIR.fullmatch(mode)
    if mode in _NAMED:
        keys, values = _NAMED[mode]
    elif found is not None:
        keys, values = int(found[1]), int(found[2])
    else:
        raise UsageError(
            message("{mode} is no cache mode of tabbyAPI.", mode=mode),
            message("Use FP16, Q8, Q6, Q4, or a pair such as 4,4 with 2 to 8 bits each."),
        )
    return keys + 0.5, values + 0.5
