"""Collect the logits of all cards by send and receive, in an exllamav3 that does it wrongly.

The last resort for exllamav3 before 1.1.0, whose kernels are given host addresses (illegal under
WSL2); updating comes first. Two files in the environment of the engine and one variable of the
profile; taken back, the environment is byte for byte as before. For tensor parallelism over NCCL.
"""

from __future__ import annotations

from twinrig import assets
from twinrig.domain.checks import Facts, Finding, Severity
from twinrig.domain.fixes import FixPlan, ProfileStep, WriteFileStep
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import Profile
from twinrig.fixes.planning import (
    TABBY,
    NotForThisEngineError,
    UndecidedError,
    needs_profile,
    nothing_to_change,
    only_for,
)
from twinrig.messages import N_, Message, message

ID = "exl3-own-gather"
WISH = Finding("exl3-gather-wished", (), Severity.INFO, (ID,))
"""For who wants it although no check asks for it."""
VARIABLE = "TWINRIG_EXL3_GATHER"
MODULE = "twinrig_exl3_gather"


class OwnGather:
    """Opt-in: offered last, or asked for by name."""

    id = ID
    title = N_("Collect the cards' results through NCCL")
    probes: tuple[str, ...] = ("environment",)

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises NotForThisEngineError without tensor parallelism over NCCL, UndecidedError
        when the environment of the engine is not known."""
        profile = needs_profile(facts.profile)
        title = Message(self.title)
        _refuse_others(profile, title)
        if profile.env.get(VARIABLE) is not None and profile.env[VARIABLE].value == "1":
            raise nothing_to_change(title)
        folder = _site_packages(facts.install)
        reason = "collects the cards' results by send and receive"
        return FixPlan(
            self.id,
            title,
            (
                WriteFileStep(
                    f"{folder}/{MODULE}.py", assets.read_text(f"patches/{MODULE}.py"), mode=0o644
                ),
                WriteFileStep(f"{folder}/{MODULE}.pth", f"import {MODULE}\n", mode=0o644),
                ProfileStep(profile.id, {}, {VARIABLE: "1"}, reason),
            ),
            risk=message(
                "Changes exllamav3 in this environment while it runs, for servers of this profile "
                "only. Updating exllamav3 to 1.1.0 or later is the better way."
            ),
            needs_restart=True,
        )


def _refuse_others(profile: Profile, title: Message) -> None:
    only_for(TABBY, profile, title)
    settings = profile.settings
    wanted = settings.get("tensor_parallel") is True
    if not wanted or settings.get("tensor_parallel_backend", "native") != "nccl":
        raise NotForThisEngineError(
            message("“{fix}” needs tabbyAPI with tensor parallelism over NCCL.", fix=title),
            message("Choose the backend nccl in the profile, or update exllamav3."),
        )


def _site_packages(install: EngineInstall | None) -> str:
    python = ".".join((install.python_version if install else "").split(".")[:2])
    if install is None or not python:
        raise UndecidedError(
            message("The environment of the engine was not found."),
            message("Name it in the profile, then try again."),
        )
    return f"{install.environment}/lib/python{python}/site-packages"
