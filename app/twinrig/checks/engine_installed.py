"""Is the engine of the profile there, with a version read from its metadata?"""

from __future__ import annotations

from twinrig.checks.judging import evidence_of, failed, key_values, passed, skipped, unknown
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding
from twinrig.domain.install import EngineInstall
from twinrig.messages import N_, message

ID = "engine-installed"


def judge(facts: Facts) -> CheckResult:
    """The engine itself is never run: that would take half a minute and a card."""
    profile, install = facts.profile, facts.install
    if profile is None:
        return skipped(ID, message("No profile was given."))
    output = facts.probe("environment")
    if install is not None:
        return _judge_install(install, evidence_of(output))
    if facts.install_error is not None:
        return unknown(
            ID,
            message("The search for the engine failed."),
            Evidence("search for the engine", str(facts.install_error)),
        )
    if output.timed_out:
        return unknown(ID, message("The environment did not answer in time."), evidence_of(output))
    place = profile.engine.environment
    if place and key_values(output).get("missing") == "yes":
        text = message("The environment {place} does not exist.", place=place)
    elif place:
        text = message("{engine} is not in {place}.", engine=profile.engine.id, place=place)
    else:
        text = message("{engine} was not found.", engine=profile.engine.id)
    return failed(
        ID,
        text,
        Finding(
            "engine-not-installed",
            (("engine", profile.engine.id), ("environment", place)),
            fixes=("cfg-env-path", "pkg-install-engine"),
        ),
        Evidence("profile", f"engine: {profile.engine.id}, environment: {place or '(any)'}"),
        evidence_of(output),
        next_step=message("Choose the Python environment that holds the engine, or install it."),
    )


def _judge_install(install: EngineInstall, answer: Evidence) -> CheckResult:
    found = Evidence(
        "package metadata",
        f"{install.engine_id} {install.version or '?'} in {install.environment}",
    )
    if not install.executable:
        return failed(
            ID,
            message(
                "{engine} in {place} lacks its start program.",
                engine=install.engine_id,
                place=install.environment,
            ),
            Finding(
                "engine-not-installed",
                (("engine", install.engine_id), ("environment", install.environment)),
                fixes=("cfg-env-path", "pkg-install-engine"),
            ),
            found,
            answer,
            next_step=message("Install the engine again in this environment, or choose another."),
        )
    if not install.version:
        return unknown(
            ID,
            message(
                "{engine} is in {place}, but its version could not be read.",
                engine=install.engine_id,
                place=install.environment,
            ),
            found,
            answer,
        )
    return passed(
        ID,
        message("{engine} {version}", engine=install.engine_id, version=install.version),
        found,
        answer,
    )


CHECK = Check(
    id=ID,
    title=N_("Engine is installed"),
    probes=("environment",),
    judge=judge,
    needs_profile=True,
    findings=("engine-not-installed",),
)
