"""The cause of a failure and the other ones that would fit, one after the other."""

from __future__ import annotations

from twinrig.domain.supervision import Candidate, Failure


class Causes:
    """``current`` is what is shown; ``turn`` goes to the next candidate and round again."""

    def __init__(self) -> None:
        self._failure: Failure | None = None
        self._number = 0

    def show(self, failure: Failure | None) -> None:
        """Another failure begins with its best cause; the same one stays where it was."""
        if failure != self._failure:
            self._failure, self._number = failure, 0

    @property
    def current(self) -> Failure | None:
        """The cause that is looked at, in the form of a failure."""
        if self._failure is None or self._number == 0:
            return self._failure
        return _as_failure(self._failure.others[self._number - 1])

    @property
    def count(self) -> int:
        """How many causes there are."""
        return 0 if self._failure is None else 1 + len(self._failure.others)

    @property
    def number(self) -> int:
        """1-based place of the current one."""
        return self._number + 1

    def turn(self) -> None:
        """Not this: the next one, please."""
        if self.count > 1:
            self._number = (self._number + 1) % self.count

    def decisive_lines(self) -> tuple[int, ...]:
        """Line numbers that any of the causes stands on, to be marked in the log."""
        if self._failure is None:
            return ()
        causes = (self._failure, *self._failure.others)
        return tuple(sorted({c.log_line_no for c in causes if c.log_line_no is not None}))


def _as_failure(other: Candidate) -> Failure:
    return Failure(
        other.text,
        other.next_step,
        finding_id=other.finding_id,
        confidence=other.confidence,
        root_cause_line=other.root_cause_line,
        log_line_no=other.log_line_no,
        params=other.params,
        fixes=other.fixes,
    )
