"""What the Preflight page shows: one row per check, counts, a headline and a report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from twinrig.domain.checks import Check, CheckResult, Cost, Finding, Status
from twinrig.domain.wording import STATUS_WORDS
from twinrig.messages import N_, Message, Translator, message


class RowState(StrEnum):
    """NEW: never checked. RUNNING: asked, no answer yet. DONE: ``result`` is the answer.

    UNNEEDED: a whole run left it out, since it is about another engine.
    """

    NEW = "new"
    UNNEEDED = "unneeded"
    RUNNING = "running"
    DONE = "done"


ROW_WORDS: Mapping[RowState, str] = {
    RowState.NEW: N_("Not checked yet"),
    RowState.UNNEEDED: N_("Not needed here"),
    RowState.RUNNING: N_("Checking…"),
}

_HOME = re.compile(r"(/home/|/Users/|[A-Za-z]:\\Users\\)[^/\\\s:\"']+")


@dataclass(frozen=True)
class CheckRow:
    """One check as shown. ``result`` may be an older answer while RUNNING; ``area`` is the
    marked title of its section."""

    check_id: str
    title: str
    state: RowState = RowState.NEW
    result: CheckResult | None = None
    area: str = ""

    @property
    def word(self) -> str:
        """Marked sentence for the status column."""
        if self.state is RowState.DONE and self.result is not None:
            return STATUS_WORDS[self.result.status]
        return ROW_WORDS[self.state]

    @property
    def finding(self) -> Finding | None:
        """What a fix may be offered for: never for ERROR (could not tell) or SKIP."""
        if self.state is not RowState.DONE or self.result is None:
            return None
        if self.result.status not in (Status.FAIL, Status.WARN):
            return None
        return self.result.finding

    @property
    def fixable(self) -> bool:
        """Whether a fix button belongs on this row."""
        return self.finding is not None and bool(self.finding.fixes)


class Show(StrEnum):
    """Which rows are looked at."""

    ALL = "all"
    ATTENTION = "attention"
    UNCHECKED = "unchecked"


SHOW_WORDS: Mapping[Show, str] = {
    Show.ALL: N_("All checks"),
    Show.ATTENTION: N_("Only what needs attention"),
    Show.UNCHECKED: N_("Only what was not checked"),
}


class PreflightModel:
    """Rows in registry order. Methods return the indices of the rows that changed."""

    def __init__(self, checks: Sequence[Check], areas: Mapping[str, str] | None = None) -> None:
        titles = areas or {}
        self.rows: list[CheckRow] = [
            CheckRow(c.id, c.title, area=titles.get(c.id, "")) for c in checks
        ]
        self._slow = frozenset(c.id for c in checks if c.cost is Cost.SLOW)
        self.profile_name = ""

    @property
    def running(self) -> bool:
        """A run is going on."""
        return any(r.state is RowState.RUNNING for r in self.rows)

    def begin(self, ids: Sequence[str] | None = None) -> list[int]:
        """Mark the rows of a run (None = all but slow ones) as running."""
        wanted = {row.check_id for row in self.rows} - self._slow if ids is None else set(ids)
        changed = [i for i, row in enumerate(self.rows) if row.check_id in wanted]
        for i in changed:
            self.rows[i] = replace(self.rows[i], state=RowState.RUNNING)
        return changed

    def accept(self, result: CheckResult) -> int:
        """Take one answer; a check that is not listed gets a row of its own at the end."""
        for i, row in enumerate(self.rows):
            if row.check_id == result.check_id:
                self.rows[i] = replace(row, state=RowState.DONE, result=result)
                return i
        self.rows.append(CheckRow(result.check_id, result.check_id, RowState.DONE, result))
        return len(self.rows) - 1

    def end(self, *, complete: bool = False) -> list[int]:
        """The run is over (or was cancelled): rows without an answer go back to what they were.

        After a cancelled run an older answer stays; a row that never had one reads as not
        checked, not as fine. A ``complete`` run has left out what is not about the profile.
        """
        changed = [i for i, row in enumerate(self.rows) if row.state is RowState.RUNNING]
        for i in changed:
            row = self.rows[i]
            if complete:
                self.rows[i] = replace(row, state=RowState.UNNEEDED, result=None)
                continue
            state = RowState.NEW if row.result is None else RowState.DONE
            self.rows[i] = replace(row, state=state)
        return changed

    def counts(self) -> dict[Status, int]:
        """How many rows have which status; rows without an answer count for none."""
        counts = dict.fromkeys(Status, 0)
        for row in self.rows:
            if row.state is RowState.DONE and row.result is not None:
                counts[row.result.status] += 1
        return counts

    def shown(self, row: CheckRow, show: Show) -> bool:
        """Whether a row passes the filter; one that is being asked always does."""
        if show is Show.ALL or row.state is RowState.RUNNING:
            return True
        result = row.result if row.state is RowState.DONE else None
        if show is Show.UNCHECKED:
            return result is None or result.status is Status.SKIP
        return result is not None and result.status in (Status.FAIL, Status.WARN, Status.ERROR)

    def results(self) -> tuple[CheckResult, ...]:
        """The answers that are there, in the order of the rows."""
        done = [row.result for row in self.rows if row.state is RowState.DONE]
        return tuple(result for result in done if result is not None)

    def headline(self) -> Message:
        """One sentence over the list; it never says "fine" while something is unknown."""
        if self.running:
            done = sum(r.state is not RowState.RUNNING for r in self.rows)
            return message("Checking… {done} of {count}", done=done, count=len(self.rows))
        counts = self.counts()
        if not any(counts.values()):
            return message("Nothing has been checked yet. Checks only look, they change nothing.")
        if counts[Status.FAIL]:
            return message("Something needs your attention before a server can run well.")
        if counts[Status.ERROR]:
            return message("No problem was found, but some checks could not tell.")
        if counts[Status.WARN]:
            return message("A server can run. Some things could be better.")
        if any(r.state is RowState.NEW for r in self.rows):
            return message("No problem so far. Some checks have not run yet.")
        return message("Everything that was checked is fine.")

    def first_problem(self) -> int | None:
        """Row to select after a run: the first failure, else warning, else unknown."""
        for status in (Status.FAIL, Status.WARN, Status.ERROR):
            for i, row in enumerate(self.rows):
                if row.state is RowState.DONE and row.result and row.result.status is status:
                    return i
        return None

    def report(self, translator: Translator, about: str) -> str:
        """Plain text for a forum or an issue; user names in paths are blotted out."""
        tr = translator.text
        parts = [tr(N_("Twinrig preflight report")), about, ""]
        area = ""
        for row in self.rows:
            if row.area and row.area != area:
                area = row.area
                parts.append(f"== {tr(area)}")
            parts.append(_report_row(row, translator))
        return redact("\n".join(parts).rstrip() + "\n")


def _report_row(row: CheckRow, translator: Translator) -> str:
    tr = translator.text
    lines = [f"[{tr(row.word)}] {tr(row.title)} ({row.check_id})"]
    result = row.result if row.state is RowState.DONE else None
    if result is not None:
        lines.append("    " + tr(result.summary))
        if result.finding is not None:
            lines.append("    " + tr(N_("Finding: {id}"), id=result.finding.id))
        for piece in result.evidence:
            lines.append("    $ " + piece.source)
            lines.extend("      " + line for line in piece.text.splitlines())
    return "\n".join(lines)


def redact(text: str) -> str:
    """Blot out user names in home paths of Linux, macOS and Windows."""
    return _HOME.sub(r"\1***", text)
