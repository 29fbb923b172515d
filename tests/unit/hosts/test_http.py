"""HttpxClient against a scripted server on loopback that sends raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from twinrig.domain.errors import HostError, HttpFaultError
from twinrig.hosts import http as http_module
from twinrig.hosts.http import HttpxClient, is_loopback

Script = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Answers every connection with one script and keeps what was asked."""

    def __init__(self) -> None:
        self.script: Script = respond(200, b"ok")
        self.requests: list[bytes] = []
        self.connections = 0
        self.hung_up = asyncio.Event()
        self.port = 0
        self.tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/x"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            await self.converse(reader, writer)
        finally:
            self.tasks.discard(task)
            self.hung_up.set()
            writer.close()

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(
            ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError
        ):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = 0
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                self.requests.append(head + await reader.readexactly(length))
                await self.script(writer)
                if writer.is_closing():
                    return


def respond(status: int, body: bytes, extra: bytes = b"") -> Script:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), extra, body)
        )
        await writer.drain()

    return script


def raw(*parts: bytes, pause_s: float = 0.0) -> Script:
    async def script(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)
        writer.close()

    return script


EVENTS_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    scripted = Server()
    listener = await asyncio.start_server(scripted.handle, "127.0.0.1", 0)
    scripted.port = listener.sockets[0].getsockname()[1]
    yield scripted
    listener.close()
    for task in list(scripted.tasks):
        task.cancel()
    if scripted.tasks:
        await asyncio.wait(scripted.tasks, timeout=5)
    await asyncio.sleep(0)


@pytest.fixture
async def client() -> AsyncIterator[HttpxClient]:
    made = HttpxClient()
    yield made
    await made.close()


async def events(client: HttpxClient, url: str, **options: float) -> list[str]:
    return [e async for e in client.stream_events(url, {"a": 1}, timeout_s=5, **options)]


async def test_get_gives_status_and_body(server, client) -> None:
    server.script = respond(503, b"starting")
    response = await client.get(server.url, timeout_s=5)
    assert (response.status, response.body) == (503, b"starting")


async def test_post_sends_json_and_the_key(server, client) -> None:
    await client.post_json(server.url, {"text": "日本"}, timeout_s=5, token="k-1")
    request = server.requests[0]
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /x HTTP/1.1")
    assert b"authorization: bearer k-1" in head.lower()
    assert b"content-type: application/json" in head.lower()
    assert json.loads(body) == {"text": "日本"}


async def test_without_a_key_there_is_no_authorization(server, client) -> None:
    await client.get(server.url, timeout_s=5)
    assert b"authorization" not in server.requests[0].lower()


async def test_connections_are_reused_at_one_hertz(server, client) -> None:
    for _ in range(5):
        await client.get(server.url, timeout_s=5)
    assert server.connections == 1


async def test_redirects_are_not_followed(server, client) -> None:
    server.script = respond(307, b"", b"Location: http://example.invalid/\r\n")
    assert (await client.get(server.url, timeout_s=5)).status == 307


async def test_loopback_ignores_proxies_of_the_environment(server, monkeypatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens: using it would fail
    monkeypatch.setenv("no_proxy", "")
    client = HttpxClient()
    assert (await client.get(server.url, timeout_s=5)).body == b"ok"
    await client.close()


async def test_other_addresses_follow_the_proxy(server, monkeypatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("no_proxy", "")
    client = HttpxClient()
    assert (await client.get("http://server.example/v1", timeout_s=5)).body == b"ok"
    assert server.requests[0].startswith(b"GET http://server.example/v1 ")
    await client.close()


async def test_nobody_listens(server, client) -> None:
    free = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    port = free.sockets[0].getsockname()[1]
    free.close()
    await free.wait_closed()
    url = f"http://127.0.0.1:{port}/health"
    with pytest.raises(HostError) as caught:
        await client.get(url, timeout_s=5)
    assert str(caught.value.text) == f"Nobody answers at {url}."
    assert caught.value.next_step is not None


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/x", "nonsense", "http://[::1/x", "http://127.0.0.1:port/"]
)
async def test_what_is_no_address_is_said_to_be_none(client, url) -> None:
    with pytest.raises(HostError) as caught:
        await client.get(url, timeout_s=5)
    assert str(caught.value.text) == f"{url} is not a web address."


async def test_silence_ends_in_a_timeout(server, client) -> None:
    async def silent(_writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    server.script = silent
    started = time.monotonic()
    with pytest.raises(HostError) as caught:
        await client.get(server.url, timeout_s=0.1)
    assert time.monotonic() - started < 2
    assert str(caught.value.text) == f"{server.url} did not answer in time."


async def test_a_body_that_trickles_does_not_stretch_the_timeout(server, client) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    server.script = raw(head, *[b"x"] * 1000, pause_s=0.02)
    started = time.monotonic()
    with pytest.raises(HostError, match="did not answer in time"):
        await client.get(server.url, timeout_s=0.2)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize(
    "answer",
    [b"garbage\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"],
    ids=["not-http", "closed-at-once", "cut-off"],
)
async def test_broken_answers_are_host_errors(server, client, answer) -> None:
    server.script = raw(answer)
    with pytest.raises(HostError) as caught:
        await client.get(server.url, timeout_s=5)
    assert caught.value.text.msgid == "The connection to {url} broke: {reason}"
    assert caught.value.text.params["reason"]


async def test_an_endless_body_is_refused(server, client, monkeypatch) -> None:
    monkeypatch.setattr(http_module, "MAX_BODY_BYTES", 1000)
    server.script = respond(200, b"x" * 1001)
    with pytest.raises(HostError, match="answers with more than 1001 bytes"):
        await client.get(server.url, timeout_s=5)


async def test_events_done_and_errors_pass_through(server, client) -> None:
    server.script = raw(
        EVENTS_HEAD + b'data: {"a": 1}\n\n: comment\n\nevent: x\nid: 3\ndata: one\ndata:  two\n\n',
        b'data: {"error": {"code": 500}}\r\n\r\ndata: [DONE]\r\n\r\n',
    )
    assert await events(client, server.url) == [
        '{"a": 1}',
        "one\n two",
        '{"error": {"code": 500}}',
        "[DONE]",
    ]


async def test_a_stream_cut_off_in_an_event_still_gives_it(server, client) -> None:
    server.script = raw(EVENTS_HEAD + b"data: a\n\ndata: half")
    assert await events(client, server.url) == ["a", "half"]


async def test_a_refused_stream_tells_status_and_what_the_server_said(server, client) -> None:
    server.script = respond(401, b'{"error":"Unauthorized"}')
    with pytest.raises(HttpFaultError) as caught:
        await events(client, server.url)
    fault = caught.value
    assert (fault.status, fault.body, fault.retry_after_s) == (
        401,
        '{"error":"Unauthorized"}',
        None,
    )


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(b"7", 7.0), (b" 30 ", 30.0), (b"Wed, 21 Oct 2026 07:28:00 GMT", None), (b"-3", None)],
)
async def test_a_busy_server_says_when_to_ask_again(server, client, header, seconds) -> None:
    head = b"HTTP/1.1 429 Busy\r\nContent-Length: 2\r\nRetry-After: " + header + b"\r\n\r\n{}"
    server.script = raw(head)
    with pytest.raises(HttpFaultError) as caught:
        await events(client, server.url)
    assert (caught.value.status, caught.value.retry_after_s) == (429, seconds)


async def test_a_refused_stream_without_json_is_an_error(server, client) -> None:
    server.script = respond(502, b"<html>bad gateway</html>")
    with pytest.raises(HostError, match="answers with status 502"):
        await events(client, server.url)


async def test_the_stream_timeout_bounds_silence_not_length(server, client) -> None:
    server.script = raw(EVENTS_HEAD, *[b"data: t\n\n"] * 10, pause_s=0.05)
    got = [e async for e in client.stream_events(server.url, {}, timeout_s=0.3)]
    assert len(got) == 10
    server.script = raw(EVENTS_HEAD + b"data: t\n\n", b"", pause_s=60)
    with pytest.raises(HostError, match="did not answer in time"):
        _ = [e async for e in client.stream_events(server.url, {}, timeout_s=0.1)]


async def test_closing_a_stream_hangs_up(server, client) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS_HEAD)
        while True:
            writer.write(b"data: t\n\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    server.script = endless
    stream = client.stream_events(server.url, {}, timeout_s=5)
    assert await anext(stream) == "t"
    await stream.aclose()
    await asyncio.wait_for(server.hung_up.wait(), 5)


async def test_close_twice_and_use_again(server) -> None:
    client = HttpxClient()
    await client.get(server.url, timeout_s=5)
    await client.close()
    await client.close()
    assert (await client.get(server.url, timeout_s=5)).status == 200
    await client.close()


def test_one_client_in_two_loops_one_after_the_other() -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as plain:
        thread = threading.Thread(target=plain.serve_forever, daemon=True)
        thread.start()
        client = HttpxClient()
        url = f"http://127.0.0.1:{plain.server_port}/"
        bodies = [asyncio.run(client.get(url, timeout_s=5)).body for _ in range(2)]
        asyncio.run(client.close())
        plain.shutdown()
        thread.join(5)
    assert bodies == [b"ok", b"ok"]


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://127.9.9.9/", True),
        ("http://localhost:1", True),
        ("http://LOCALHOST./", True),
        ("http://a.localhost/", True),
        ("http://[::1]:8000/v1", True),
        ("http://0.0.0.0:8000", True),
        ("http://192.168.1.5:8000", False),
        ("http://localhost.example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("nonsense", False),
        ("http://[::1/x", False),
    ],
)
def test_is_loopback(url, loopback) -> None:
    assert is_loopback(url) is loopback


def test_httpx_is_not_imported_before_it_is_used() -> None:
    code = (
        "import sys; from twinrig.hosts.http import HttpxClient; HttpxClient();"
        "sys.exit('httpx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
