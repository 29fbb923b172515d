"""How each card is connected and what it may draw, from the columns behind those of ``gpu_facts``.

At rest a card lowers its PCIe generation, so the newest one possible counts, with the lanes in use.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from twinrig.domain.checks import ProbeOutput

_FIRST_COLUMN = 7
_LANE_GBPS = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s of one lane in one direction after encoding, by PCIe generation."""


@dataclass(frozen=True)
class LinkRow:
    """One card. None = the driver does not tell."""

    index: int
    name: str
    generation: int | None
    lanes: int | None
    lanes_possible: int | None
    limit_w: float | None
    usual_limit_w: float | None

    @property
    def gbps(self) -> float | None:
        """GB/s in one direction, when generation and lanes are known."""
        if self.generation is None or self.lanes is None:
            return None
        lane = _LANE_GBPS.get(self.generation)
        return None if lane is None else lane * self.lanes


def parse_links(output: ProbeOutput) -> tuple[LinkRow, ...]:
    """Rows of the probe ``gpu`` that carry these columns; older drivers give none."""
    rows = []
    for line in output.stdout.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) < _FIRST_COLUMN + 5 or not cells[0].isdecimal():
            continue
        more = [_number(cell) for cell in cells[_FIRST_COLUMN:]]
        generation, lanes, possible = (None if n is None else int(n) for n in more[:3])
        rows.append(LinkRow(int(cells[0]), cells[2], generation, lanes, possible, more[3], more[4]))
    return tuple(rows)


def _number(cell: str) -> float | None:
    return float(cell) if re.fullmatch(r"\d+(\.\d+)?", cell) else None
