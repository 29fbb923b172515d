"""The output of one run: to the log file, into memory for a diagnosis, and as load phases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from twinrig.domain.ports import ExitStatus
from twinrig.domain.supervision import Failure
from twinrig.engines.base import PhaseEvent
from twinrig.messages import message
from twinrig.supervisor.lines import LineMemory, LineSplitter
from twinrig.supervisor.log_writer import LogWriter
from twinrig.supervisor.masking import SecretMask
from twinrig.supervisor.own_log import OwnLog

Explain = Callable[[Sequence[str], ExitStatus], Failure]


class RunOutput:
    """``feed`` is called with each chunk; ``on_phase`` hears of phases until ``loading`` is off.

    ``secrets`` are masked before anything else sees the output. ``on_line`` hears every line.
    """

    def __init__(
        self,
        writer: LogWriter,
        phase_of: Callable[[str], PhaseEvent | None],
        on_phase: Callable[[PhaseEvent], None],
        secrets: Sequence[str] = (),
        on_line: Callable[[str], None] = lambda _line: None,
    ) -> None:
        writer.begin_run()
        self._writer = writer
        self._splitter = LineSplitter()
        self._memory = LineMemory()
        self._phase_of = phase_of
        self._on_phase = on_phase
        self._mask = SecretMask(secrets)
        self._on_line = on_line
        self.loading = True

    def feed(self, chunk: bytes) -> None:
        """Any bytes."""
        self._store(self._mask.feed(chunk))

    def _store(self, safe: bytes) -> None:
        if safe:
            self._writer.write(safe)
            self._take(self._splitter.feed(safe))

    def end(self) -> None:
        """No more output will come."""
        self._store(self._mask.finish())

    def explain(self, rules: Explain, status: ExitStatus, log: OwnLog) -> Failure:
        """The cause of an exit; a fault in the rules costs the explanation, not the restart."""
        self._take(self._splitter.finish())
        self._writer.flush()
        try:
            failure = rules(self._memory.lines(), status)
        except Exception as error:  # noqa: BLE001 whatever the rules raise, the server must be kept
            log.say(f"the diagnosis itself failed: {error!r}")
            failure = Failure(
                message("The server ended with {exit}.", exit=str(status)),
                message("Look at the log for the reason."),
            )
        return replace(failure, log_line_no=self._in_file(failure.log_line_no))

    def _in_file(self, index: int | None) -> int | None:
        if index is None or index < 1:
            return None
        line_no = self._memory.line_no(index) - self._writer.lines_before_file
        return line_no if line_no > 0 else None

    def _take(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._memory.add(line)
            self._on_line(line)
            if self.loading and (event := self._phase_of(line)) is not None:
                self._on_phase(event)
