"""Which fixes may be applied without a look at each: they touch a profile only, can be taken back,
and nobody has to weigh anything.

The failure catalogue marks each fix: what costs quality, speed of every reply, security, a
download or the clients' settings, or opens a door, asks first; what is meant for one diagnostic
start is never applied by itself.
"""

from __future__ import annotations

from twinrig.domain.fixes import FixPlan, ProfileStep

ASKS = frozenset(
    {
        "cfg-change-port",
        "cfg-enforce-eager",
        "cfg-kv-fp8",
        "cfg-pp-2",
        "cfg-quant-fallback",
        "cfg-raise-gpu-util",
        "cfg-raise-max-len",
        "cfg-tp-1",
        "env-cuda-launch-blocking",
        "env-nccl-debug-info",
        "flag-chat-template",
        "flag-no-sleep-mode",
        "flag-trust-remote-code",
        "lan-close",
        "lan-open",
        "tabby-autosplit-reserve",
        "tabby-cache-quant",
        "tabby-disable-tp",
        "tabby-prompt-template",
    }
)


def is_safe(plan: FixPlan) -> bool:
    """Whether it may be one of many that are applied at one press."""
    demanding = plan.needs_root or plan.needs_admin or plan.needs_wsl_shutdown or plan.needs_reboot
    only_profile = all(isinstance(step, ProfileStep) for step in plan.steps)
    return only_profile and plan.reversible and not demanding and plan.fix_id not in ASKS
