"""Why a server ended: rules over the whole log, in the catalogue's order of decision.

The cause is rarely the last line (failure catalogue 1.1): wrappers never decide, and of all matches
the earliest of the earliest tier wins. What was logged before the server became ready did not
keep it from becoming so, and explains no later end. When nothing matches, that is said, and
the first real exception is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from twinrig.diagnosis.derived import DERIVATIONS
from twinrig.diagnosis.normalise import clean, is_info, is_warning, plain, without_info
from twinrig.diagnosis.root_cause import BLOCK_LINES, find_root_cause
from twinrig.diagnosis.rules import Rule, Rules
from twinrig.domain.checks import Finding
from twinrig.domain.supervision import Failure
from twinrig.messages import Message, message

NEAR_LINES = 80
MAX_LINE_CHARS = 4000
UNKNOWN = "?"
READY_MARKER = "ready"


@dataclass(frozen=True)
class Diagnosis:
    """A rule that holds. ``line_no`` is 1-based, None when only the exit status speaks."""

    finding: Finding
    confidence: str
    rule: Rule
    text: Message
    next_step: Message
    line_no: int | None = None
    line: str = ""


def explain_exit(lines: Sequence[str], exit_text: str, rules: Rules) -> Failure:
    """The failure to tell the user. ``lines`` are of this run only, ``exit_text`` as
    ``str(ExitStatus)``. Never raises for any content of the log."""
    scan = _Scan(lines, rules)
    found = _decide(scan, lines, exit_text, rules)
    return _known(found[0]) if found else _unknown(lines, exit_text, rules, scan.ready_line_no)


def is_permanent(failure: Failure) -> bool:
    """Whether a restart with the same settings must fail again."""
    return failure.permanent


def diagnose(lines: Sequence[str], exit_text: str, rules: Rules) -> tuple[Diagnosis, ...]:
    """All rules that hold, the decisive one first; each rule at most once."""
    return _decide(_Scan(lines, rules), lines, exit_text, rules)


def _decide(
    scan: _Scan, lines: Sequence[str], exit_text: str, rules: Rules
) -> tuple[Diagnosis, ...]:
    hits = scan.run()
    found = [
        _diagnosis(rule, lines, hit)
        for rule, hit in hits.items()
        if hit.line_no >= scan.ready_line_no
        and not any(text in scan.present for text in rule.absent)
        and _exit_fits(rule, exit_text)
    ]
    for rule in rules.rules:
        if not rule.needles and _exit_fits(rule, exit_text) and scan.seen_fits(rule):
            found.append(_diagnosis(rule, lines, None))
    order = {id(rule): position for position, rule in enumerate(rules.rules)}
    found.sort(key=lambda d: (d.rule.rank, d.line_no or 0, order[id(d.rule)]))
    return tuple(found)


@dataclass(frozen=True)
class _Hit:
    line_no: int
    captured: Mapping[str, str]


class _Scan:
    """One pass over the log, block by block: a block without a needle costs next to nothing."""

    def __init__(self, lines: Sequence[str], rules: Rules) -> None:
        self._lines = lines
        self._rules = rules
        self._seen: set[str] = set()
        self._counts: dict[int, int] = {}
        self._hits: dict[Rule, _Hit] = {}
        self._absent = {text for rule in rules.rules for text in rule.absent}
        self.present: set[str] = set()
        self.ready_line_no = 0

    def run(self) -> dict[Rule, _Hit]:
        """First hit of each rule whose conditions on order and neighbourhood hold."""
        for start in range(0, len(self._lines), BLOCK_LINES):
            block = self._lines[start : start + BLOCK_LINES]
            text = clean("\n".join(block))
            self.present |= {t for t in self._absent - self.present if t in text}
            markers = [
                name
                for name, phrase in self._rules.markers.items()
                if name not in self._seen and phrase in text
            ]
            rules = self._candidates(text, info=True)
            rules += self._candidates(clean("\n".join(without_info(block))), info=False)
            if rules or markers:
                self._lines_of(block, start, rules, markers)
        return self._hits

    def _candidates(self, text: str, *, info: bool) -> list[Rule]:
        """Rules without a hit so far of which some needle stands in the text."""
        present: dict[str, bool] = {}
        found = []
        for rule in self._rules.rules:
            if rule.info is not info or rule in self._hits:
                continue
            for needle in rule.needles:
                if needle not in present:
                    present[needle] = needle in text
                if present[needle]:
                    found.append(rule)
                    break
        return found

    def seen_fits(self, rule: Rule) -> bool:
        """Whether the markers seen so far allow the rule."""
        return self._seen.issuperset(rule.after) and self._seen.isdisjoint(rule.before)

    def _lines_of(
        self, block: Sequence[str], start: int, rules: Sequence[Rule], markers: Sequence[str]
    ) -> None:
        for number, raw in enumerate(block, start + 1):
            line = clean(raw)
            for name in markers:
                if self._rules.markers[name] in line:
                    self._seen.add(name)
                    if name == READY_MARKER and not self.ready_line_no:
                        self.ready_line_no = number
            if any(phrase in line for phrase in self._rules.harmless):
                continue
            info, warning = is_info(line), is_warning(line)
            for rule in rules:
                if (info and not rule.info) or (warning and not rule.may_warn):
                    continue
                if rule not in self._hits and any(needle in line for needle in rule.needles):
                    self._try(rule, number, line[:MAX_LINE_CHARS])

    def _try(self, rule: Rule, number: int, line: str) -> None:
        found = rule.match.search(line) if rule.match else None
        if (rule.match and not found) or (rule.excludes and rule.excludes.search(line)):
            return
        if not self.seen_fits(rule) or not self._near_fits(rule, number):
            return
        count = self._counts.get(id(rule), 0) + 1
        self._counts[id(rule)] = count
        if count >= rule.repeats:
            captured = found.groupdict() if found else {}
            self._hits[rule] = _Hit(number, {k: v for k, v in captured.items() if v is not None})

    def _near_fits(self, rule: Rule, number: int) -> bool:
        if rule.near is None and rule.not_near is None:
            return True
        above = list(self._lines[max(0, number - NEAR_LINES) : number])
        if rule.near is not None and not _any(rule.near, above):
            return False
        return rule.not_near is None or not _any(rule.not_near, above)


def _any(pattern: re.Pattern[str], lines: Sequence[str]) -> bool:
    return any(pattern.search(line) for line in lines)


def _exit_fits(rule: Rule, exit_text: str) -> bool:
    return rule.exit is None or rule.exit.search(exit_text) is not None


def _diagnosis(rule: Rule, lines: Sequence[str], hit: _Hit | None) -> Diagnosis:
    captured = dict(hit.captured) if hit else {}
    for name in rule.derive:
        value = DERIVATIONS[name].compute(captured)
        if value is not None:
            captured[DERIVATIONS[name].gives] = value
    finding = Finding(rule.id, tuple(sorted(captured.items())), fixes=rule.fixes)
    return Diagnosis(
        finding,
        rule.confidence,
        rule,
        Message(rule.text, dict(_filled(rule.text, captured))),
        Message(rule.next_step, dict(_filled(rule.next_step, captured))),
        hit.line_no if hit else None,
        clean(lines[hit.line_no - 1]) if hit else "",
    )


def _filled(text: str, captured: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Values of a text's fields; one that this version's message lacks is shown as unknown."""
    for name in re.findall(r"\{(\w+)\}", text):
        yield name, captured.get(name, UNKNOWN)


def _known(diagnosis: Diagnosis) -> Failure:
    rule = diagnosis.rule
    return Failure(
        diagnosis.text,
        diagnosis.next_step,
        finding_id=rule.id if rule.catalogued else "",
        confidence=diagnosis.confidence,
        root_cause_line=diagnosis.line[:MAX_LINE_CHARS],
        log_line_no=diagnosis.line_no,
        permanent=rule.permanent,
        params=diagnosis.finding.params,
        fixes=rule.fixes,
    )


def _unknown(lines: Sequence[str], exit_text: str, rules: Rules, ready_line_no: int) -> Failure:
    """Of a server that was ready, an error after that comes first."""
    root = find_root_cause(lines, rules, start=ready_line_no)
    if root is None and ready_line_no:
        root = find_root_cause(lines, rules)
    if root is None:
        return Failure(
            message(
                "The server ended by itself ({exit}); its log does not say why.", exit=exit_text
            ),
            message("Start it again; if it ends again, look at the last lines of the log."),
        )
    return Failure(
        message(
            "The server ended by itself ({exit}). The cause is not known; the first error in"
            " its log is: {line}",
            exit=exit_text,
            line=plain(root.line)[:300],
        ),
        message("Look at line {line_no} of the log and the lines above it.", line_no=root.line_no),
        root_cause_line=root.line[:MAX_LINE_CHARS],
        log_line_no=root.line_no,
    )
