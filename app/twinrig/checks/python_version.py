"""Does the environment's Python live, and is it one the engine supports?"""

from __future__ import annotations

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from twinrig.checks.judging import (
    evidence_of,
    failed,
    garbled,
    key_values,
    passed,
    probe_fault,
    skipped,
)
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding
from twinrig.messages import N_, message

ID = "python-version"


def judge(facts: Facts) -> CheckResult:
    """The range is what the engine's own metadata say (Requires-Python)."""
    install, output = facts.install, facts.probe("environment")
    if install is None:
        return skipped(ID, message("No engine was found."))
    values = key_values(output)
    # What the probe reads has precedence: it is as fresh as this run.
    text = values.get("python") or install.python_version
    if not text and (fault := probe_fault(ID, output)) is not None:
        return fault
    try:
        version = Version(".".join(text.split(".")[:3]))
        wanted = SpecifierSet(values.get("requires_python", ""))
    except (InvalidVersion, InvalidSpecifier):
        return garbled(ID, output)
    evidence = (Evidence("environment", f"{install.environment}: {text}"), evidence_of(output))
    params = (("python", text), ("environment", install.environment))
    if values.get("interpreter") == "missing":
        return failed(
            ID,
            message("The Python of {place} is gone.", place=install.environment),
            Finding("python-missing", params, fixes=("cfg-env-path", "pkg-install-engine")),
            *evidence,
            next_step=message("Create the environment again, or choose another one."),
        )
    if not wanted.contains(version, prereleases=True):
        return failed(
            ID,
            message(
                "Python {version} is not supported by the engine, which wants {range}.",
                version=text,
                range=str(wanted),
            ),
            Finding("python-unsupported", params, fixes=("cfg-env-path", "pkg-install-engine")),
            *evidence,
            next_step=message("Create an environment with a supported Python."),
        )
    return passed(ID, message("Python {version}", version=text), *evidence)


CHECK = Check(
    id=ID,
    title=N_("Python fits the engine"),
    probes=("environment",),
    judge=judge,
    requires=("engine-installed",),
    needs_profile=True,
    findings=("python-missing", "python-unsupported"),
)
