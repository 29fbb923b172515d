"""``twinrig chat``: one question to the running server, its reply as it comes."""

from __future__ import annotations

import sys

from twinrig.cli.interrupts import interruptible
from twinrig.cli.session import FINE, Session
from twinrig.cli.terminal import Terminal
from twinrig.domain.errors import UsageError
from twinrig.domain.quantities import number
from twinrig.messages import Message, message
from twinrig.services.chat import ChatTurn, ReplyFigures
from twinrig.services.completions import ChatMessage
from twinrig.services.endpoints import find_serving
from twinrig.services.sampler_defaults import read_samplers, request_options


async def run(session: Session) -> int:
    """Exit code 0 for a whole reply; everything else is an error with a sentence."""
    terminal, args = session.terminal, session.args
    text = args.text if args.text != "-" else _piped()
    if not text.strip():
        raise UsageError(message("There is no question."), message('Use "twinrig chat TEXT".'))
    async with session.bench() as bench:
        serving = await find_serving(bench)
        options = request_options(await read_samplers(bench.host, serving.profile.model.path))
        if args.max_tokens:
            options["max_tokens"] = args.max_tokens
        system = (ChatMessage("system", args.system),) if args.system else ()
        messages = (*system, ChatMessage("user", text))
        turn = ChatTurn(bench.http, bench.clock, serving.endpoint, messages, options)
        reply, thoughts = await show_reply(terminal, turn)
    figures = turn.figures()
    terminal.line()
    terminal.say(figures_text(figures), "dim")
    terminal.data({"reply": reply, "thoughts": thoughts, "figures": figures})
    return FINE


async def show_reply(terminal: Terminal, turn: ChatTurn) -> tuple[str, str]:
    """Reply and thoughts; on the screen thoughts are dim. Control characters are not obeyed."""
    reply: list[str] = []
    thoughts: list[str] = []
    async for part in turn.parts():
        if part.recast:
            thoughts, reply = [*thoughts, *reply], []
        (thoughts if part.thought else reply).append(part.text)
        if not terminal.json_mode:
            shown = _harmless(part.text)
            terminal.write(terminal.style(shown, "dim") if part.thought else shown)
    return "".join(reply), "".join(thoughts)


def _harmless(text: str) -> str:
    return "".join(c for c in text if c in "\n\t" or c.isprintable())


def figures_text(figures: ReplyFigures) -> Message:
    """Speed and wait of one reply in a line."""
    first, speed = figures.first_token_s, figures.generation_tps
    return message(
        "{tokens} tokens, {tps} T/s, first token after {wait} s",
        tokens=figures.generation_tokens,
        tps="-" if speed is None else number(speed),
        wait="-" if first is None else f"{first:.2f}",
    )


def _piped() -> str:
    with interruptible():
        return sys.stdin.read()
