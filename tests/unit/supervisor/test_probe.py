"""What replies prove."""

from __future__ import annotations

import asyncio
import json

import pytest

from fixtures.supervision import FakeHttp, VirtualClock, make_spec
from twinrig.domain.ports import HttpResponse
from twinrig.supervisor.probe import ProbeOutcome, judge_reply, run_probe


def test_a_completion_with_its_tokens():
    body = {"choices": [{}], "usage": {"prompt_tokens": 11, "completion_tokens": 8}}
    result = judge_reply(200, json.dumps(body).encode())
    assert (result.outcome, result.prompt_tokens, result.generation_tokens) == (
        ProbeOutcome.FINE,
        11,
        8,
    )


@pytest.mark.parametrize(
    "usage", [None, [], "x", {"prompt_tokens": "5"}, {"prompt_tokens": True}, {"prompt_tokens": -1}]
)
def test_usage_that_says_nothing_counts_nothing(usage):
    result = judge_reply(200, json.dumps({"choices": [{}], "usage": usage}).encode())
    assert result.outcome is ProbeOutcome.FINE
    assert (result.prompt_tokens, result.generation_tokens) == (0, 0)


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, b"", ProbeOutcome.BROKEN),
        (200, b"\xff\x00", ProbeOutcome.BROKEN),
        (200, b"[]", ProbeOutcome.BROKEN),
        (200, b'{"choices": []}', ProbeOutcome.BROKEN),
        (200, b'{"error": {"message": "dead", "code": 500}}', ProbeOutcome.BROKEN),
        (200, b"[" * 100_000, ProbeOutcome.BROKEN),
        (500, b"", ProbeOutcome.BROKEN),
        (503, b"{}", ProbeOutcome.BROKEN),
        (401, b'{"error":"Unauthorized"}', ProbeOutcome.REFUSED),
        (404, b"", ProbeOutcome.REFUSED),
        (408, b"", ProbeOutcome.SILENT),
        (429, b"", ProbeOutcome.SILENT),
    ],
)
def test_other_replies(status, body, outcome):
    assert judge_reply(status, body).outcome is outcome


def test_the_excerpt_is_short():
    assert len(judge_reply(400, "ü".encode() * 5000).excerpt) == 300


async def test_an_answer_that_trickles_for_ever_is_silence():
    class Trickling(FakeHttp):
        async def post_json(self, url, body, *, timeout_s, token=None) -> HttpResponse:
            await asyncio.Event().wait()
            raise AssertionError

    async with VirtualClock() as clock:
        began_s = clock.now()
        result = await run_probe(Trickling(clock), clock, make_spec(), 60.0)
        assert result.outcome is ProbeOutcome.SILENT
        assert clock.now() - began_s == 65.0
