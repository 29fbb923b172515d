"""Chats against a server on a real socket: whole replies, and every way in which one can fail."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator

import pytest

from fixtures.reply_server import (
    Handler,
    ReplyServer,
    broken_off,
    cut_after,
    events,
    fault,
    reply_server,
)
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.http import HttpxClient
from twinrig.services.chat import ChatTurn, ReplyTimer
from twinrig.services.completions import ChatEndpoint, ChatMessage, Piece, ReplyError, Usage
from twinrig.services.thinking import Part


@pytest.fixture
def server() -> Iterator[ReplyServer]:
    with reply_server() as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[HttpxClient]:
    client = HttpxClient()
    yield client
    await client.close()


def turn_of(http: HttpxClient, url: str, *, key: str | None = None, **options: object) -> ChatTurn:
    endpoint = ChatEndpoint(url, "tiny", key, context_tokens=100)
    messages = (ChatMessage("system", "Be brief."), ChatMessage("user", "こんにちは"))
    return ChatTurn(http, SystemClock(), endpoint, messages, options)


async def told(turn: ChatTurn) -> tuple[str, str]:
    """Reply and thoughts as a reader puts them together."""
    reply, thoughts = "", ""
    async for part in turn.parts():
        if part.recast:
            reply, thoughts = "", thoughts + reply
        if part.thought:
            thoughts += part.text
        else:
            reply += part.text
    return reply, thoughts


async def test_a_reply_and_what_was_asked(server: ReplyServer, http: HttpxClient) -> None:
    server.script = events(["Good", " ", "day"], pause_s=0.02)
    turn = turn_of(http, server.url, key="secret", temperature=0.7)
    assert await told(turn) == ("Good day", "")
    body = server.asked[0]
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "こんにちは"},
    ]
    assert (body["model"], body["temperature"], body["stream"]) == ("tiny", 0.7, True)
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert server.keys == ["Bearer secret"]


async def test_figures_are_the_servers_own_counts(server: ReplyServer, http: HttpxClient) -> None:
    server.script = events(["a"] * 20, pause_s=0.01, prompt=30)
    turn = turn_of(http, server.url)
    await told(turn)
    figures = turn.figures()
    assert (figures.prompt_tokens, figures.generation_tokens, figures.counted) == (30, 20, True)
    assert figures.context_share == pytest.approx(0.5)
    assert figures.finish_reason == "stop"
    assert figures.first_token_s is not None and figures.first_token_s < 5
    assert figures.generation_tps is not None and 5 < figures.generation_tps < 101


def test_speed_is_without_the_wait_for_the_first_token() -> None:
    timer = ReplyTimer(100.0)
    for index in range(11):
        timer.note(Piece(text="x"), 105.0 + index * 0.1)
    timer.note(Piece(usage=Usage(500, 31)), 107.0)
    figures = timer.figures()
    assert figures.first_token_s == pytest.approx(5.0)
    assert figures.generation_tps == pytest.approx(30.0)  # 30 steps in a second


def test_a_first_text_of_several_tokens_does_not_count_for_the_speed() -> None:
    """Five tokens made the first character; the server counts in the middle of the reply."""
    timer = ReplyTimer(0.0)
    timer.note(Piece(usage=Usage(9, 0)), 0.5)
    timer.note(Piece(text="é", usage=Usage(9, 5)), 1.0)
    timer.note(Piece(text="a", usage=Usage(9, 6)), 1.5)
    timer.note(Piece(text="b", usage=Usage(9, 9)), 3.0)
    timer.note(Piece(usage=Usage(9, 11)), 3.5)  # bytes that never became a character
    figures = timer.figures()
    assert figures.generation_tps == pytest.approx(2.0)
    assert (figures.generation_tokens, figures.first_token_s) == (11, 1.0)


def test_without_counts_of_the_server_pieces_are_counted_and_told_so() -> None:
    timer = ReplyTimer(0.0, context_tokens=1000)
    timer.note(Piece(text="a"), 1.0)
    timer.note(Piece(text="b"), 1.5)
    figures = timer.figures()
    assert (figures.generation_tokens, figures.counted) == (2, False)
    assert figures.context_share is None and figures.prompt_tokens is None
    assert figures.generation_tps == pytest.approx(2.0)


def test_one_token_has_no_speed() -> None:
    timer = ReplyTimer(0.0)
    timer.note(Piece(text="a"), 1.0)
    assert timer.figures().generation_tps is None


@pytest.mark.parametrize(
    ("script", "finding", "words"),
    [
        (cut_after(["Once upon"]), "reply-cut", "cut off"),
        (fault(401, b'{"error":"Unauthorized"}'), "reply-key-refused", "refuses the key"),
        (fault(403, b"no"), "reply-key-refused", "refuses the key"),
        (
            fault(404, b'{"error":{"message":"The model `tiny` does not exist."}}'),
            "reply-model-unknown",
            "does not know the model tiny: The model `tiny` does not exist",
        ),
        (fault(429, b"{}", Retry_After="12"), "reply-busy", "busy"),
        (fault(500, b"<html>oops</html>"), "reply-server-failed", "status 500.*oops"),
        (fault(503, b'{"detail":"No model loaded"}'), "reply-server-failed", "No model loaded"),
        (
            fault(400, b'{"error":{"message":"maximum context length is 8 tokens"}}'),
            "reply-too-long",
            "does not fit",
        ),
        (fault(422, b'{"message":"top_p must be"}'), "reply-refused", "top_p must be"),
        (broken_off(["Once"], {"message": "CUDA error"}), "reply-broken-off", "CUDA error"),
        (broken_off([], "EngineCore died"), "reply-broken-off", "EngineCore died"),
        (events(["Once"], finish="abort"), "reply-stopped", "stopped"),
        (events(["Once"], finish="error"), "reply-broken-off", "broke the reply off"),
    ],
)
async def test_every_fault_has_an_id_and_words_and_a_next_step(
    server: ReplyServer, http: HttpxClient, script, finding: str, words: str
) -> None:
    server.script = script
    with pytest.raises(ReplyError, match=words) as caught:
        await told(turn_of(http, server.url))
    assert caught.value.finding_id == finding
    assert caught.value.next_step is not None


async def test_a_busy_server_tells_when_to_come_back(
    server: ReplyServer, http: HttpxClient
) -> None:
    server.script = fault(429, b"{}", Retry_After="12")
    with pytest.raises(ReplyError) as caught:
        await told(turn_of(http, server.url))
    assert caught.value.retry_after_s == 12
    assert "12 s" in str(caught.value.next_step)


async def test_what_came_before_a_cut_is_kept(server: ReplyServer, http: HttpxClient) -> None:
    server.script = cut_after(["Once", " upon"])
    turn = turn_of(http, server.url)
    seen = ""
    with pytest.raises(ReplyError):
        async for part in turn.parts():
            seen += part.text
    assert seen == "Once upon"
    assert turn.figures().generation_tokens == 2


async def test_nobody_there(http: HttpxClient) -> None:
    with pytest.raises(ReplyError, match="Nobody answers") as caught:
        await told(turn_of(http, "http://127.0.0.1:9"))
    assert caught.value.finding_id == "reply-unreachable"


async def test_garbage_in_the_stream(server: ReplyServer, http: HttpxClient) -> None:
    def script(handler: Handler, _body: object) -> None:
        handler.begin()
        handler.event("{not json")

    server.script = script
    with pytest.raises(ReplyError, match=r"no reply: \{not json"):
        await told(turn_of(http, server.url))


@pytest.mark.parametrize("odd", [{}, {"choices": []}, {"choices": [7]}, {"choices": "x"}])
async def test_odd_events_say_nothing(server: ReplyServer, http: HttpxClient, odd: object) -> None:
    def script(handler: Handler, _body: object) -> None:
        handler.begin()
        handler.event(odd)
        handler.delta("fine")
        handler.event({"choices": [{"delta": {"content": None}, "finish_reason": "stop"}]})
        handler.event("[DONE]")

    server.script = script
    assert await told(turn_of(http, server.url)) == ("fine", "")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_thoughts_that_the_server_tells_apart(
    server: ReplyServer, http: HttpxClient, name: str
) -> None:
    def script(handler: Handler, _body: object) -> None:
        handler.begin()
        handler.delta(**{name: "Hm, "})
        handler.delta(**{name: "well"})
        handler.delta("Use </think> as a word.")
        handler.delta(finish="stop")
        handler.event("[DONE]")

    server.script = script
    assert await told(turn_of(http, server.url)) == ("Use </think> as a word.", "Hm, well")


async def test_stopping_hangs_up_and_keeps_the_figures(
    server: ReplyServer, http: HttpxClient
) -> None:
    server.script = events(["word "] * 10_000, pause_s=0.01)
    turn = turn_of(http, server.url)
    parts = turn.parts()
    seen = [await anext(parts) for _ in range(3)]
    began = time.monotonic()
    await parts.aclose()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 5
    assert [part.text for part in seen] == ["word "] * 3
    assert turn.figures().generation_tokens >= 3


async def test_a_reply_of_100_000_tokens_leaves_no_memory_behind(
    server: ReplyServer, http: HttpxClient
) -> None:
    server.script = events(["token "] * 100_000)
    turn = turn_of(http, server.url)
    count = 0
    async for part in turn.parts():
        count += len(part.text)
        if count == 480_000:
            tracemalloc.start()  # the last fifth: what one token leaves, all would have left
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 600_000
    assert turn.figures().generation_tokens == 100_000
    assert peak < 2 * 1024 * 1024


async def test_a_reply_without_end_is_stopped(server: ReplyServer, http: HttpxClient) -> None:
    server.script = events(["again "] * 5_000)
    endpoint = ChatEndpoint(server.url, "tiny")
    turn = ChatTurn(http, SystemClock(), endpoint, (ChatMessage("user", "x"),), max_characters=1000)
    with pytest.raises(ReplyError, match="does not end"):
        async for _ in turn.parts():
            pass


async def test_two_chats_at_once_do_not_mix(server: ReplyServer, http: HttpxClient) -> None:
    server.script = lambda handler, body: events([str(body["seed"])] * 50)(handler, body)
    turns = [turn_of(http, server.url, seed=number) for number in (1, 2)]
    replies = await asyncio.gather(*(told(turn) for turn in turns))
    assert [reply for reply, _ in replies] == ["1" * 50, "2" * 50]


async def test_parts_are_plain_values(server: ReplyServer, http: HttpxClient) -> None:
    server.script = events(["مرحبا ", "世界 ", "🙂"])
    parts = [part async for part in turn_of(http, server.url).parts()]
    assert parts == [Part("مرحبا "), Part("世界 "), Part("🙂")]
