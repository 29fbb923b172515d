"""Does a server of this user outlive a log-off?

A user's services end with the last session unless lingering is on (systemd's logind). Under WSL
the scheduled task of Windows holds the server, whatever the distribution says.
"""

from __future__ import annotations

from dataclasses import replace

from twinrig.checks.judging import evidence_of, garbled, key_values, on_wsl, passed, probe_fault
from twinrig.domain.checks import Check, CheckResult, Facts
from twinrig.messages import N_, message

ID = "session-end"


def judge(facts: Facts) -> CheckResult:
    """Never a warning: whoever shares no computer does not log off while a server works."""
    output = facts.probe("session")
    if (fault := probe_fault(ID, facts.probe("system")) or probe_fault(ID, output)) is not None:
        return fault
    values = key_values(output)
    if values.get("systemd") not in ("yes", "no"):
        return garbled(ID, output)
    if on_wsl(facts):
        return passed(ID, message("Windows holds the server"), evidence_of(output))
    if values["systemd"] == "no":
        text = message("Without systemd a server runs until the computer is shut down")
        return passed(ID, text, evidence_of(output))
    if values.get("linger") == "yes":
        return passed(ID, message("Servers outlive a log-off"), evidence_of(output))
    advice = message("To keep them: loginctl enable-linger {user}", user=values.get("user", ""))
    found = passed(ID, message("Servers end when you log off"), evidence_of(output))
    return replace(found, next_step=advice)


CHECK = Check(
    id=ID,
    title=N_("What a log-off does to servers"),
    probes=("system", "session"),
    judge=judge,
)
