"""Settings of torch's allocator, where the engines contradict each other.

Expandable segments save tensor parallelism of exllamav3 and break vLLM's custom all-reduce.
torch reads PYTORCH_CUDA_ALLOC_CONF, and from 2.9 on PYTORCH_ALLOC_CONF first.
"""

from __future__ import annotations

import re

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import FixPlan, ProfileStep
from twinrig.fixes.planning import TABBY, needs_profile, nothing_to_change, only_for
from twinrig.messages import N_, Message, message

OLD_NAME, NEW_NAME = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
_ENTRY = "expandable_segments"


def _without_entry(value: str) -> str | None:
    parts = [part.strip() for part in value.split(",") if part.strip()]
    kept = [part for part in parts if part.split(":")[0].strip() != _ENTRY]
    return ",".join(kept) or None


def _plan(
    fix_id: str,
    title: Message,
    facts: Facts,
    env: dict[str, str | None],
    reason: str,
    risk: Message | None,
) -> FixPlan:
    profile = needs_profile(facts.profile)
    present = {name: entry.value for name, entry in profile.env.items()}
    changed = {name: value for name, value in env.items() if present.get(name) != value}
    if not changed:
        raise nothing_to_change(title)
    step = ProfileStep(profile.id, {}, changed, reason)
    return FixPlan(fix_id, title, (step,), risk=risk, needs_restart=True)


class ExpandableOff:
    """Take expandable segments out of both variables and keep what else they hold."""

    id = "env-expandable-off"
    title = N_("Switch expandable segments off")
    probes: tuple[str, ...] = ()

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises NothingToChangeError when they are not on."""
        profile = needs_profile(facts.profile)
        env = {
            name: _without_entry(profile.env[name].value)
            for name in (OLD_NAME, NEW_NAME)
            if name in profile.env and _ENTRY in profile.env[name].value
        }
        return _plan(
            self.id,
            message("Switch expandable segments off"),
            facts,
            env,
            "expandable segments do not work here",
            None,
        )


class ExpandableOn:
    """Only for exllamav3 behind tabbyAPI."""

    id = "env-expandable-on"
    title = N_("Switch expandable segments on")
    probes: tuple[str, ...] = ()

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises NotForThisEngineError for vLLM, whose custom all-reduce it breaks."""
        profile = needs_profile(facts.profile)
        title = message("Switch expandable segments on")
        only_for(TABBY, profile, title)
        name = NEW_NAME if _torch_version(facts) >= (2, 9) else OLD_NAME
        present = profile.env[name].value if name in profile.env else ""
        kept = _without_entry(present)
        value = f"{kept},{_ENTRY}:True" if kept else f"{_ENTRY}:True"
        return _plan(
            self.id,
            title,
            facts,
            {name: value},
            "tensor parallelism of exllamav3 shares memory by file descriptor",
            Message(N_("Needs kernel.yama.ptrace_scope=0 where the kernel restricts ptrace.")),
        )


class AllocatorUnset:
    """Back to torch's own allocator settings."""

    id = "env-alloc-unset"
    title = N_("Remove the allocator settings")
    probes: tuple[str, ...] = ()

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises NothingToChangeError when neither variable is set."""
        return _plan(
            self.id,
            message("Remove the allocator settings"),
            facts,
            {OLD_NAME: None, NEW_NAME: None},
            "torch's defaults",
            None,
        )


def _torch_version(facts: Facts) -> tuple[int, int]:
    text = facts.install.torch_version if facts.install else ""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)
