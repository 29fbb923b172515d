"""One turn of a chat: the reply as it comes, apart from the model's thoughts, and its figures."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

from twinrig.domain.ports import Clock, HttpClient
from twinrig.messages import message
from twinrig.services.completions import (
    ChatEndpoint,
    ChatMessage,
    Piece,
    ReplyError,
    Usage,
    chat_body,
    stream_reply,
)
from twinrig.services.thinking import Part, PlainText, ThoughtSplitter

MAX_REPLY_CHARACTERS = 4_000_000
"""About a million tokens: what is longer is no reply but a server that does not end."""


@dataclass(frozen=True)
class ReplyFigures:
    """What a reply cost. ``generation_tps`` is without the time to the first token.

    ``counted``: tokens are the server's own count; else they are the pieces that came, which is
    too few where a piece holds several tokens. ``context_share`` is 0 to 1.
    """

    first_token_s: float | None = None
    generation_tps: float | None = None
    prompt_tokens: int | None = None
    generation_tokens: int = 0
    context_tokens: int | None = None
    counted: bool = False
    finish_reason: str = ""

    @property
    def context_share(self) -> float | None:
        """How much of the context the conversation fills now."""
        if not self.counted or not self.context_tokens:
            return None
        return ((self.prompt_tokens or 0) + self.generation_tokens) / self.context_tokens


class ReplyTimer:
    """Figures of one reply from the times of its pieces; readable at any time."""

    def __init__(self, started_s: float, context_tokens: int | None = None) -> None:
        self._started_s = started_s
        self._context_tokens = context_tokens
        self._first_s: float | None = None
        self._last_s = started_s
        self._pieces = 0
        self._counts: tuple[int, int] | None = None  # up to the first and up to the last text
        self._usage: Usage | None = None
        self._finish_reason = ""

    def note(self, piece: Piece, at_s: float) -> None:
        """One more piece, received at a monotonic time."""
        if piece.text or piece.thought:
            self._first_s = at_s if self._first_s is None else self._first_s
            self._last_s = at_s
            self._pieces += 1
            if piece.usage is not None:  # the server counts in the middle of the reply
                count = piece.usage.completion_tokens
                self._counts = (count if self._counts is None else self._counts[0], count)
        self._usage = piece.usage or self._usage
        self._finish_reason = piece.finish_reason or self._finish_reason

    @property
    def first_s(self) -> float | None:
        """Monotonic time of the first token."""
        return self._first_s

    @property
    def last_s(self) -> float:
        """Monotonic time of the last token."""
        return self._last_s

    def figures(self) -> ReplyFigures:
        """As of now."""
        usage = self._usage
        tokens = usage.completion_tokens if usage else self._pieces
        span_s = self._last_s - self._first_s if self._first_s is not None else 0.0
        return ReplyFigures(
            first_token_s=None if self._first_s is None else self._first_s - self._started_s,
            generation_tps=self._after_first(tokens) / span_s
            if tokens > 1 and span_s > 0
            else None,
            prompt_tokens=usage.prompt_tokens if usage else None,
            generation_tokens=tokens,
            context_tokens=self._context_tokens,
            counted=usage is not None,
            finish_reason=self._finish_reason,
        )

    def _after_first(self, tokens: int) -> int:
        """Tokens between the first text and the last. A first text may hold several tokens: bytes
        that made no whole character yet."""
        if self._counts is None or self._counts[1] <= self._counts[0]:
            return tokens - 1
        return self._counts[1] - self._counts[0]


class ChatTurn:
    """One reply to a conversation. Nothing is kept but figures: the text goes to the reader."""

    def __init__(
        self,
        http: HttpClient,
        clock: Clock,
        endpoint: ChatEndpoint,
        messages: Sequence[ChatMessage],
        options: Mapping[str, object] | None = None,
        *,
        max_characters: int = MAX_REPLY_CHARACTERS,
    ) -> None:
        self._http = http
        self._clock = clock
        self._endpoint = endpoint
        self._body = chat_body(endpoint.model_id, messages, options or {})
        self._limit = max_characters
        self._timer: ReplyTimer | None = None

    def figures(self) -> ReplyFigures:
        """Of what has come so far, also after a stop or a failure."""
        return ReplyFigures() if self._timer is None else self._timer.figures()

    async def parts(self) -> AsyncIterator[Part]:
        """The reply as it comes; close the iterator to stop it. Raises ReplyError."""
        timer = self._timer = ReplyTimer(self._clock.monotonic(), self._endpoint.context_tokens)
        splitter: ThoughtSplitter | PlainText = ThoughtSplitter()
        length = 0
        pieces = cast(
            AsyncGenerator[Piece, None], stream_reply(self._http, self._endpoint, self._body)
        )
        async with aclosing(pieces) as stream:
            async for piece in stream:
                timer.note(piece, self._clock.monotonic())
                length += len(piece.text) + len(piece.thought)
                if length > self._limit:
                    raise _endless(self._limit)
                if piece.thought:
                    for part in splitter.end():
                        yield part
                    splitter = PlainText()  # the server tells thoughts apart itself
                    yield Part(piece.thought, thought=True)
                for part in splitter.feed(piece.text) if piece.text else ():
                    yield part
        for part in splitter.end():
            yield part


def _endless(limit: int) -> ReplyError:
    return ReplyError(
        "reply-refused",
        message("The reply was stopped after {count} characters: it does not end.", count=limit),
        message("Set a limit for the length of replies, or raise the repetition penalty."),
    )
