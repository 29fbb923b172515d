"""What lowers the memory that tabbyAPI needs, step by step, from what the profile has now.

Units of tabbyAPI: ``cache_size`` in tokens, a multiple of 256; ``gpu_split`` in GB and
``autosplit_reserve`` in MB, one entry a card. Source: its config models of August 2026.
"""

from __future__ import annotations

from itertools import pairwise

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import FixPlan, ProfileStep
from twinrig.domain.profile import Profile
from twinrig.fixes.planning import (
    TABBY,
    UndecidedError,
    needs_profile,
    nothing_to_change,
    only_for,
)
from twinrig.messages import N_, Message, message

_MODES = ("FP16", "8,8", "6,6", "4,4")
_NAMED = {"Q8": "8,8", "Q6": "6,6", "Q4": "4,4"}
_SMALLEST_TOKENS = 2048
_PAGE_TOKENS = 256
_RESERVES_MB = (("512", "512"), ("1024", "1024"), ("2048", "2048"))
_KEPT_FREE_MIB = 1536
_MIB_PER_GIB = 1024


class CacheQuant:
    """Keys and values with the next smaller number of bits."""

    id = "tabby-cache-quant"
    title = N_("Store the KV cache with fewer bits")
    probes: tuple[str, ...] = ()

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises NothingToChangeError at 4 bits, UndecidedError for a pair of its own."""
        profile = _tabby(facts, self.title)
        present = str(profile.settings.get("cache_mode") or _MODES[0]).replace(" ", "")
        smaller = dict(pairwise(_MODES)).get(_NAMED.get(present, present))
        if smaller is None and present not in (_MODES[-1], "Q4"):
            raise UndecidedError(
                message("The KV cache has bits of its own: {mode}.", mode=present),
                message("Choose the value in the profile yourself."),
            )
        if smaller is None:
            raise nothing_to_change(Message(self.title))
        risk = message("Replies may become slightly worse, below 6 bits visibly.")
        return _plan(self.id, self.title, profile, {"cache_mode": smaller}, risk)


class LowerCache:
    """Half of the cache, and a context that still fits into it."""

    id = "tabby-lower-cache"
    title = N_("Make the KV cache smaller")
    probes: tuple[str, ...] = ()

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError when the profile names neither cache nor context."""
        profile = _tabby(facts, self.title)
        context = _tokens(profile, "context_length")
        cache = _tokens(profile, "cache_tokens") or context
        if not cache:
            raise UndecidedError(
                message("The profile does not say how large the cache is."),
                message("Choose a context length in the profile."),
            )
        smaller = max(_SMALLEST_TOKENS, cache // 2 // _PAGE_TOKENS * _PAGE_TOKENS)
        if smaller >= cache:
            raise nothing_to_change(Message(self.title))
        settings: dict[str, object] = {"cache_tokens": smaller}
        if not context or context > smaller:
            settings["context_length"] = smaller
        risk = message("Long conversations are cut earlier.")
        return _plan(self.id, self.title, profile, settings, risk)


class AutosplitReserve:
    """More memory kept free on each card while layers are placed."""

    id = "tabby-autosplit-reserve"
    title = N_("Leave room on each card")
    probes: tuple[str, ...] = ()

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises NothingToChangeError when 2 GB are kept already."""
        profile = _tabby(facts, self.title)
        present = profile.settings.get("autosplit_reserve")
        kept = [int(v) for v in present if v.isdecimal()] if isinstance(present, tuple) else [96]
        more = [row for row in _RESERVES_MB if int(row[0]) > max(kept, default=0)]
        if not more:
            raise nothing_to_change(Message(self.title))
        risk = message("Less of the cards is left for model and cache.")
        return _plan(self.id, self.title, profile, {"autosplit_reserve": more[0]}, risk)


class GpuSplit:
    """What each card takes, from what is free on it now."""

    id = "tabby-gpu-split"
    title = N_("Say how much each card takes")
    probes: tuple[str, ...] = ("gpu",)

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError when the cards do not tell what is free."""
        profile = _tabby(facts, self.title)
        free = _free_mib(facts)
        if len(free) < 2 or min(free) <= _KEPT_FREE_MIB:
            raise UndecidedError(
                message("It is not known how much of each card is free."),
                message("Choose the value in the profile yourself."),
            )
        split = tuple(f"{(mib - _KEPT_FREE_MIB) / _MIB_PER_GIB:.1f}" for mib in free)
        settings: dict[str, object] = {"gpu_split": split, "gpu_split_auto": False}
        if profile.settings.get("gpu_split") == split:
            raise nothing_to_change(Message(self.title))
        risk = message("Fits what is free now; set it anew when other programs need the cards.")
        return _plan(self.id, self.title, profile, settings, risk)


def _tabby(facts: Facts, title: str) -> Profile:
    profile = needs_profile(facts.profile)
    only_for(TABBY, profile, Message(title))
    return profile


def _tokens(profile: Profile, name: str) -> int:
    value = profile.settings.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _free_mib(facts: Facts) -> list[int]:
    rows = [line.split(",") for line in facts.probe("gpu").stdout.splitlines()]
    cells = [[cell.strip() for cell in row] for row in rows if len(row) > 4]
    return [int(c[3]) - int(c[4]) for c in cells if c[3].isdecimal() and c[4].isdecimal()]


def _plan(
    fix_id: str, title: str, profile: Profile, settings: dict[str, object], risk: Message
) -> FixPlan:
    step = ProfileStep(profile.id, settings, {}, "")
    return FixPlan(fix_id, Message(title), (step,), risk=risk, needs_restart=True)
