"""The driver branch of a machine, as the preflight's probes tell it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from twinrig.checks.gpu_facts import driver_cuda, driver_major
from twinrig.domain.checks import Facts
from twinrig.domain.errors import UsageError
from twinrig.domain.profile import Profile
from twinrig.messages import message

_BRANCH_OF_CUDA = {12: 525, 13: 580}
"""The first driver branch of each CUDA major, where only that is told."""


class FactSource(Protocol):
    """What is needed of ``Preflight``."""

    async def facts(self, profile: Profile | None, names: Sequence[str]) -> Facts: ...


class DriverLook:
    """Asks the probes ``gpu`` and ``driver``."""

    def __init__(self, source: FactSource) -> None:
        self._source = source

    async def branch(self) -> int:
        """Such as 570. Raises UsageError when there is no driver, HostError without an answer."""
        facts = await self._source.facts(None, ("gpu", "driver"))
        major = driver_major(facts)
        if major is None:
            cuda = driver_cuda(facts)
            major = None if cuda is None else _BRANCH_OF_CUDA.get(cuda[0])
        if major is None:
            raise UsageError(
                message("No NVIDIA driver answers on this machine, so its wheels are not known."),
                message("Look at the preflight first, or name the CUDA version with --cuda."),
                finding_id="gpu-not-visible",
            )
        return major
