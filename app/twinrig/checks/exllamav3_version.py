"""Is this exllamav3 free of the faults that are known of its versions?

The faults are rows of ``resources/engines/faults.yaml``. The package of that name on the public
index holds sources only; ready wheels carry ``+cuNNN.torchX.Y``.
"""

from __future__ import annotations

from functools import cache

from twinrig import assets
from twinrig.checks.engine_facts import dist_version, within
from twinrig.checks.judging import (
    evidence_of,
    failed,
    on_wsl,
    passed,
    probe_fault,
    tagged,
    unknown,
    warned,
)
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding, Severity, Status
from twinrig.engines.faults import KnownFault, faults_of, load_faults
from twinrig.messages import N_, Message, message

ID = "exllamav3-version"


@cache
def known_faults() -> tuple[KnownFault, ...]:
    """All rows, read once."""
    return load_faults(assets.read_text("engines/faults.yaml"))


def judge(facts: Facts) -> CheckResult:
    """What stops the server first, then what a newer version has mended."""
    output = facts.probe("environment")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    version = dist_version(facts, "exllamav3")
    if within(version, ">=0") is None:
        return unknown(
            ID, message("The version of exllamav3 could not be read."), evidence_of(output)
        )
    return _source_package(version, facts) or _by_faults(version, facts)


def _source_package(version: str, facts: Facts) -> CheckResult | None:
    if "+cu" in version:
        return None
    return failed(
        ID,
        message(
            "exllamav3 {version} is a package of sources; its first start compiles for minutes "
            "or fails.",
            version=version,
        ),
        Finding(
            "exl3-source-package",
            (("version", version),),
            fixes=("pkg-exl3-wheel", "apt-cuda-nvcc"),
        ),
        evidence_of(facts.probe("environment")),
    )


def _by_faults(version: str, facts: Facts) -> CheckResult:
    """A fault that no version is free of is told, but warned of nobody can do anything about."""
    found = sorted(_faults(version, facts), key=lambda f: (not f.stops, not f.fixed_in))
    evidence = (
        evidence_of(facts.probe("environment")),
        *(Evidence(fault.id, _words(fault)) for fault in found),
    )
    if not found:
        return passed(ID, message("exllamav3 {version}", version=version), *evidence)
    worst = found[0]
    text = message("exllamav3 {version}: {fault}", version=version, fault=Message(worst.text))
    step = Message(worst.next_step)
    if not worst.fixed_in:
        return CheckResult(ID, Status.PASS, text, evidence=evidence, next_step=step)
    severity = Severity.BLOCKING if worst.stops else Severity.WARNING
    finding = Finding(worst.id, (("version", version),), severity, worst.fixes)
    tell = failed if worst.stops else warned
    return tell(ID, text, finding, *evidence, next_step=step)


def _faults(version: str, facts: Facts) -> tuple[KnownFault, ...]:
    if facts.profile is None:
        return ()
    lines = [line.partition(" ") for line in tagged(facts.probe("environment"), "source")]
    sources: dict[str, str] = {}
    for path, _, text in lines:
        sources[path] = f"{sources.get(path, '')}{text}\n"
    platform = "wsl" if on_wsl(facts) else "linux"
    return faults_of(known_faults(), facts.profile, version, platform=platform, sources=sources)


def _words(fault: KnownFault) -> str:
    mended = f"fixed in {fault.fixed_in}" if fault.fixed_in else "in all versions so far"
    return " ".join((mended, *fault.upstream))


CHECK = Check(
    id=ID,
    title=N_("exllamav3 has no known fault"),
    probes=("system", "environment"),
    judge=judge,
    requires=("engine-installed",),
    needs_profile=True,
    engines=("tabbyapi",),
    findings=(
        "exl3-source-package",
        "exl3-gather-offset",
        "exl3-gather-race",
        "exl3-tp-hostptr",
        "exl3-tp-sync-timeout",
        "exl3-draft-rewind",
        "tabby-disconnect-prefill",
    ),
)
