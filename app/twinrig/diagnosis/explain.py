"""Why a server ended, or what is wrong with it: the order of decision over a whole log.

The cause is rarely the last line (failure catalogue 1.1): wrappers never decide, and of all matches
the earliest of the earliest tier wins. What was logged before the server became ready did not
keep it from becoming so, and explains no later end. When nothing matches, that is said, and
the first real exception is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twinrig.diagnosis.conditions import Verdict, judge_all
from twinrig.diagnosis.crashes import asynchronous_note
from twinrig.diagnosis.derived import DERIVATIONS
from twinrig.diagnosis.next_probe import next_probes
from twinrig.diagnosis.normalise import plain
from twinrig.diagnosis.root_cause import RootCause
from twinrig.diagnosis.rules import CONFIDENCES, Kind, Rules, Signature
from twinrig.diagnosis.scan import Hit, LogScan, Scanned
from twinrig.diagnosis.timeline import Moment, timeline
from twinrig.domain.checks import Finding
from twinrig.domain.supervision import Candidate, Failure
from twinrig.messages import Message, message

MAX_LINE_CHARS = 4000
MAX_CANDIDATES = 4
UNKNOWN = "?"
PLATFORM = "platform"
PREVIOUS_CRASH = "previous_crash"
"""Fact: the line that told of an earlier crash of the same profile."""
_TRUE = ("true", "1", "yes")


@dataclass(frozen=True)
class Diagnosis:
    """A kind that holds. ``line_no`` is 1-based, None when no line of the log tells it."""

    finding: Finding
    confidence: str
    kind: Kind
    signature: Signature
    text: Message
    next_step: Message
    why: Message
    line_no: int | None = None
    line: str = ""


@dataclass(frozen=True)
class Report:
    """Everything about one log. ``kind`` is "failure", "healthy" or "unknown"."""

    kind: str
    findings: tuple[Diagnosis, ...]
    root: RootCause | None
    server_ready: bool
    speeds_tps: tuple[float, ...]
    facts: Mapping[str, str]
    notes: tuple[Message, ...] = ()
    moments: tuple[Moment, ...] = ()
    next_probes: tuple[str, ...] = ()
    """Fix ids of what would make the next log tell more; empty when a cause is known."""


def explain_exit(
    lines: Sequence[str],
    exit_text: str,
    rules: Rules,
    context: Mapping[str, str] | None = None,
) -> Failure:
    """The failure to tell the user. ``lines`` are of this run only, ``exit_text`` as
    ``str(ExitStatus)``. Never raises for any content of the log."""
    report = diagnose(lines, exit_text, rules, context)
    # What a client did wrong ended no server.
    causes = [d for d in report.findings if d.signature.tier != "request"]
    if causes:
        return _known(causes, report.notes)
    failure = _unknown(report.root, exit_text, report.notes)
    return replace(failure, fixes=report.next_probes)


def live_failure(report: Report) -> Failure | None:
    """What to tell about a server that still runs; None when nothing is wrong or not sure."""
    sure = [d for d in report.findings if d.confidence != "low" and d.kind.catalogued]
    return _known(sure, report.notes) if sure else None


def is_permanent(failure: Failure) -> bool:
    """Whether a restart with the same settings must fail again."""
    return failure.permanent


def diagnose(
    lines: Iterable[str],
    exit_text: str,
    rules: Rules,
    context: Mapping[str, str] | None = None,
) -> Report:
    """Diagnose lines that are in memory."""
    scan = LogScan(rules, context)
    scan.feed(list(lines))
    return conclude(scan, exit_text, rules, context)


def conclude(
    scan: LogScan,
    exit_text: str,
    rules: Rules,
    context: Mapping[str, str] | None = None,
) -> Report:
    """End a scan that was fed, and decide. The kernel log of the context is read as well."""
    kernel = (context or {}).get("dmesg", "")
    if kernel:
        scan.feed_beside(kernel.splitlines())
    scanned = scan.finish()
    wanted = scanned.facts.get("stop_requested", "").lower() in _TRUE
    findings = () if wanted else _decide(scanned, exit_text, rules)
    root = None if wanted else scanned.root
    sure = bool(findings) and findings[0].confidence != "low" and findings[0].kind.catalogued
    kind = "failure" if sure else "unknown" if findings or root else "healthy"
    earlier = [scanned.facts[PREVIOUS_CRASH]] if PREVIOUS_CRASH in scanned.facts else []
    note = asynchronous_note([*earlier, *scanned.crashes] if scanned.crashes else [])
    return Report(
        kind,
        findings,
        _shown_root(findings, root),
        _ready(scanned, findings),
        tuple(scanned.speeds),
        scanned.facts,
        (note,) if note and not wanted else (),
        timeline(scanned.markers, findings, kernel),
        next_probes(root.line if root else "", scanned.facts) if kind == "unknown" else (),
    )


def _shown_root(findings: Sequence[Diagnosis], root: RootCause | None) -> RootCause | None:
    """Line of the first finding; of one that is not sure only when no exception stands there."""
    if not findings or findings[0].line_no is None:
        return root
    if findings[0].confidence == "low" and root is not None:
        return root
    return RootCause(findings[0].line_no, findings[0].line)


def _ready(scanned: Scanned, findings: Sequence[Diagnosis]) -> bool:
    """vLLM up to 0.6 binds its port only after it says that it is up."""
    if any(d.finding.id == "port-in-use" for d in findings):
        return False
    return scanned.ever_ready or "task_running" in scanned.facts


def _decide(scanned: Scanned, exit_text: str, rules: Rules) -> tuple[Diagnosis, ...]:
    best: dict[str, tuple[tuple[int, int, int], Diagnosis]] = {}
    for kind, signature, hit in claims(scanned, exit_text, rules):
        confidence = kind.confidence(signature)
        if judge_all(signature.when, scanned.facts) is Verdict.UNKNOWN:
            confidence = _lowered(confidence, signature, scanned)
        weak = int(confidence == "low")
        order = hit.order if hit else 1 << 60
        key = (weak, signature.rank, order)
        if kind.id not in best or key < best[kind.id][0]:
            found = _diagnosis(kind, signature, confidence, hit, scanned)
            best[kind.id] = (key, found)
    held = set(best)
    ranked = sorted(
        best.values(), key=lambda item: (not held.isdisjoint(item[1].kind.unless), *item[0])
    )
    return tuple(diagnosis for _, diagnosis in ranked)


def claims(
    scanned: Scanned, exit_text: str, rules: Rules
) -> Iterator[tuple[Kind, Signature, Hit | None]]:
    """All signatures that hold, with the place that tells it; None = no line does."""
    for kind, signature, hit in _places(scanned, rules):
        if judge_all(signature.when, scanned.facts) is Verdict.FAILS:
            continue
        if _rest_fits(signature, scanned, exit_text):
            yield kind, signature, hit


def _places(scanned: Scanned, rules: Rules) -> Iterator[tuple[Kind, Signature, Hit | None]]:
    """Signatures whose own line or observation is there."""
    for kind, hit in scanned.hits:
        if not hit.signature.observed and _in_time(hit, scanned):
            yield kind, hit.signature, hit
    for kind in rules.kinds:
        for signature in kind.signatures:
            if signature.observed:
                seen = _observed(signature, scanned)
                if seen is not None:
                    yield kind, signature, seen
            elif not signature.needles:
                yield kind, signature, None


def _in_time(hit: Hit, scanned: Scanned) -> bool:
    """Of this run of the server, not survived, and not an echo of a wanted stop."""
    signature = hit.signature
    if hit.stopped and not signature.after_stop:
        return False
    if hit.epoch != scanned.epoch:
        return signature.after_stop and hit.line_no is not None and not scanned.ready
    survived = scanned.ready_order and hit.order < scanned.ready_order
    return not survived or signature.survives or hit.line_no is None


def _observed(signature: Signature, scanned: Scanned) -> Hit | None:
    seen = scanned.observations.get(signature.observed)
    if seen is None:
        return None
    order = seen.line_no or 1 << 59
    ready_first = bool(scanned.ready_order)
    if ready_first and order < scanned.ready_order and not signature.survives:
        return None
    return Hit(signature, seen.line_no, seen.line, seen.params, order, scanned.epoch, False)


def _rest_fits(signature: Signature, scanned: Scanned, exit_text: str) -> bool:
    if signature.exit is not None and not signature.exit.search(exit_text):
        return False
    if signature.present and scanned.present.isdisjoint(signature.present):
        return False
    if not scanned.present.isdisjoint(signature.absent):
        return False
    if signature.needles:
        return True
    names = {marker.name for marker in scanned.markers if marker.epoch == scanned.epoch}
    return names.issuperset(signature.after) and names.isdisjoint(signature.before)


def _lowered(confidence: str, signature: Signature, scanned: Scanned) -> str:
    """Without a fact that the kind depends on, never above medium (failure catalogue 2).

    vLLM says in several lines that it runs under WSL; one that started its workers without a
    word of it most likely runs on plain Linux, and what only happens under WSL is a guess.
    """
    asks = any(c.fact == PLATFORM for c in signature.when)
    workers = any(m.name == "nccl_version" for m in scanned.markers)
    if asks and workers and PLATFORM not in scanned.facts:
        return "low"
    return max(confidence, "medium", key=CONFIDENCES.index)


def _diagnosis(
    kind: Kind, signature: Signature, confidence: str, hit: Hit | None, scanned: Scanned
) -> Diagnosis:
    captured = dict(hit.captured) if hit else {}
    for name in signature.derive:
        value = DERIVATIONS[name].compute(captured)
        if value is not None:
            captured[DERIVATIONS[name].gives] = value
    fixes, next_step = signature.fixes or kind.fixes, signature.next_step or kind.next_step
    for variant in kind.variants:
        if judge_all(variant.when, scanned.facts) is Verdict.HOLDS:
            fixes, next_step = variant.fixes, variant.next_step or next_step
            break
    finding = Finding(kind.id, tuple(sorted(captured.items())), fixes=fixes)
    return Diagnosis(
        finding,
        confidence,
        kind,
        signature,
        _message(signature.text or kind.text, captured),
        _message(next_step, captured),
        _why(signature, scanned, hit),
        hit.line_no if hit else None,
        hit.line if hit else "",
    )


def _why(signature: Signature, scanned: Scanned, hit: Hit | None) -> Message:
    known = [f"{c.fact}={scanned.facts[c.fact]}" for c in signature.when if c.fact in scanned.facts]
    missing = [c.fact for c in signature.when if c.fact not in scanned.facts]
    if missing:
        return message(
            "Less sure, because this is not known here: {facts}", facts=", ".join(missing)
        )
    if hit is not None and hit.line_no is not None and known:
        return message(
            "Line {line_no} of the log says so, and it fits what is known: {facts}",
            line_no=hit.line_no,
            facts=", ".join(known),
        )
    if hit is not None and hit.line_no is not None:
        return message("Line {line_no} of the log says so.", line_no=hit.line_no)
    if known:
        return message("What is known beside the log says so: {facts}", facts=", ".join(known))
    return message("No line says so; it is what such an end most often means.")


def _message(text: str, captured: Mapping[str, str]) -> Message:
    """Values of a text's fields; one that this version's message lacks is shown as unknown."""
    names = re.findall(r"\{(\w+)\}", text)
    return Message(text, {name: captured.get(name, UNKNOWN) for name in names})


def _known(findings: Sequence[Diagnosis], notes: Sequence[Message]) -> Failure:
    first = findings[0]
    own = first.signature.permanent
    return Failure(
        first.text,
        first.next_step,
        finding_id=first.kind.id if first.kind.catalogued else "",
        confidence=first.confidence,
        root_cause_line=first.line[:MAX_LINE_CHARS],
        log_line_no=first.line_no,
        permanent=first.kind.permanent if own is None else own,
        params=first.finding.params,
        fixes=first.finding.fixes,
        why=notes[0] if notes else first.why,
        others=tuple(_candidate(d) for d in findings[1:MAX_CANDIDATES]),
    )


def _candidate(diagnosis: Diagnosis) -> Candidate:
    return Candidate(
        diagnosis.kind.id if diagnosis.kind.catalogued else "",
        diagnosis.text,
        diagnosis.next_step,
        diagnosis.confidence,
        diagnosis.line[:MAX_LINE_CHARS],
        diagnosis.line_no,
        diagnosis.finding.params,
        diagnosis.finding.fixes,
    )


def _unknown(root: RootCause | None, exit_text: str, notes: Sequence[Message]) -> Failure:
    why = notes[0] if notes else None
    if root is None:
        return Failure(
            message(
                "The server ended by itself ({exit}); its log does not say why.", exit=exit_text
            ),
            message("Start it again; if it ends again, look at the last lines of the log."),
            why=why,
        )
    failure = Failure(
        message(
            "The server ended by itself ({exit}). The cause is not known; the first error in"
            " its log is: {line}",
            exit=exit_text,
            line=plain(root.line)[:300],
        ),
        message("Look at this line of the kernel log and the lines above it."),
        root_cause_line=root.line[:MAX_LINE_CHARS],
        log_line_no=root.line_no,
        why=why,
    )
    if root.line_no is None:
        return failure
    return replace(
        failure,
        next_step=message(
            "Look at line {line_no} of the log and the lines above it.", line_no=root.line_no
        ),
    )
