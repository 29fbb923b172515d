"""Whether a server listens where Windows does not reach it."""

from __future__ import annotations

import pytest

from service_fakes import ManualClock
from twinrig.domain.errors import HostError
from twinrig.domain.launch import Endpoint
from twinrig.domain.ports import CommandResult, Script
from twinrig.hosts.wsl.reach import ASK_AGAIN_S, InsideLook
from twinrig.messages import message


class Linux:
    """Answers with a code; None = WSL is away."""

    def __init__(self, code: int | None) -> None:
        self.code = code
        self.asked: list[Script] = []

    async def run(self, command: Script, *, timeout_s: float) -> CommandResult:
        self.asked.append(command)
        if self.code is None:
            raise HostError(message("The distribution is asleep."))
        return CommandResult((), self.code, b"", b"", 0.0)


@pytest.mark.parametrize(("code", "cut_off"), [(0, True), (1, False), (None, False)])
async def test_only_what_listens_inside_is_cut_off(code: int | None, cut_off: bool) -> None:
    linux = Linux(code)
    look = InsideLook(linux, ManualClock())  # type: ignore[arg-type]
    assert await look.cut_off(Endpoint("0.0.0.0", 8123)) is cut_off
    (asked,) = linux.asked
    assert asked.args == ("8123",)
    assert "8123" not in asked.text


async def test_it_is_not_asked_at_every_look() -> None:
    linux, clock = Linux(1), ManualClock()
    look = InsideLook(linux, clock)  # type: ignore[arg-type]
    for _ in range(5):
        assert not await look.cut_off(Endpoint("127.0.0.1", 1))
        clock.time_s += ASK_AGAIN_S / 6
    assert len(linux.asked) == 1
    linux.code = 0
    clock.time_s += ASK_AGAIN_S / 6
    assert await look.cut_off(Endpoint("127.0.0.1", 1))
    assert len(linux.asked) == 2
