"""``twinrig diagnose FILE|-``: why a server ended, from its log."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from twinrig import assets
from twinrig.cli.interrupts import interruptible
from twinrig.cli.session import FINDINGS, FINE, UNKNOWN, Session, pick_id
from twinrig.cli.terminal import Terminal
from twinrig.diagnosis.explain import Diagnosis, Report
from twinrig.domain.errors import HostError, UsageError
from twinrig.files import write_atomic
from twinrig.fixes.registry import load_fixes
from twinrig.messages import N_, message
from twinrig.services.case import Case, case_report, checks_of, own_case
from twinrig.services.diagnoser import Diagnoser

CONFIDENCE_WORDS = {
    "high": N_("sure"),
    "medium": N_("likely"),
    "low": N_("possible"),
}
_EXIT_CODES = {"failure": FINDINGS, "unknown": UNKNOWN, "healthy": FINE}


async def run(session: Session) -> int:
    """Exit code: 0 no fault found, 1 a cause was found, 3 there is a fault of unknown cause."""
    args, terminal = session.args, session.terminal
    given = _context(args.context)
    diagnoser = Diagnoser.shipped(assets.read_text)
    for fault in diagnoser.rules.faults:
        terminal.say(message("Some rules cannot be used: {fault}", fault=fault), "warn")
    if args.file is None:
        async with session.bench() as bench:
            case = await own_case(bench, await pick_id(bench, args.profile), given)
            if args.report is not None:
                case = replace(case, checks=await checks_of(bench, case.profile))
    else:
        case = Case(args.file, given)
    with interruptible():
        report = _read(diagnoser, case.path, case.facts)
    if args.report is not None:
        return _write_report(terminal, args.report, case, report)
    if terminal.json_mode:
        terminal.data(as_json(report))
    else:
        show(terminal, report, fix_titles())
    return _EXIT_CODES[report.kind]


def _write_report(terminal: Terminal, target: str, case: Case, report: Report) -> int:
    """Show the report ("-") or write it; it is masked, and should still be looked at."""
    text = case_report(case, report)
    document = {"kind": report.kind, "report": text, "file": None if target == "-" else target}
    if target != "-":
        _write(Path(target), text)
        terminal.say(message("The report was written: {path}", path=target), "good")
        terminal.next_step(
            message("Look at it before you pass it on: names may be left that nobody can guess.")
        )
    elif not terminal.json_mode:
        terminal.write(text)
    terminal.data(document)
    return _EXIT_CODES[report.kind]


def _write(path: Path, text: str) -> None:
    try:
        write_atomic(path, text.encode("utf-8"))
    except OSError as error:
        raise HostError(
            message(
                "{path} cannot be written: {reason}.",
                path=str(path),
                reason=error.strerror or str(error),
            ),
            message("Choose another file name."),
        ) from error


def _context(words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(
                message("{word} is not KEY=VALUE.", word=word),
                message("Write it like this: --context wsl_version=2.6.3"),
            )
        found[name] = value
    return found


def _read(diagnoser: Diagnoser, name: str, context: Mapping[str, str]) -> Report:
    try:
        if name == "-":
            source: BinaryIO = sys.stdin.buffer
            return diagnoser.diagnose(source, context)
        with Path(name).open("rb") as source:
            return diagnoser.diagnose(source, context)
    except OSError as error:
        raise HostError(
            message("{path} cannot be read: {reason}.", path=name, reason=error.strerror or ""),
            message("Check the name and the permissions of the file."),
        ) from error


def as_json(report: Report) -> dict[str, Any]:
    """The document of ``--json``; names and order are fixed, other programs read them."""
    return {
        "kind": report.kind,
        "findings": [_finding(d) for d in report.findings if d.kind.catalogued],
        "root_cause": None
        if report.root is None
        else {"line_no": report.root.line_no, "line": report.root.line},
        "server_ready": report.server_ready,
        "tokens_per_second": list(report.speeds_tps),
        "notes": report.notes,
        "next_probes": report.next_probes,
        "timeline": [
            {"at": m.at, "source": m.source, "line_no": m.line_no, "text": m.what}
            for m in report.moments
        ],
    }


def _finding(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "id": diagnosis.finding.id,
        "confidence": diagnosis.confidence,
        "fixes": diagnosis.finding.fixes,
        "line_no": diagnosis.line_no,
        "text": diagnosis.text,
        "next_step": diagnosis.next_step,
        "why": diagnosis.why,
        "params": dict(diagnosis.finding.params),
    }


def fix_titles() -> Mapping[str, str]:
    """Marked sentence of every fix by id."""
    fixes = load_fixes(assets.read_text("advice/fixes.yaml"))
    return {fix_id: fix.title for fix_id, fix in fixes.items()}


def show(terminal: Terminal, report: Report, titles: Mapping[str, str]) -> None:
    """The report as text for people; ``titles`` are marked sentences by fix id."""
    if not report.findings:
        _show_none(terminal, report)
    for number, diagnosis in enumerate(report.findings[:3]):
        if number == 1:
            terminal.line()
            terminal.say(message("Other causes that would fit:"), "bold")
        _show_finding(terminal, diagnosis, titles)
    if report.next_probes:
        terminal.say(message("For one start, this would make the log tell more:"))
        _show_fixes(terminal, report.next_probes, titles)
    for note in report.notes:
        terminal.paragraph(note)
    if report.speeds_tps:
        terminal.say(
            message("Highest generation speed: {tps} tokens/s", tps=f"{max(report.speeds_tps):.1f}")
        )


def _show_none(terminal: Terminal, report: Report) -> None:
    if report.root is None:
        terminal.say(message("No fault was found in this log."), "good")
        if not report.server_ready:
            terminal.say(message("It does not show a server that became ready."))
        return
    terminal.say(message("There is a fault, and its cause is not known."), "warn")
    _show_line(terminal, report.root.line_no, report.root.line)
    terminal.next_step(message("Look at this line and the lines above it."))


def _show_finding(terminal: Terminal, diagnosis: Diagnosis, titles: Mapping[str, str]) -> None:
    word = terminal.text(CONFIDENCE_WORDS[diagnosis.confidence])
    terminal.line(
        terminal.style(terminal.text(diagnosis.text), "bold")
        + f"  [{diagnosis.finding.id}, {word}]"
    )
    _show_line(terminal, diagnosis.line_no, diagnosis.line)
    terminal.paragraph(diagnosis.why, "    ")
    terminal.next_step(diagnosis.next_step, "    ")
    if diagnosis.finding.fixes:
        terminal.paragraph(message("What can be done:"), "    ")
        _show_fixes(terminal, diagnosis.finding.fixes, titles)


def _show_fixes(terminal: Terminal, fixes: Sequence[str], titles: Mapping[str, str]) -> None:
    """Titles, with the ids that ``twinrig fix`` takes."""
    for fix_id in fixes:
        title = terminal.text(titles.get(fix_id, fix_id))
        terminal.line(f"    - {title}  " + terminal.style(f"[{fix_id}]", "dim"))


def _show_line(terminal: Terminal, line_no: int | None, line: str) -> None:
    if line:
        where = f"{line_no}: " if line_no is not None else ""
        terminal.line(terminal.style(f"    {where}{line.strip()[:400]}", "dim"))
