"""A server that starts, answers one request and is stopped again proves a fix."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from twinrig.domain.errors import HostError
from twinrig.domain.server import ServerState
from twinrig.messages import message
from twinrig.services.server_proof import prove_by_server


class Controller:
    def __init__(self, ends: ServerState | HostError, running: bool = False) -> None:
        self.ends = ends
        self.running = running
        self.calls: list[str] = []
        self.state = ServerState.STOPPED
        self.hold = False

    async def active_record(self) -> object | None:
        return object() if self.running else None

    async def start(self, profile_id: str, requested_by: str) -> None:
        self.calls.append("start")
        self.state = ServerState.STARTING

    async def wait_for(self, profile_id: str, states: Any, timeout_s: float) -> Any:
        if self.hold:
            await asyncio.Event().wait()
        if ServerState.READY in states:
            if isinstance(self.ends, HostError):
                raise self.ends
            self.state = self.ends
        failure = SimpleNamespace(text=message("No memory."))
        return SimpleNamespace(
            state=self.state, failure=failure if self.state is ServerState.FAILED else None
        )

    async def status(self, profile_id: str) -> Any:
        return SimpleNamespace(record=SimpleNamespace(state=self.state))

    async def stop(self, profile_id: str, requested_by: str) -> None:
        self.calls.append("stop")
        self.hold = False
        self.state = ServerState.STOPPED


async def prove(controller: Controller) -> Any:
    made: Any = controller
    return await prove_by_server(made, "p")


async def test_server_that_answers_is_a_proof_and_is_stopped_again() -> None:
    controller = Controller(ServerState.READY)
    proof = await prove(controller)
    assert proof.proven is True and controller.calls == ["start", "stop"]


async def test_server_that_fails_is_told_with_its_reason() -> None:
    controller = Controller(ServerState.FAILED)
    proof = await prove(controller)
    assert proof.proven is False and "No memory." in str(proof.text)
    assert controller.calls == ["start"], "what has ended is not stopped"


async def test_server_that_runs_is_left_alone() -> None:
    controller = Controller(ServerState.READY, running=True)
    proof = await prove(controller)
    assert proof.proven is None and controller.calls == []


async def test_server_that_takes_too_long_is_no_proof_and_is_stopped() -> None:
    controller = Controller(HostError(message("It took too long.")))
    proof = await prove(controller)
    assert proof.proven is False and controller.calls == ["start", "stop"]


async def test_cancelled_proof_leaves_no_server_behind() -> None:
    controller = Controller(ServerState.READY)
    controller.hold = True
    task = asyncio.ensure_future(prove(controller))
    while controller.calls != ["start"]:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert controller.calls == ["start", "stop"]
