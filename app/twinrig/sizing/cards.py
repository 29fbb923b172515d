"""Sizes of cards: what is printed on the box against what CUDA reports as total memory."""

from __future__ import annotations

from twinrig.domain.memory import GIB, Card

_REAL_GIB: tuple[tuple[float, float], ...] = (
    (6, 5.79),
    (8, 7.75),
    (10, 9.65),
    (11, 10.75),
    (12, 11.75),
    (16, 15.6),
    (20, 19.6),
    (24, 23.55),
    (32, 31.4),
    (40, 39.4),
    (48, 47.4),
    (80, 79.2),
    (96, 94.97),
    (141, 139.7),
)
"""Readings of ``torch.cuda.mem_get_info()[1]`` on common cards; sizes between are interpolated."""

_SHARE = 0.985


def real_total_bytes(nominal_gb: float) -> int:
    """Total memory that CUDA reports for a card of this nominal size."""
    for nominal, real in _REAL_GIB:
        if nominal == nominal_gb:
            return int(real * GIB)
    return int(nominal_gb * _SHARE * GIB)


def nominal_card(nominal_gb: float) -> Card:
    """A card of which only the size on its box is known."""
    return Card(real_total_bytes(nominal_gb), nominal_gb=nominal_gb)
