"""A streaming chat client of the standard library: what a user's chat window does."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any


class StreamingClient(threading.Thread):
    """Sends chats one after the other until ``stop`` and counts tokens by the server's usage."""

    def __init__(
        self, port: int, model: str, *, max_tokens: int = 400, counting: bool = False
    ) -> None:
        super().__init__(daemon=True)
        self._counting = counting
        self.port, self.model, self.max_tokens = port, model, max_tokens
        self.tokens = 0
        self.under_way = 0  # tokens of the reply that is being written, while ``counting``
        self.replies = 0
        self.faults: list[str] = []
        self._halt = threading.Event()

    def stop(self) -> None:
        """End after the reply that is under way."""
        self._halt.set()

    def run(self) -> None:
        while not self._halt.is_set():
            try:
                seen = self._saw if self._counting else None
                self.tokens += stream_chat(self.port, self.model, self.max_tokens, seen=seen)
                self.replies += 1
            except (OSError, ValueError, http.client.HTTPException) as error:
                self.faults.append(repr(error))
                return

    def _saw(self, tokens: int) -> None:
        self.under_way = tokens


def stream_chat(
    port: int,
    model: str,
    max_tokens: int,
    *,
    timeout_s: float = 120.0,
    seen: Callable[[int], None] | None = None,
) -> int:
    """Completion tokens of one streamed reply; ``seen`` is told how many came so far.

    Raises ValueError for an error in the stream.
    """
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Tell me about two cards."}],
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": seen is not None},
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request(
            "POST",
            "/v1/chat/completions",
            json.dumps(body),
            {"Content-Type": "application/json"},
        )
        reply = connection.getresponse()
        if reply.status != 200:
            raise ValueError(f"status {reply.status}: {reply.read(300)!r}")
        return _usage(reply, seen)
    finally:
        connection.close()


def _usage(reply: http.client.HTTPResponse, seen: Callable[[int], None] | None) -> int:
    tokens = -1
    for line in reply:
        if not line.startswith(b"data: ") or line.strip() == b"data: [DONE]":
            continue
        chunk: dict[str, Any] = json.loads(line[6:])
        if "error" in chunk:
            raise ValueError(f"error in the stream: {chunk['error']}")
        if chunk.get("usage"):
            tokens = int(chunk["usage"]["completion_tokens"])
            if seen is not None:
                seen(tokens)
    if tokens < 0:
        raise ValueError("the stream ended without usage")
    return tokens


def counter(port: int, name: str) -> float:
    """Sum of a counter's series as the server's own metrics page says."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        text = reply.read().decode()
    rows = [line for line in text.splitlines() if line.startswith(name + "{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in rows)


def answers(port: int) -> bool:
    """Whether the server gives a real reply now."""
    try:
        return stream_chat(port, "tiny", 4, timeout_s=30) == 4
    except (OSError, ValueError, http.client.HTTPException):
        return False


def settle(port: int, name: str, timeout_s: float = 20.0) -> float:
    """The counter's value once it has stood still for two seconds."""
    last, since = counter(port, name), time.monotonic()
    deadline = since + timeout_s
    while time.monotonic() - since < 2.0 and time.monotonic() < deadline:
        time.sleep(0.5)
        now = counter(port, name)
        if now != last:
            last, since = now, time.monotonic()
    return last
