"""A conversation as the page shows it: what was asked, what came, how long it took."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from twinrig.domain.errors import TwinrigError
from twinrig.domain.quantities import number
from twinrig.messages import Message, message
from twinrig.services.chat import ChatTurn, ReplyFigures
from twinrig.services.completions import ChatMessage
from twinrig.services.endpoints import Serving, find_serving
from twinrig.services.sampler_defaults import read_samplers, request_options
from twinrig.services.thinking import Part

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench

FLUSH_S = 0.1
"""Pieces are handed to the window together, at most ten times a second."""
SHOWN_QUESTION = 2000
CHARACTERS_PER_TOKEN = 4


class ReplyState(StrEnum):
    """WAITING: asked, nothing has come yet."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass
class Exchange:
    """One question and its reply."""

    question: str
    reply: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    state: ReplyState = ReplyState.WAITING
    figures: ReplyFigures = field(default_factory=ReplyFigures)
    error: TwinrigError | None = None

    @property
    def reply_text(self) -> str:
        """The reply so far, as one text."""
        self.reply[:] = ["".join(self.reply)]
        return self.reply[0]

    @property
    def thoughts_text(self) -> str:
        """The thoughts so far, as one text."""
        self.thoughts[:] = ["".join(self.thoughts)]
        return self.thoughts[0]

    @property
    def busy(self) -> bool:
        """Whether more may come."""
        return self.state in (ReplyState.WAITING, ReplyState.RUNNING)


@dataclass
class ChatModel:
    """All exchanges of one conversation, the last one perhaps still running."""

    exchanges: list[Exchange] = field(default_factory=list)
    system: str = ""
    samplers: dict[str, float] = field(default_factory=dict)
    max_tokens: int | None = None

    @property
    def last(self) -> Exchange | None:
        """The exchange at the end."""
        return self.exchanges[-1] if self.exchanges else None

    @property
    def busy(self) -> bool:
        """Whether a reply is coming."""
        return self.last is not None and self.last.busy

    def ask(self, text: str) -> Exchange:
        """Begin a new exchange."""
        self.exchanges.append(Exchange(text))
        return self.exchanges[-1]

    def again(self) -> Exchange | None:
        """Forget the last reply and begin it anew; None when there is none or one is coming."""
        last = self.last
        if last is None or last.busy:
            return None
        self.exchanges[-1] = Exchange(last.question)
        return self.exchanges[-1]

    def clear(self) -> None:
        """A new conversation; system prompt and sampling stay."""
        self.exchanges.clear()

    def messages(self) -> tuple[ChatMessage, ...]:
        """What is sent for the last exchange: everything before it, thoughts left out, as
        models expect it. Replies that failed with nothing in them leave their question alone."""
        found = [ChatMessage("system", self.system)] if self.system.strip() else []
        for exchange in self.exchanges[:-1]:
            if exchange.reply_text:
                found.append(ChatMessage("user", exchange.question))
                found.append(ChatMessage("assistant", exchange.reply_text))
        if self.last is not None:
            found.append(ChatMessage("user", self.last.question))
        return tuple(found)

    def options(self) -> dict[str, object]:
        """Sampling and length as a request carries them."""
        options = request_options(self.samplers)
        if self.max_tokens:
            options["max_tokens"] = self.max_tokens
        return options

    def take(self, parts: Sequence[Part]) -> bool:
        """More of the reply; True when what was shown as reply turned out to be thought."""
        last = self.last
        if last is None or not last.busy:
            return False
        last.state = ReplyState.RUNNING
        recast = False
        for part in parts:
            if part.recast:
                last.thoughts += last.reply
                last.reply, recast = [], True
            (last.thoughts if part.thought else last.reply).append(part.text)
        return recast

    def end(
        self, state: ReplyState, figures: ReplyFigures, error: TwinrigError | None = None
    ) -> None:
        """Nothing more will come."""
        if self.last is not None and self.last.busy:
            self.last.state, self.last.figures, self.last.error = state, figures, error

    def context_share(self) -> float | None:
        """How full the context is, by the newest exchange that the server has counted."""
        shares = [e.figures.context_share for e in reversed(self.exchanges)]
        return next((share for share in shares if share is not None), None)


@dataclass
class Running:
    """What the window may look at while a reply comes: its server, and the turn's figures."""

    serving: Serving | None = None
    turn: ChatTurn | None = None

    def figures(self) -> ReplyFigures:
        """As of now."""
        return ReplyFigures() if self.turn is None else self.turn.figures()


async def stream_parts(
    workbench: Workbench,
    messages: Sequence[ChatMessage],
    options: Mapping[str, object],
    running: Running,
) -> AsyncIterator[tuple[Part, ...]]:
    """The reply in handfuls. Raises UsageError without a server, ReplyError when it fails."""
    running.serving = await find_serving(workbench)
    turn = ChatTurn(workbench.http, workbench.clock, running.serving.endpoint, messages, options)
    running.turn = turn
    source = cast(AsyncGenerator[Part, None], turn.parts())
    async with aclosing(source) as parts:
        async for handful in handfuls(parts, FLUSH_S):
            yield handful


async def handfuls(source: AsyncIterator[Part], pause_s: float) -> AsyncIterator[tuple[Part, ...]]:
    """What came since the last handful; parts of one kind are joined. The first comes at once."""
    waiting: list[Part] = []
    arrived = asyncio.Event()
    ended = False
    fault: BaseException | None = None

    async def collect() -> None:
        nonlocal ended, fault
        try:
            async for part in source:
                waiting.append(part)
                arrived.set()
        except Exception as error:  # noqa: BLE001 - raised again below, after what came before
            fault = error
        ended = True
        arrived.set()

    task = asyncio.create_task(collect())
    try:
        while True:
            await arrived.wait()
            arrived.clear()
            handful, waiting[:] = joined(waiting), []
            if handful:
                yield handful
            if ended and not waiting:
                break
            if not ended:
                await asyncio.sleep(pause_s)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    if fault is not None:
        raise fault


def joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Neighbours of one kind as one part."""
    found: list[tuple[list[str], Part]] = []
    for part in parts:
        if found and found[-1][1].thought == part.thought and not part.recast:
            found[-1][0].append(part.text)
        else:
            found.append(([part.text], part))
    return tuple(Part("".join(texts), first.thought, first.recast) for texts, first in found)


async def recommended_samplers(workbench: Workbench) -> Mapping[str, float]:
    """Values that the running model's makers recommend; empty when no server is ready."""
    try:
        serving = await find_serving(workbench)
    except TwinrigError:
        return {}
    return await read_samplers(workbench.host, serving.profile.model.path)


def figures_line(exchange: Exchange) -> Message | None:
    """Speed and wait of a reply in a line; None while nothing is known."""
    figures = exchange.figures
    if figures.first_token_s is None:
        return None
    tps = "-" if figures.generation_tps is None else number(figures.generation_tps)
    wait = f"{figures.first_token_s:.2f}"
    if not figures.counted:
        return message("about {tps} T/s · first token after {wait} s", tps=tps, wait=wait)
    return message(
        "{tps} T/s · first token after {wait} s · {tokens} tokens",
        tps=tps,
        wait=wait,
        tokens=figures.generation_tokens,
    )


def end_line(exchange: Exchange) -> Message | None:
    """Why a reply ended, where that is not plain."""
    if exchange.state is ReplyState.STOPPED:
        return message("Stopped.")
    if exchange.figures.finish_reason == "length":
        return message("Cut off at the longest reply that was allowed.")
    return None


def short_question(text: str) -> tuple[str, int]:
    """What is shown of a question, and how many characters are left out."""
    if len(text) <= SHOWN_QUESTION:
        return text, 0
    return text[:SHOWN_QUESTION], len(text) - SHOWN_QUESTION


def about_tokens(text: str) -> int:
    """A rough size of a text in tokens: wide characters count one each."""
    wide = sum(1 for c in text if ord(c) > 0x2E7F)
    return wide + (len(text) - wide) // CHARACTERS_PER_TOKEN
