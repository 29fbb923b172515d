"""The question that proves a new server: one short reply, as the end of the first run."""

from __future__ import annotations

from twinrig.messages import N_, message
from twinrig.services.chat import ChatTurn
from twinrig.services.completions import ChatMessage, ReplyError
from twinrig.services.endpoints import Serving
from twinrig.services.sampler_defaults import read_samplers, request_options
from twinrig.services.workbench import Workbench

QUESTION = N_("Say hello in one short sentence.")
MAX_REPLY_TOKENS = 400
"""Enough for a model that thinks before it greets."""


async def first_turn(bench: Workbench, serving: Serving, question: str) -> ChatTurn:
    """The question to the running server, sampled as the model's makers recommend."""
    samplers = await read_samplers(bench.host, serving.profile.model.path)
    options = {**request_options(samplers), "max_tokens": MAX_REPLY_TOKENS}
    messages = (ChatMessage("user", question),)
    return ChatTurn(bench.http, bench.clock, serving.endpoint, messages, options)


def wordless() -> ReplyError:
    """For a reply that came to an end without a word."""
    return ReplyError(
        "reply-unreadable",
        message("The server answered without a word."),
        message("Look into the log of the server."),
    )
