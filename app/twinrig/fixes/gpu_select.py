"""Let the server see as many cards as it needs."""

from __future__ import annotations

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import FixPlan, ProfileStep
from twinrig.fixes.planning import UndecidedError, needs_profile, nothing_to_change
from twinrig.messages import N_, message


class GpuSelect:
    """Sets ``CUDA_VISIBLE_DEVICES`` by UUID, which is the same on Windows and in WSL."""

    id = "cfg-gpu-select"
    title = N_("Choose the cards the server may use")
    probes: tuple[str, ...] = ("gpu",)

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError when the machine does not show enough cards."""
        profile = needs_profile(facts.profile)
        title = message("Choose the cards the server may use")
        uuids = _uuids(facts)
        wanted = int(finding.param("wanted")) if finding.param("wanted").isdecimal() else 2
        if len(uuids) < wanted:
            raise UndecidedError(
                message(
                    "Cards needed: {wanted}, visible: {count}", wanted=wanted, count=len(uuids)
                ),
                message("Check that both cards are seated and shown by nvidia-smi."),
            )
        env: dict[str, str | None] = {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(uuids[:wanted]),
        }
        present = {name: entry.value for name, entry in profile.env.items()}
        if all(present.get(name) == value for name, value in env.items()):
            raise nothing_to_change(title)
        step = ProfileStep(profile.id, {}, env, "the server saw fewer cards than it needs")
        return FixPlan(self.id, title, (step,), needs_restart=True)


def _uuids(facts: Facts) -> list[str]:
    rows = [line.split(",") for line in facts.probe("gpu").stdout.splitlines()]
    return [row[1].strip() for row in rows if len(row) > 1 and row[1].strip().startswith("GPU-")]
