"""One streamed reply of an OpenAI-style server in pieces, and words for every way it can fail."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

from twinrig.domain.errors import HostError, HttpFaultError, TwinrigError
from twinrig.domain.ports import HttpClient
from twinrig.messages import Message, message

CHAT_PATH = "/v1/chat/completions"
SILENCE_S = 300.0
"""A long prompt is read in silence; only a longer one counts as a server that hangs."""

_EXCERPT_CHARACTERS = 300
_TOO_LONG = re.compile(r"context length|max_model_len|max_seq_len|too long|too many tokens", re.I)


@dataclass(frozen=True)
class ChatMessage:
    """``role`` is "system", "user" or "assistant"."""

    role: str
    text: str


@dataclass(frozen=True)
class ChatEndpoint:
    """A server that answers. ``base_url`` without ``/v1``; ``context_tokens`` None = not known."""

    base_url: str
    model_id: str
    key: str | None = field(default=None, repr=False)
    context_tokens: int | None = None


@dataclass(frozen=True)
class Usage:
    """What the server counted for one request."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True)
class Piece:
    """What one event of the stream says; most say one thing only."""

    text: str = ""
    thought: str = ""
    finish_reason: str = ""
    usage: Usage | None = None


class ReplyError(TwinrigError):
    """A reply that failed; ``finding_id`` tells the kinds apart, ``retry_after_s`` when to retry.

    Ids: ``reply-key-refused``, ``reply-model-unknown``, ``reply-too-long``, ``reply-refused``,
    ``reply-busy``, ``reply-server-failed``, ``reply-broken-off``, ``reply-stopped``,
    ``reply-cut``, ``reply-unreachable``, ``reply-unreadable``.
    """

    def __init__(
        self,
        finding_id: str,
        text: Message,
        next_step: Message | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(text, next_step, finding_id=finding_id)
        self.retry_after_s = retry_after_s


def chat_body(
    model_id: str, messages: Sequence[ChatMessage], options: Mapping[str, object]
) -> dict[str, object]:
    """The request for one streamed reply with the server's own counts: at its end, and where the
    server can, in its middle."""
    return {
        "model": model_id,
        "messages": [{"role": m.role, "content": m.text} for m in messages],
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        **options,
    }


async def stream_reply(
    http: HttpClient,
    endpoint: ChatEndpoint,
    body: Mapping[str, object],
    *,
    silence_s: float = SILENCE_S,
) -> AsyncIterator[Piece]:
    """Pieces as they come. Closing the iterator hangs up, and the server drops the request.

    Raises ReplyError for everything that is not a whole reply, the cut stream included.
    """
    whole = False
    events = http.stream_events(
        endpoint.base_url + CHAT_PATH, body, timeout_s=silence_s, token=endpoint.key
    )
    try:
        async with aclosing(cast(AsyncGenerator[str, None], events)) as stream:
            async for event in stream:
                if event.strip() == "[DONE]":
                    return
                piece = read_piece(event)
                if piece.finish_reason:
                    whole = True
                    _refuse_abort(piece.finish_reason)
                yield piece
    except HttpFaultError as error:
        raise _refusal(error, endpoint.model_id) from error
    except HostError as error:
        raise ReplyError("reply-unreachable", error.text, error.next_step) from error
    if not whole:
        raise ReplyError(
            "reply-cut",
            message("The reply was cut off: the connection ended before the server was done."),
            message("See whether the server still runs, then ask again."),
        )


def read_piece(event: str) -> Piece:
    """One event. Raises ReplyError for an error object and for what is no JSON object."""
    try:
        data = json.loads(event)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise ReplyError(
            "reply-unreadable",
            message("The server sent something that is no reply: {text}", text=_excerpt(event)),
            message("Check that the address is that of a model server."),
        )
    if data.get("error"):
        raise ReplyError(
            "reply-broken-off",
            message("The server broke the reply off: {reason}", reason=reason_of(data)),
            message("Look into the log of the server."),
        )
    choice = _first(data.get("choices"))
    delta = choice.get("delta") or choice.get("message") or {}
    delta = delta if isinstance(delta, Mapping) else {}
    return Piece(
        _text(delta.get("content")),
        _text(delta.get("reasoning_content")) or _text(delta.get("reasoning")),
        _text(choice.get("finish_reason")),
        _usage(data.get("usage")),
    )


def reason_of(data: object) -> str:
    """The server's own words for a fault, from any of the forms in use."""
    if isinstance(data, Mapping):
        for name in ("error", "message", "detail"):
            if data.get(name):
                return reason_of(data[name])
    return _excerpt(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False))


def _refuse_abort(reason: str) -> None:
    if reason == "abort":
        raise ReplyError(
            "reply-stopped",
            message("The server was stopped, or dropped the request, in the middle of the reply."),
            message("See whether the server still runs, then ask again."),
        )
    if reason == "error":
        raise ReplyError(
            "reply-broken-off",
            message("The server broke the reply off: {reason}", reason=reason),
            message("Look into the log of the server."),
        )


def _refusal(error: HttpFaultError, model_id: str) -> ReplyError:
    reason = _reason_in(error.body) or str(error.status)
    if error.status in (401, 403):
        return ReplyError(
            "reply-key-refused",
            message("The server refuses the key."),
            message("Enter the key of this server again in its profile."),
        )
    if error.status == 404:
        return ReplyError(
            "reply-model-unknown",
            message(
                "The server does not know the model {model}: {reason}",
                model=model_id,
                reason=reason,
            ),
            message("Restart the server, so that it serves what its profile says."),
        )
    if error.status in (408, 429):
        return _busy(error.retry_after_s)
    if error.status < 500:
        return _refused_request(reason)
    return ReplyError(
        "reply-server-failed",
        message(
            "The server failed (status {status}): {reason}", status=error.status, reason=reason
        ),
        message("Look into the log of the server."),
        error.retry_after_s,
    )


def _busy(retry_after_s: float | None) -> ReplyError:
    step = message("Wait a little, then ask again.")
    if retry_after_s is not None:
        step = message(
            "Ask again in {seconds} s; so the server says.", seconds=round(retry_after_s)
        )
    text = message("The server is busy and takes no more requests.")
    return ReplyError("reply-busy", text, step, retry_after_s)


def _refused_request(reason: str) -> ReplyError:
    if _TOO_LONG.search(reason):
        return ReplyError(
            "reply-too-long",
            message(
                "The conversation does not fit into the server's context: {reason}", reason=reason
            ),
            message("Begin a new conversation, shorten it, or raise the context length."),
        )
    return ReplyError(
        "reply-refused",
        message("The server refuses the request: {reason}", reason=reason),
        message("Change what was asked for, such as the sampling values."),
    )


def _reason_in(body: str) -> str:
    try:
        return reason_of(json.loads(body))
    except (ValueError, RecursionError):
        return _excerpt(body)


def _excerpt(text: str) -> str:
    line = " ".join(text[: 4 * _EXCERPT_CHARACTERS].split())
    return line if len(line) <= _EXCERPT_CHARACTERS else line[:_EXCERPT_CHARACTERS] + "…"


def _first(choices: Any) -> Mapping[str, Any]:
    if isinstance(choices, Sequence) and choices and isinstance(choices[0], Mapping):
        return choices[0]
    return {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, Mapping):
        return None
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return Usage(
        _count(value.get("prompt_tokens")), _count(value.get("completion_tokens")), _count(cached)
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
