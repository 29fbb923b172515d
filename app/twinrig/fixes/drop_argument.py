"""Remove an option that the engine does not know."""

from __future__ import annotations

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import FixPlan, ProfileStep
from twinrig.fixes.planning import UndecidedError, needs_profile
from twinrig.messages import N_, message


class DropArgument:
    """The finding names the option as the engine printed it, such as ``--max-foo``."""

    id = "cfg-drop-argument"
    title = N_("Remove the option that the engine does not know")
    probes: tuple[str, ...] = ()

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError when the profile has no such option."""
        profile = needs_profile(facts.profile)
        names = _names(finding)
        alike = {form for name in names for form in (name, name.replace("-", "_"))}
        extra = {key: None for key in profile.extra if key in alike}
        settings = {key: None for key in profile.settings if key in alike}
        if not (extra or settings):
            raise UndecidedError(
                message("The profile has no option {name}.", name=", ".join(names) or "?"),
                message("Look in the log for the option that the engine does not know."),
            )
        step = ProfileStep(profile.id, settings, {}, "unknown to the engine", extra=extra)
        return FixPlan(
            self.id,
            message("Remove the option {name}", name=", ".join([*extra, *settings])),
            (step,),
            needs_restart=True,
        )


def _names(finding: Finding) -> list[str]:
    """``option`` or ``options`` of the finding, as the engine prints them, without dashes."""
    text = f"{finding.param('option')} {finding.param('options')}"
    words = [word for word in text.replace("/", " ").split() if word.startswith("-")]
    return [word.lstrip("-").split("=")[0] for word in words]
