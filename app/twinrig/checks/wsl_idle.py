"""When does WSL stop by itself? It counts programs of Windows, not servers in Linux.

A server that Twinrig keeps is such a program, so the defaults are fine. Sources: microsoft/WSL
(LxssUserSession), #8654, #8854, #9968.
"""

from __future__ import annotations

from twinrig.checks.judging import evidence_of, garbled, passed, probe_fault, warned
from twinrig.checks.windows_facts import config_of
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding, Severity
from twinrig.domain.wsl_config import idle_timeout_ms
from twinrig.messages import N_, message

ID = "wsl-idle"
_KIND = "server-vanished-session"
_FIXES = ("wsl-keepalive",)
SHORTEST_MS = 5000
"""Below this the distribution may stop between two questions of Twinrig."""


def judge(facts: Facts) -> CheckResult:
    """Warns of settings that do not do what they look like, or that stop WSL under our hands."""
    output = facts.probe("windows_wslconfig")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    config = config_of(facts)
    if config is None:
        return garbled(ID, output)
    ini = config.ini()
    instance = idle_timeout_ms(ini, "general", "instanceIdleTimeout", 15000)
    machine = idle_timeout_ms(ini, "wsl2", "vmIdleTimeout", 60000)
    values = f"instanceIdleTimeout={instance}\nvmIdleTimeout={machine}"
    evidence = Evidence(config.path, values)
    if instance < 0:
        return passed(ID, message("WSL does not stop by itself"), evidence)
    params = (("instance_ms", str(instance)), ("vm_ms", str(machine)))
    if instance < SHORTEST_MS:
        return warned(
            ID,
            message(
                "WSL stops a distribution {seconds} s after its last window is closed; that is "
                "too short to work with.",
                seconds=f"{instance / 1000:g}",
            ),
            Finding(_KIND, params, Severity.WARNING, _FIXES),
            evidence,
        )
    if machine < 0:
        return warned(
            ID,
            message(
                "vmIdleTimeout=-1 alone keeps nothing running: the distribution still stops "
                "{seconds} s after its last window is closed.",
                seconds=f"{instance / 1000:g}",
            ),
            Finding(_KIND, params, Severity.WARNING, _FIXES),
            evidence,
            next_step=message("A server that Twinrig starts is kept running all the same."),
        )
    return passed(
        ID,
        message(
            "WSL stops {seconds} s after its last use; a server that Twinrig keeps prevents it",
            seconds=f"{instance / 1000:g}",
        ),
        evidence,
        evidence_of(output, [f"exists={config.exists}"]),
    )


CHECK = Check(
    id=ID,
    title=N_("WSL stays up while a server runs"),
    probes=("windows_wslconfig",),
    judge=judge,
    findings=(_KIND,),
)
