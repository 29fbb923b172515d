"""The log of a running server is followed as it grows and rotates."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fixtures.rule_samples import LINES, SHIPPED
from twinrig.services.live_diagnosis import CHUNK_BYTES, LogFollower, live_failures

READY = LINES["READY"]
REJECTED = 'INFO:     127.0.0.1:{} - "POST /v1/chat/completions HTTP/1.1" 401 Unauthorized\n'


def caught_up(follower: LogFollower) -> str:
    while follower.step():
        pass
    failure = follower.failure()
    return "" if failure is None else f"{failure.finding_id}:{failure.log_line_no}"


def test_a_growing_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    follower = LogFollower(log, SHIPPED, {})
    assert caught_up(follower) == "", "no log yet"
    log.write_text(READY + "\n" + REJECTED.format(1))
    assert caught_up(follower) == "", "one refused client is noise"
    with log.open("a") as more:
        more.write(REJECTED.format(2)[:30])
    assert caught_up(follower) == "", "half a line"
    with log.open("a") as more:
        more.write(REJECTED.format(2)[30:])
    assert caught_up(follower) == "api-key-rejected:3"


def test_line_numbers_over_many_pieces(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    filler = "".join(f"INFO:     line {n} of an ordinary log\n" for n in range(10_000))
    assert len(filler) > 2 * CHUNK_BYTES
    log.write_text(READY + "\n" + filler + REJECTED.format(1) + REJECTED.format(2))
    assert caught_up(LogFollower(log, SHIPPED, {})) == "api-key-rejected:10003"


def test_a_new_run_forgets_the_old_one(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(READY + "\n" + REJECTED.format(1) + REJECTED.format(2))
    follower = LogFollower(log, SHIPPED, {})
    assert caught_up(follower) == "api-key-rejected:3"
    log.rename(tmp_path / "server.log.1")
    log.write_text(READY + "\n")
    assert caught_up(follower) == "" or caught_up(follower) == ""


async def test_changes_are_told_once(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(READY + "\n")
    asked = 0

    class Clock:
        def now(self) -> float:
            return 0.0

        def monotonic(self) -> float:
            return 0.0

        async def sleep(self, seconds: float) -> None:
            nonlocal asked
            asked += 1
            if asked == 3:
                with log.open("a") as more:
                    more.write(REJECTED.format(1) + REJECTED.format(2))
            await asyncio.sleep(0)

    told = []
    async for failure in live_failures(log, SHIPPED, {}, Clock()):
        told.append(None if failure is None else failure.finding_id)
        if failure is not None:
            break
    assert told == [None, "api-key-rejected"] and asked == 3


def test_a_log_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    follower = LogFollower(tmp_path, SHIPPED, {})
    assert follower.step() is False and follower.failure() is None
