"""Puts a measured overhead in the place of the estimated one, and makes measurements."""

from __future__ import annotations

from dataclasses import replace

from twinrig.domain.memory import Measurement
from twinrig.sizing.overhead import Overhead


def calibrated(estimate: Overhead, found: Measurement | None) -> Overhead:
    """The overhead with the measured total: what differs is put on the activations.

    The engine's log tells the sum only; the split into parts stays the estimate's where it can.
    """
    if found is None or found.overhead_bytes is None:
        return estimate
    rest = found.overhead_bytes - estimate.runtime - estimate.graphs
    if rest >= 0:
        return replace(estimate, activations=rest)
    share = found.overhead_bytes / max(1, estimate.runtime + estimate.graphs)
    runtime = int(estimate.runtime * share)
    return Overhead(0, runtime, found.overhead_bytes - runtime)
