"""The demo server as a real process: HTTP, streams, load, faults and stops."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from demo_process import Address, DemoProcess, demo_process, shared_demo_process
from twinrig.domain.errors import HostError
from twinrig.hosts.demo.config import KEY_VARIABLE
from twinrig.hosts.demo.gpus import DemoGpuProbe
from twinrig.hosts.demo.load import read_load
from twinrig.hosts.http import HttpxClient

CHAT: dict[str, object] = {"messages": [{"role": "user", "content": "Hello there"}]}
ENDLESS: dict[str, object] = {"prompt": "x", "max_tokens": 30000, "ignore_eos": True}


@pytest.fixture
async def client() -> AsyncIterator[HttpxClient]:
    made = HttpxClient()
    yield made
    await made.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with shared_demo_process(tmp_path_factory.mktemp("demo")) as address:
        yield address


async def get(client: HttpxClient, url: str, **options: Any) -> Any:
    response = await client.get(url, timeout_s=10, **options)
    assert response.status == 200, response.body
    return json.loads(response.body)


async def post(
    client: HttpxClient, server: Address | DemoProcess, path: str, body: dict[str, object]
) -> tuple[int, Any]:
    response = await client.post_json(server.url + path, body, timeout_s=30)
    return response.status, json.loads(response.body)


async def stream(
    client: HttpxClient, server: Address | DemoProcess, path: str, body: dict[str, object]
) -> list[Any]:
    url = server.url + path
    events = [e async for e in client.stream_events(url, {**body, "stream": True}, timeout_s=10)]
    return [e if e == "[DONE]" else json.loads(e) for e in events]


async def test_plain_questions(server, client) -> None:
    health = await client.get(f"{server.url}/health", timeout_s=10)
    assert (health.status, health.body) == (200, b"")
    assert "version" in await get(client, f"{server.url}/version")
    models = await get(client, f"{server.url}/v1/models")
    assert models["data"][0]["id"] == "Demo-24B-AWQ"
    assert models["data"][0]["max_model_len"] == 32768
    assert (await client.get(f"{server.url}/nothing", timeout_s=10)).status == 404
    assert (await client.get(f"{server.url}/v1/completions", timeout_s=10)).status == 405


async def test_chat_says_that_it_is_the_demo_engine(server, client) -> None:
    status, answer = await post(client, server, "/v1/chat/completions", CHAT)
    assert status == 200
    text = answer["choices"][0]["message"]["content"]
    assert text.startswith("This is the demo engine of Twinrig")
    assert answer["choices"][0]["finish_reason"] == "stop"
    usage = answer["usage"]
    assert usage["completion_tokens"] == len(text.split())
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    _, again = await post(client, server, "/v1/chat/completions", CHAT)
    assert again["choices"] == answer["choices"]


async def test_japanese_is_answered_in_japanese(server, client) -> None:
    _, answer = await post(client, server, "/v1/completions", {"prompt": "こんにちは"})
    assert answer["choices"][0]["text"].startswith("これは Twinrig のデモエンジンです。")


async def test_max_tokens_cuts_the_reply(server, client) -> None:
    _, answer = await post(client, server, "/v1/completions", {"prompt": "a", "max_tokens": 8})
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 8


async def test_a_stream_has_role_text_reason_usage_and_end(server, client) -> None:
    body = {**CHAT, "max_tokens": 12, "stream_options": {"include_usage": True}}
    events = await stream(client, server, "/v1/chat/completions", body)
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert events[-1] == "[DONE]"
    assert events[-2]["choices"] == []
    assert events[-2]["usage"]["completion_tokens"] == 12
    assert events[-3]["choices"][0]["finish_reason"] == "length"
    text = "".join(e["choices"][0]["delta"].get("content", "") for e in events[:-2])
    assert text.startswith("This is the demo engine")
    assert {e["object"] for e in events[:-1]} == {"chat.completion.chunk"}


async def test_a_plain_stream_without_usage(server, client) -> None:
    events = await stream(client, server, "/v1/completions", {"prompt": "a", "max_tokens": 3})
    assert [e["choices"][0]["text"] != "" for e in events[:-1]] == [True, True, True, False]
    assert all("usage" not in e for e in events[:-1])


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"prompt": "a", "model": "gpt-4"}, 404, "Valid aliases: Demo-24B-AWQ"),
        ({"prompt": "a", "max_tokens": 40000}, 400, "maximum context length is 32768"),
        ({"prompt": "word " * 40000}, 400, "maximum context length is 32768"),
        ({"prompt": "a", "max_tokens": 0}, 400, "at least 1"),
        ({"prompt": "a", "max_tokens": "many"}, 400, "whole number"),
        ({"prompt": ["a"]}, 400, "prompt must be text"),
        ({"prompt": "a", "n": 2}, 400, "n=1"),
    ],
)
async def test_wrong_requests(server, client, body, status, words) -> None:
    answered, error = await post(client, server, "/v1/completions", body)
    assert answered == status
    assert words in error["error"]["message"]
    assert error["error"]["code"] == status


@pytest.mark.parametrize("messages", [None, [], "x", [1], [{"content": 5}], [{"content": None}]])
async def test_wrong_messages(server, client, messages) -> None:
    status, error = await post(client, server, "/v1/chat/completions", {"messages": messages})
    assert status == 400
    assert error["error"]["param"] == "messages"


async def test_content_in_parts(server, client) -> None:
    parts = [{"type": "text", "text": "日本語"}, {"type": "image_url"}]
    body: dict[str, object] = {"messages": [{"role": "user", "content": parts}]}
    status, answer = await post(client, server, "/v1/chat/completions", body)
    assert status == 200
    assert "デモ" in answer["choices"][0]["message"]["content"]


async def raw(server: Address | DemoProcess, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    await writer.drain()
    writer.write_eof()
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /health HTTP/2\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 9\r\n\r\n{}", 400),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]", 400),
        (b"GET /health HTTP/1.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", 431),
        (b"GET /health?x=1 HTTP/1.0\r\n\r\n", 200),
    ],
    ids=[
        "words",
        "http2",
        "length",
        "huge",
        "chunked",
        "short",
        "no-json",
        "list",
        "head",
        "http10",
    ],
)
async def test_wrong_http_is_answered_and_the_server_lives_on(
    server, client, request_bytes, status
) -> None:
    answer = await raw(server, request_bytes)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert (await client.get(f"{server.url}/health", timeout_s=10)).status == 200


async def test_a_key_guards_v1_only(tmp_path, client) -> None:
    async with demo_process(tmp_path, env={KEY_VARIABLE: "s3cret"}) as server:
        for token in (None, "wrong"):
            response = await client.get(f"{server.url}/v1/models", timeout_s=10, token=token)
            assert response.status == 401
            assert json.loads(response.body) == {"error": "Unauthorized"}
        assert await get(client, f"{server.url}/v1/models", token="s3cret")
        assert (await client.get(f"{server.url}/metrics", timeout_s=10)).status == 200
        assert "s3cret" not in "\n".join(server.lines)


async def metric(client: HttpxClient, server: Address | DemoProcess, name: str) -> float:
    body = (await client.get(f"{server.url}/metrics", timeout_s=10)).body.decode()
    line = next(line for line in body.splitlines() if line.startswith(f"demo:{name}{{"))
    return float(line.rpartition(" ")[2])


async def until(
    client: HttpxClient, server: Address | DemoProcess, name: str, value: float
) -> None:
    async with asyncio.timeout(10):
        while await metric(client, server, name) != value:
            await asyncio.sleep(0.01)


async def test_counters_grow_by_what_was_said(server, client) -> None:
    names = ("generation_tokens_total", "prompt_tokens_total", "requests_finished_total")
    before = [await metric(client, server, name) for name in names]
    await post(client, server, "/v1/completions", {"prompt": "abcdefgh", "max_tokens": 40})
    after = [await metric(client, server, name) for name in names]
    assert [b - a for a, b in zip(before, after, strict=True)] == [40, 2, 1]
    assert await metric(client, server, "kv_cache_size_tokens") > 32768


async def test_the_queue_and_a_client_that_hangs_up(tmp_path, client) -> None:
    async with demo_process(tmp_path, max_num_seqs=1) as server:
        url = f"{server.url}/v1/completions"
        first = client.stream_events(url, {**ENDLESS, "stream": True}, timeout_s=10)
        await anext(first)
        second = asyncio.create_task(client.post_json(url, ENDLESS, timeout_s=60))
        await until(client, server, "num_requests_waiting", 1)
        assert await metric(client, server, "num_requests_running") == 1
        second.cancel()  # a client in the queue hangs up
        await until(client, server, "num_requests_waiting", 0)
        await first.aclose()  # and one in the middle of its reply
        await until(client, server, "num_requests_running", 0)
        assert await metric(client, server, "requests_aborted_total") == 2
        assert (await post(client, server, "/v1/completions", {"prompt": "a"}))[0] == 200


async def test_the_port_refuses_while_loading_and_the_log_tells_why(tmp_path, client) -> None:
    async with demo_process(tmp_path, ready=False, load_scale=0.2) as server:
        await server.line_with("[demo:weights] 50%")
        with pytest.raises(HostError, match="Nobody answers"):
            await client.get(f"{server.url}/health", timeout_s=10)
        await server.line_with("[demo:serve] Application startup complete.")
        assert (await client.get(f"{server.url}/health", timeout_s=10)).status == 200


async def test_the_simulated_cards_show_the_load_and_idle_after_it(tmp_path, client) -> None:
    async with demo_process(tmp_path) as server:
        url = f"{server.url}/v1/completions"
        events = client.stream_events(url, {**ENDLESS, "stream": True}, timeout_s=10)
        await anext(events)
        probe = DemoGpuProbe(tmp_path)
        async with asyncio.timeout(10):
            while (load := read_load(server.load_file)) is None or load.busy_percent[0] < 60:
                await anext(events)
        samples = probe.sample()
        await events.aclose()
        assert [60 <= (s.utilisation_percent or 0) <= 75 for s in samples] == [True, True]
        assert all((s.memory_used_bytes or 0) > 10 * 1024**3 for s in samples)
        assert (load.pid, load.port) == (server.process.pid, server.port)
        server.process.terminate()
        assert await server.exit_code() == 0
        assert not server.load_file.exists()
        assert probe.sample()[1].utilisation_percent == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Linux")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_ends_streams_properly_and_soon(tmp_path, client, number) -> None:
    async with demo_process(tmp_path) as server:
        url = f"{server.url}/v1/completions"
        events = client.stream_events(url, {**ENDLESS, "stream": True}, timeout_s=10)
        await anext(events)
        started = time.monotonic()
        server.process.send_signal(number)
        rest = [event async for event in events]
        assert rest[-1] == "[DONE]"
        assert json.loads(rest[-2])["choices"][0]["finish_reason"] == "abort"
        assert await server.exit_code() == 0
        assert time.monotonic() - started < 2
        assert "Application shutdown complete." in server.lines[-1]


async def test_a_stop_does_not_wait_for_idle_or_half_open_clients(tmp_path) -> None:
    async with demo_process(tmp_path) as server:
        _, idle = await asyncio.open_connection("127.0.0.1", server.port)
        _, half = await asyncio.open_connection("127.0.0.1", server.port)
        half.write(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\n\r\n{")
        await half.drain()
        started = time.monotonic()
        server.process.terminate()
        assert await server.exit_code() == 0
        assert time.monotonic() - started < 2
        for writer in (idle, half):
            writer.close()


async def test_a_stop_while_loading(tmp_path) -> None:
    async with demo_process(tmp_path, ready=False, load_scale=5.0) as server:
        await server.line_with("[demo:import]")
        server.process.terminate()
        assert await server.exit_code() == 0
        assert "Stopped while loading" in server.lines[-1]


async def test_the_port_is_taken(tmp_path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        async with demo_process(tmp_path, ready=False, port=port) as server:
            assert await server.exit_code() == 1
            assert "Address already in use" in server.lines[-1]
            assert not any("[demo:weights]" in line for line in server.lines)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("port_taken", "[Errno 98] Address already in use"),
        ("oom", "torch.OutOfMemoryError: CUDA out of memory."),
    ],
)
async def test_faults_of_the_start(tmp_path, fault, words) -> None:
    async with demo_process(tmp_path, ready=False, fault=fault) as server:
        assert await server.exit_code() == 1
        assert any(words in line for line in server.lines)
        assert not server.load_file.exists()


async def test_the_crash_ends_with_0_and_tells_its_streams(tmp_path, client) -> None:
    async with demo_process(tmp_path, fault="crash", fault_after_s=0.5) as server:
        events = await stream(client, server, "/v1/completions", ENDLESS)
        assert events[-1] == "[DONE]"
        assert events[-2]["error"]["code"] == 500
        assert await server.exit_code() == 0
        assert any("VllmWorker-1 died unexpectedly" in line for line in server.lines)


async def test_the_hang_answers_health_but_makes_no_token(tmp_path, client) -> None:
    async with demo_process(tmp_path, fault="hang", fault_after_s=0.0) as server:
        with pytest.raises(HostError, match="in time"):
            await client.post_json(f"{server.url}/v1/completions", {"prompt": "a"}, timeout_s=0.5)
        assert (await client.get(f"{server.url}/health", timeout_s=10)).status == 200
        assert await metric(client, server, "generation_tokens_total") == 0
        server.process.terminate()
        assert await server.exit_code() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Linux")
async def test_a_server_that_ignores_term_needs_kill(tmp_path, client) -> None:
    async with demo_process(tmp_path, fault="ignore_term") as server:
        server.process.terminate()
        server.process.send_signal(signal.SIGINT)
        assert (await post(client, server, "/v1/completions", {"prompt": "a"}))[0] == 200
        async with asyncio.timeout(10):
            while not server.load_file.exists():  # published up to four times a second
                await asyncio.sleep(0.02)
        server.process.kill()
        assert await server.exit_code() == -signal.SIGKILL
        assert server.load_file.exists()  # nobody removed it: the cards go by its age


async def test_a_bad_configuration_ends_with_2_and_names_every_fault(tmp_path) -> None:
    async with demo_process(tmp_path, ready=False, colour="red", max_num_seqs=0) as server:
        assert await server.exit_code() == 2
        text = "\n".join(server.lines)
        assert "colour is not known" in text
        assert "max_num_seqs must be from 1 to 4096" in text
