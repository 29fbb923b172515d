"""Asks Windows what the checks want to know, each question guarded and with a time-out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from twinrig.domain.checks import ProbeOutput
from twinrig.domain.errors import TwinrigError

Question = Callable[[str], str]
"""Takes the server's HOST:PORT ("" = none) and gives the answer's text. May raise anything of
OSError, ValueError and TwinrigError."""

TIMEOUT_S = 6.0


class WindowsMachine:
    """``WindowsFacts``. Questions are asked at the same time; one that hangs costs itself only."""

    def __init__(self, questions: Mapping[str, Question], *, timeout_s: float = TIMEOUT_S) -> None:
        self._questions = dict(questions)
        self._timeout_s = timeout_s

    def answer(self, names: Sequence[str], endpoint: str = "") -> Mapping[str, ProbeOutput]:
        """An answer for each name; return code 3 for a name that nobody knows."""
        asked = [_Asked(name, self._questions.get(name), endpoint) for name in names]
        deadline = time.monotonic() + self._timeout_s
        for one in asked:
            one.start()
        return {one.name: one.result(deadline) for one in asked}


class _Asked:
    """One question on a thread of its own: a library that hangs cannot be ended."""

    def __init__(self, name: str, question: Question | None, endpoint: str) -> None:
        self.name = name
        self._question = question
        self._endpoint = endpoint
        self._output: ProbeOutput | None = None
        self._thread = threading.Thread(target=self._ask, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def result(self, deadline: float) -> ProbeOutput:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return self._output or ProbeOutput(self.name, None, "", timed_out=True)

    def _ask(self) -> None:
        if self._question is None:
            self._output = ProbeOutput(self.name, 3, "", "no such question\n")
            return
        try:
            self._output = ProbeOutput(self.name, 0, self._question(self._endpoint))
        except (OSError, ValueError, AttributeError, TwinrigError) as error:
            # AttributeError: an older Windows lacks a function of a library.
            self._output = ProbeOutput(self.name, 1, "", f"{type(error).__name__}: {error}\n")
