"""One redacted text about a server: to be looked at first, then copied or saved."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from twinrig import __version__
from twinrig.diagnosis.explain import Report
from twinrig.domain.checks import CheckResult, Status
from twinrig.domain.profile import Profile
from twinrig.messages import Translator
from twinrig.services.journal import JournalEntry
from twinrig.services.profile_codec import dump_profile
from twinrig.services.redaction import Redactor

LOG_LINES = 200
MAX_LINE_CHARS = 1000
AROUND_LINES = 15


@dataclass(frozen=True)
class ReportParts:
    """What is known; each part may be missing. ``log`` are the last lines; ``versions`` are
    (program, version) pairs."""

    diagnosis: Report | None = None
    log: Sequence[str] = ()
    profile: Profile | None = None
    versions: Sequence[tuple[str, str]] = ()
    checks: Sequence[CheckResult] = ()
    changes: Sequence[JournalEntry] = ()
    state: str = ""


def build_report(parts: ReportParts, redactor: Redactor, *, now_s: float) -> str:
    """The whole report, masked, in English: those who read it help people of all languages."""
    english = Translator("en")
    made = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    sections = [
        ("Twinrig report", [f"made: {made}", *_versions(parts.versions)]),
        ("Findings", _findings(parts.diagnosis, english)),
        ("Server", [parts.state] if parts.state else []),
        ("Settings", dump_profile(parts.profile).splitlines() if parts.profile else []),
        ("Checks", [_check(result, english) for result in parts.checks]),
        ("Changes", [_change(entry, english) for entry in parts.changes]),
        ("Log", [line[:MAX_LINE_CHARS] for line in parts.log[-LOG_LINES:]]),
    ]
    text = "\n".join(
        line for title, lines in sections if lines for line in (f"## {title}", *lines, "")
    )
    return redactor.redact(text)


def _versions(versions: Sequence[tuple[str, str]]) -> list[str]:
    own = [("twinrig", __version__), ("python", platform.python_version())]
    system = f"{platform.system()} {platform.release()}"
    return [f"{name}: {version}" for name, version in [*own, ("system", system), *versions]]


def _findings(report: Report | None, english: Translator) -> list[str]:
    if report is None:
        return []
    lines = [f"kind: {report.kind}, ready: {report.server_ready}"]
    for found in report.findings:
        place = f", line {found.line_no}" if found.line_no is not None else ""
        lines.append(
            f"- {found.finding.id} ({found.confidence}{place}): {english.text(found.text)}"
        )
        lines.append(f"  fixes: {', '.join(found.finding.fixes)}")
    if report.root is not None:
        lines.append(f"root cause line: {report.root.line.strip()[:MAX_LINE_CHARS]}")
    lines.extend(english.text(note) for note in report.notes)
    known = {name: value for name, value in report.facts.items() if name != "dmesg"}
    if known:
        lines.append("facts: " + ", ".join(f"{k}={v}" for k, v in sorted(known.items())))
    lines.extend(
        f"{moment.at or '-':14} {moment.source:7} {moment.what}" for moment in report.moments
    )
    return lines


def _check(result: CheckResult, english: Translator) -> str:
    found = f" [{result.finding.id}]" if result.finding and result.status is not Status.PASS else ""
    return f"{result.status.value}: {result.check_id}{found}: {english.text(result.summary)}"


def _change(entry: JournalEntry, english: Translator) -> str:
    undone = " (taken back)" if entry.undone_at_s is not None else ""
    when = datetime.fromtimestamp(entry.at_s, UTC).strftime("%Y-%m-%d %H:%M")
    return f"{when} {entry.fix_id}: {english.text(entry.title)}{undone}"
