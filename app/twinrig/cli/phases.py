"""A server on its way up, told line by line: phase, progress, elapsed and expected time."""

from __future__ import annotations

from collections.abc import Callable

from twinrig.cli.format import duration
from twinrig.cli.terminal import Terminal
from twinrig.cli.text_width import clip
from twinrig.domain.server import Phase, ServerState
from twinrig.domain.supervision import PhaseTime, ServerRecord
from twinrig.domain.wording import PHASE_WORDS, STATE_WORDS
from twinrig.messages import Message, message

_REPEAT_S = 10.0


def phase_line(terminal: Terminal, phase: PhaseTime, now_s: float) -> str:
    """``Loading weights 42 % 0:12 / about 0:30``."""
    parts = [terminal.text(PHASE_WORDS[phase.phase])]
    if phase.progress is not None:
        parts.append(f"{int(phase.progress * 100)} %")
    parts.append(duration(now_s - phase.started_at_s))
    if phase.expected_s is not None:
        parts.append(
            terminal.text(message("/ about {time}", time=duration(max(1, phase.expected_s))))
        )
    return " ".join(parts)


class PhaseFollower:
    """Give it each record; it rewrites one line on a terminal, and adds lines elsewhere."""

    def __init__(self, terminal: Terminal, now: Callable[[], float]) -> None:
        self._terminal = terminal
        self._now = now
        self._shown: tuple[ServerState, Phase | None] | None = None
        self._said_at_s = 0.0
        self._open_line = ""

    def __call__(self, record: ServerRecord) -> None:
        phase = record.phases[-1] if record.phases else None
        key = (record.state, phase.phase if phase else None)
        text = self._text(record, phase)
        if self._terminal.moves_cursor:
            self._rewrite(text, finish=self._shown is not None and key != self._shown)
        elif key != self._shown or self._now() - self._said_at_s >= _REPEAT_S:
            self._terminal.line(text)
            self._said_at_s = self._now()
        self._shown = key

    def done(self) -> None:
        """End the line that was being rewritten."""
        if self._open_line:
            self._terminal.write("\n")
            self._open_line = ""

    def _rewrite(self, text: str, *, finish: bool) -> None:
        if finish:
            self.done()
        text = clip(text, self._terminal.width - 1)
        if text != self._open_line:
            self._terminal.write("\r\x1b[K" + text)
            self._open_line = text

    def _text(self, record: ServerRecord, phase: PhaseTime | None) -> str:
        if record.state is ServerState.BACKOFF and record.next_restart_at_s is not None:
            wait = duration(record.next_restart_at_s - self._now())
            return self._terminal.text(
                message(
                    "Restart in {time} after {reason} (restarts so far: {count})",
                    time=wait,
                    reason=record.last_exit or "-",
                    count=record.restarts,
                )
            )
        if phase is None or record.state not in (ServerState.STARTING, ServerState.LOADING):
            return self._terminal.text(Message(STATE_WORDS[record.state]))
        return phase_line(self._terminal, phase, self._now())
