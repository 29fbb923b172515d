"""Building blocks of judgements: results with evidence, and "could not tell" told apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinrig.domain.checks import CheckResult, Evidence, Facts, Finding, ProbeOutput, Status
from twinrig.messages import Message, message

_MAX_EVIDENCE_LINES = 12


def evidence_of(output: ProbeOutput, lines: Iterable[str] | None = None) -> Evidence:
    """The decisive lines of an answer; without ``lines`` its first ones, errors included."""
    if lines is None:
        text = (output.stdout + output.stderr).splitlines()
        lines = [line for line in text if line.strip()]
    kept = list(lines)
    if len(kept) > _MAX_EVIDENCE_LINES:
        kept = [*kept[:_MAX_EVIDENCE_LINES], "..."]
    return Evidence(f"probe {output.name}", "\n".join(kept))


def passed(check_id: str, summary: Message, *evidence: Evidence) -> CheckResult:
    """All is well."""
    return CheckResult(check_id, Status.PASS, summary, evidence=evidence)


def failed(
    check_id: str,
    summary: Message,
    finding: Finding,
    *evidence: Evidence,
    next_step: Message | None = None,
) -> CheckResult:
    """A server would not start or not work."""
    return CheckResult(
        check_id, Status.FAIL, summary, finding, evidence=evidence, next_step=next_step
    )


def warned(
    check_id: str,
    summary: Message,
    finding: Finding,
    *evidence: Evidence,
    next_step: Message | None = None,
) -> CheckResult:
    """It works, but badly or not for long."""
    return CheckResult(
        check_id, Status.WARN, summary, finding, evidence=evidence, next_step=next_step
    )


def skipped(check_id: str, reason: Message) -> CheckResult:
    """The question makes no sense here; ``reason`` names what is missing."""
    return CheckResult(check_id, Status.SKIP, reason)


def unknown(check_id: str, summary: Message, *evidence: Evidence) -> CheckResult:
    """Could not tell: never a finding, never a fix."""
    return CheckResult(
        check_id,
        Status.ERROR,
        summary,
        evidence=evidence,
        next_step=message("Look at the evidence and run the check again."),
    )


def garbled(check_id: str, output: ProbeOutput) -> CheckResult:
    """The answer came, but it is not what such an answer looks like."""
    return unknown(
        check_id,
        message("The answer of the probe {probe} could not be understood.", probe=output.name),
        evidence_of(output),
    )


def probe_fault(check_id: str, output: ProbeOutput) -> CheckResult | None:
    """ERROR when the probe did not answer properly, None when its answer can be read."""
    if output.timed_out:
        text = message("The probe {probe} did not answer in time.", probe=output.name)
    elif output.returncode is None:
        text = message("The probe {probe} did not run to its end.", probe=output.name)
    elif output.missing_program:
        text = message("A program that the probe {probe} needs is missing.", probe=output.name)
    elif output.returncode != 0:
        text = message(
            "The probe {probe} failed with return code {code}.",
            probe=output.name,
            code=output.returncode,
        )
    else:
        return None
    return unknown(check_id, text, evidence_of(output))


def key_values(output: ProbeOutput) -> Mapping[str, str]:
    """``key=value`` lines; the first one of a key counts."""
    pairs: dict[str, str] = {}
    for line in output.stdout.splitlines():
        key, sign, value = line.partition("=")
        if sign and key.isidentifier():
            pairs.setdefault(key, value.strip())
    return pairs


def tagged(output: ProbeOutput, tag: str) -> tuple[str, ...]:
    """What follows ``tag`` and a space, for each such line."""
    prefix = f"{tag} "
    return tuple(
        line.removeprefix(prefix) for line in output.stdout.splitlines() if line.startswith(prefix)
    )


def on_wsl(facts: Facts) -> bool:
    """Whether the Linux side runs under WSL; unknown reads as no."""
    return key_values(facts.probe("system")).get("wsl") == "yes"


def gib(size_bytes: float) -> str:
    """GiB with one decimal, for sentences."""
    return f"{size_bytes / 1024**3:.1f}"
