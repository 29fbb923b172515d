"""The little HTTP/1.1 that the demo server speaks, on asyncio streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

MAX_HEADER_BYTES = 64 * 1024
MAX_BODY_BYTES = 16 * 1024 * 1024


class HttpFault(Exception):
    """A request that is answered with an error status. ``body`` is a JSON object."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body


def fault(status: int, text: str, kind: str = "BadRequestError", param: str = "") -> HttpFault:
    """An error of the OpenAI form."""
    error = {"message": text, "type": kind, "param": param or None, "code": status}
    return HttpFault(status, {"error": error})


@dataclass(frozen=True)
class Request:
    """One request with its whole body; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    keep_alive: bool

    def json(self) -> Mapping[str, Any]:
        """The body as a JSON object. Raises HttpFault (400)."""
        try:
            data = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise fault(400, f"The body is not valid JSON: {error}") from error
        if not isinstance(data, dict):
            raise fault(400, "The body is not a JSON object.")
        return data


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request; None when the client has closed the connection. Raises HttpFault."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError as error:
        raise fault(431, "The headers are too large.") from error
    first, *rest = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise fault(400, "This is not an HTTP/1 request.")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in rest)
    }
    body = await _read_body(reader, headers)
    default = "close" if parts[2] == "HTTP/1.0" else "keep-alive"
    keep_alive = headers.get("connection", default).lower() != "close" and default != "close"
    return Request(parts[0], parts[1].partition("?")[0], headers, body, keep_alive)


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "transfer-encoding" in headers:
        raise fault(411, "The demo server wants a Content-Length.")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()):
        raise fault(400, "The Content-Length is not a number.")
    if int(length) > MAX_BODY_BYTES:
        raise fault(413, "The body is too large.")
    try:
        return await reader.readexactly(int(length))
    except asyncio.IncompleteReadError as error:
        raise fault(400, "The body ended early.") from error


class Reply:
    """Answers one request, whole or as a stream. ``gone`` tells that the client hung up."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keep_alive: bool
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.keep_alive = keep_alive
        self.started = False

    @property
    def gone(self) -> bool:
        """The client closed its side; nobody reads the rest."""
        return self._reader.at_eof() or self._writer.is_closing()

    async def send(self, status: int, body: bytes, content_type: str) -> None:
        """The whole answer at once."""
        self._head(status, content_type, f"Content-Length: {len(body)}")
        self._writer.write(body)
        await self._writer.drain()

    async def send_json(self, status: int, body: Any) -> None:
        """A JSON answer."""
        data = json.dumps(body, ensure_ascii=False).encode("utf-8")
        await self.send(status, data, "application/json")

    async def begin_events(self) -> None:
        """Start a stream of events."""
        self._head(200, "text/event-stream; charset=utf-8", "Transfer-Encoding: chunked")
        await self._writer.drain()

    async def event(self, data: Any) -> None:
        """One event; text goes as it is, everything else as JSON."""
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        self._chunk(f"data: {text}\n\n".encode())
        await self._writer.drain()

    async def end_events(self) -> None:
        """End the stream."""
        self._chunk(b"")
        await self._writer.drain()

    def _head(self, status: int, content_type: str, framing: str) -> None:
        self.started = True
        connection = "keep-alive" if self.keep_alive else "close"
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
            f"Content-Type: {content_type}\r\n{framing}\r\nConnection: {connection}\r\n"
            "Server: twinrig-demo\r\n\r\n"
        )
        self._writer.write(head.encode("latin-1"))

    def _chunk(self, data: bytes) -> None:
        self._writer.write(f"{len(data):x}\r\n".encode("ascii") + data + b"\r\n")
