"""One streamed reply of a benchmark: when its tokens came, by the server's own count."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from twinrig.services.completions import Piece, ReplyError, Usage

LATE_S = 0.02
"""A first piece that came so long after its token was made holds others made meanwhile."""


@dataclass(frozen=True)
class Stream:
    """One request of a round; ``error`` None: it went well. Times are monotonic.

    ``first_tokens``: tokens that had come with the first piece. A server that does not count in
    the middle of a reply is taken to put equally many into each piece.
    """

    first_s: float | None
    last_s: float
    prompt_tokens: int
    tokens: int
    first_tokens: float
    text: str
    error: ReplyError | None = None

    def after_first(self, late_s: float) -> float:
        """Tokens made after the first one, which was made ``late_s`` before its piece came."""
        return self.tokens - (min(1.0, self.first_tokens) if late_s > LATE_S else self.first_tokens)

    def tps(self, late_s: float) -> float | None:
        """Tokens per second from the first token to the last piece."""
        if self.first_s is None:
            return None
        span_s, tokens = self.last_s - self.first_s + late_s, self.after_first(late_s)
        return tokens / span_s if span_s > 0 and tokens > 0 else None


class StreamTally:
    """Collects a stream from its pieces.

    A token counts when the server has counted it, not when its text comes: bytes that make no
    whole character yet are held back, for dozens of tokens with some models.
    """

    def __init__(self, started_s: float) -> None:
        self._first_s: float | None = None
        self._last_s = started_s
        self._counts = array("q")
        self._texts: list[str] = []
        self._usage: Usage | None = None
        self._pieces = 0
        self._counting = False

    def note(self, piece: Piece, at_s: float) -> None:
        """One more piece, received at a monotonic time."""
        told = piece.usage.completion_tokens if piece.usage else 0
        if not self._pieces:  # a server that counts meanwhile does so from its first piece on
            self._counting = piece.usage is not None
        self._pieces += 1
        before = self._usage.completion_tokens if self._usage else 0
        text = piece.text or piece.thought
        if text or (self._counting and told > before):
            self._first_s = at_s if self._first_s is None else self._first_s
            self._last_s = at_s
            self._counts.append(told if self._counting else 0)
        if text:
            self._texts.append(text)
        self._usage = piece.usage or self._usage

    def stream(self, error: ReplyError | None = None) -> Stream:
        """As of now."""
        usage = self._usage
        tokens = usage.completion_tokens if usage else len(self._counts)
        return Stream(
            self._first_s,
            self._last_s,
            usage.prompt_tokens if usage else 0,
            tokens,
            self._first_tokens(tokens),
            "".join(self._texts),
            error,
        )

    def _first_tokens(self, tokens: int) -> float:
        if not self._counts:
            return 0.0
        return float(self._counts[0]) if self._counting else tokens / len(self._counts)
