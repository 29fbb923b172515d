"""Fixes all that is safe: one after the other, each proven by its check or taken back again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from twinrig.domain.checks import CheckResult, Finding, Status
from twinrig.domain.errors import TwinrigError
from twinrig.domain.fixes import FixPlan
from twinrig.domain.profile import Profile
from twinrig.fixes.safety import is_safe
from twinrig.messages import Message, message
from twinrig.services.fixer import Fixer
from twinrig.services.profile_steps import Profiles

MOST_ROUNDS = 8
"""A fix may uncover what another hid; more rounds than this would go in circles."""


@dataclass(frozen=True)
class SafeFix:
    """What became of one. ``kept``: proven and in place; else nothing is left of it."""

    finding: Finding
    plan: FixPlan
    kept: bool
    text: Message
    entry_id: str = ""


class SafeFixes:
    """Only the best way out of each finding counts: where that one asks, nothing is done."""

    def __init__(self, fixer: Fixer, profiles: Profiles) -> None:
        self._fixer = fixer
        self._profiles = profiles

    async def find(
        self, results: Sequence[CheckResult], profile: Profile | None
    ) -> tuple[tuple[Finding, FixPlan], ...]:
        """What would be applied for these results; nothing is changed."""
        found: dict[str, tuple[Finding, FixPlan]] = {}
        for result in results:
            if result.finding is None or result.status not in (Status.WARN, Status.FAIL):
                continue
            ways = await self._fixer.options(result.finding, profile)
            best = ways[0] if ways else None
            if isinstance(best, FixPlan) and is_safe(best):
                found.setdefault(best.fix_id, (result.finding, best))
        return tuple(found.values())

    async def apply(
        self, results: Sequence[CheckResult], profile: Profile | None
    ) -> AsyncIterator[SafeFix]:
        """Each as it is done. The plan is made anew before each: the one before may have changed
        the same profile."""
        done: set[str] = set()
        for _ in range(MOST_ROUNDS):
            waiting = [w for w in await self.find(results, profile) if w[1].fix_id not in done]
            if not waiting:
                return
            finding, plan = waiting[0]
            done.add(plan.fix_id)
            yield await self._apply(finding, plan, profile)
            if profile is not None:
                profile = self._profiles.load(profile.id)

    async def _apply(self, finding: Finding, plan: FixPlan, profile: Profile | None) -> SafeFix:
        try:
            outcome = await self._fixer.apply(finding, plan, profile)
        except TwinrigError as error:
            return SafeFix(finding, plan, False, error.text)
        if outcome.proven:
            return SafeFix(finding, plan, True, outcome.text, outcome.entry_id)
        try:
            await self._fixer.undo(outcome.entry_id)
        except TwinrigError as error:
            return SafeFix(finding, plan, True, error.text, outcome.entry_id)
        text = message("“{fix}” did not help; it was taken back.", fix=plan.title)
        return SafeFix(finding, plan, False, text, outcome.entry_id)
