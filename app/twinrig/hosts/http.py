"""HTTP for the core on httpx, the only module that knows httpx.

Loopback addresses never go through a proxy; other addresses follow the user's proxy settings.
httpx is imported on first use, since it costs a third of a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from twinrig.domain.errors import HostError, HttpFaultError
from twinrig.domain.ports import HttpResponse
from twinrig.messages import Message, message

if TYPE_CHECKING:
    import httpx

MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_EVENT_BYTES = 4 * 1024 * 1024
CONNECT_TIMEOUT_S = 5.0


class HttpxClient:
    """``domain.ports.HttpClient``. Connections are kept and reused within one event loop.

    A command that runs one loop after the other gets new connections in each.
    """

    def __init__(self) -> None:
        self._clients: dict[bool, httpx.AsyncClient] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def get(self, url: str, *, timeout_s: float, token: str | None = None) -> HttpResponse:
        """GET the whole body. ``timeout_s`` bounds the whole exchange, slow bodies included."""
        return await self._exchange("GET", url, None, timeout_s, token)

    async def post_json(
        self, url: str, body: Mapping[str, object], *, timeout_s: float, token: str | None = None
    ) -> HttpResponse:
        """POST one JSON object. ``timeout_s`` bounds the whole exchange."""
        return await self._exchange("POST", url, body, timeout_s, token)

    async def stream_events(
        self, url: str, body: Mapping[str, object], *, timeout_s: float, token: str | None = None
    ) -> AsyncIterator[str]:
        """Data of each event, in order, ``[DONE]`` and error objects included.

        ``timeout_s`` bounds each silence, not the whole stream. A status other than 200 raises
        HttpFaultError with what the server said.
        """
        client = self._client(url)
        with _translated(url):
            request = client.build_request(
                "POST", url, json=dict(body), headers=_headers(token), timeout=_timeout(timeout_s)
            )
            response = await client.send(request, stream=True)
            try:
                if response.status_code != 200:
                    raise await _fault(response, url)
                events = SseParser()
                async for chunk in response.aiter_bytes():
                    for event in events.feed(chunk):
                        yield event
                for event in events.end():
                    yield event
            finally:
                await response.aclose()

    async def close(self) -> None:
        """Close all connections; safe to call twice, and the client may be used again after."""
        clients, self._clients = list(self._clients.values()), {}
        if self._loop is not asyncio.get_running_loop():
            return  # their loop is gone, and with it their connections
        for client in clients:
            await client.aclose()

    async def _exchange(
        self,
        method: str,
        url: str,
        body: Mapping[str, object] | None,
        timeout_s: float,
        token: str | None,
    ) -> HttpResponse:
        client = self._client(url)
        json = None if body is None else dict(body)
        with _translated(url):
            async with (
                asyncio.timeout(timeout_s),
                client.stream(
                    method, url, json=json, headers=_headers(token), timeout=_timeout(timeout_s)
                ) as response,
            ):
                return HttpResponse(response.status_code, await _bounded(response, url))

    def _client(self, url: str) -> httpx.AsyncClient:
        import httpx

        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._clients, self._loop = {}, loop
        loopback = is_loopback(url)
        if loopback not in self._clients:
            self._clients[loopback] = httpx.AsyncClient(
                trust_env=not loopback,
                follow_redirects=False,
                limits=httpx.Limits(max_connections=64, max_keepalive_connections=8),
            )
        return self._clients[loopback]


class SseParser:
    """Server-sent events from chunks cut anywhere: CR, LF or CRLF, several data lines an event.

    Comments, ``event``, ``id`` and ``retry`` fields are skipped; UTF-8, damage is replaced.
    """

    def __init__(self, limit_bytes: int = MAX_EVENT_BYTES) -> None:
        self._buffer = b""
        self._data: list[str] = []
        self._size = 0
        self._limit = limit_bytes
        self._first = True

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Events that are complete by now. Raises HostError for an endless event."""
        self._buffer += chunk
        # A trailing CR may be half a CRLF: keep it for the next chunk.
        usable = len(self._buffer) - (1 if self._buffer.endswith(b"\r") else 0)
        lines = self._buffer[:usable].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._buffer = lines.pop() + self._buffer[usable:]
        for line in lines:
            event = self._line(line)
            if event is not None:
                yield event
        if self._size + len(self._buffer) > self._limit:
            raise HostError(
                message("The server sent an event of more than {limit} bytes.", limit=self._limit),
                message("Look into the log of the server."),
            )

    def end(self) -> Iterator[str]:
        """The last event of a stream that was cut off before its blank line, if any."""
        for line in (self._buffer.rstrip(b"\r"), b""):
            event = self._line(line) if line or self._data else None
            if event is not None:
                yield event
        self._buffer = b""

    def _line(self, line: bytes) -> str | None:
        if self._first:
            line, self._first = line.removeprefix(b"\xef\xbb\xbf"), False
        if not line:
            data, self._data, self._size = self._data, [], 0
            return "\n".join(data) if data else None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._size += len(value)
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        return None


def is_loopback(url: str) -> bool:
    """Whether the URL names this computer (the WSL distro's forwarded ports included)."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
        if host == "localhost" or host.endswith(".localhost"):
            return True
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _headers(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _timeout(timeout_s: float) -> httpx.Timeout:
    import httpx

    return httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))


async def _bounded(response: httpx.Response, url: str) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise HostError(
                message("{url} answers with more than {limit} bytes.", url=url, limit=size),
                message("Check that the address is that of a model server."),
            )
        parts.append(chunk)
    return b"".join(parts)


async def _fault(response: httpx.Response, url: str) -> HttpFaultError:
    body = (await _bounded(response, url)).decode("utf-8", "replace").strip()
    wait = response.headers.get("Retry-After", "").strip()  # a date is left out: servers send s
    seconds = float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 7 else None
    return HttpFaultError(url, response.status_code, body, seconds)


@contextlib.contextmanager
def _translated(url: str) -> Iterator[None]:
    """Errors of httpx, of sockets and of time as HostError."""
    import httpx

    try:
        yield
    except TimeoutError as error:
        raise _timed_out(url) from error
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
        raise _host_error(url, error) from error


def _timed_out(url: str) -> HostError:
    return HostError(
        message("{url} did not answer in time.", url=url),
        message("The server may be busy or hang: look into its log, and try again."),
    )


def _host_error(url: str, error: Exception) -> HostError:
    import httpx

    if isinstance(error, httpx.TimeoutException):
        return _timed_out(url)
    if isinstance(error, httpx.ConnectError):
        text, step = (
            message("Nobody answers at {url}.", url=url),
            message("Check that the server runs and that the port is right."),
        )
    elif isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol, ValueError)):
        text, step = (
            message("{url} is not a web address.", url=url),
            message("Write it as in http://127.0.0.1:8000"),
        )
    else:
        text, step = (
            message("The connection to {url} broke: {reason}", url=url, reason=_reason(error)),
            message("Look into the log of the server."),
        )
    return HostError(text, step)


def _reason(error: Exception) -> Message | str:
    return str(error) or type(error).__name__
