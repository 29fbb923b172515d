"""Remove an option that the engine does not know."""

from __future__ import annotations

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import FixPlan, ProfileStep
from twinrig.fixes.planning import UndecidedError, needs_profile
from twinrig.messages import message


class DropArgument:
    """The finding names the option as the engine printed it, such as ``--max-foo``."""

    id = "cfg-drop-argument"
    probes: tuple[str, ...] = ()

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError when the profile has no such option."""
        profile = needs_profile(facts.profile)
        name = finding.param("argument").lstrip("-").split("=")[0].split(" ")[0]
        alike = {name, name.replace("-", "_"), name.replace("_", "-")}
        extra = {key: None for key in profile.extra if key in alike}
        settings = {key: None for key in profile.settings if key in alike}
        if not name or not (extra or settings):
            raise UndecidedError(
                message("The profile has no option {name}.", name=name or "?"),
                message("Look in the log for the option that the engine does not know."),
            )
        step = ProfileStep(profile.id, settings, {}, "unknown to the engine", extra=extra)
        return FixPlan(
            self.id,
            message("Remove the option {name}", name=name),
            (step,),
            needs_restart=True,
        )
