from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.memory_host import MemoryHost
from fixtures.stand_in_engine import (
    SMALL,
    left_folders,
    make_python,
    processes_of,
    program,
    request,
)
from fixtures.standard_machine import INSTALL, PROFILE, profile_with
from twinrig import assets
from twinrig.domain.collective import CollectiveReport, StepPlan
from twinrig.domain.errors import HostError
from twinrig.services.collective import (
    CollectiveProbe,
    CollectiveProgram,
    CollectiveRequest,
    dump,
    request_for,
)

OPS = [step.op for step in SMALL]


class Place:
    """A folder with the stand-in engine; what runs there can be counted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = make_python(folder / "env")

    async def run(
        self, behaviour: dict[str, Any] | None = None, *args: Any, **changes: Any
    ) -> CollectiveReport:
        asked = request(self.python, behaviour, *args, **changes)
        return await program(self.folder).run(asked)

    def processes(self) -> list[int]:
        return processes_of(self.folder)

    def clean(self) -> bool:
        return not left_folders(self.folder) and not self.processes()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(400):
        if condition():
            return
        await asyncio.sleep(0.025)
    raise AssertionError("it did not come true")


async def test_two_healthy_cards_pass_every_operation(place: Place) -> None:
    report = await place.run()

    assert report.passed and report.ended == "complete"
    assert [step.plan.op for step in report.steps] == OPS
    assert {step.wrong_values for step in report.steps} == {0}
    assert report.transports == ("SHM/direct",)
    assert (report.torch_version, report.nccl_version) == ("2.13.0+cu130", "2.28.9")
    assert [pair.status for pair in report.peers] == ["ok", "ok"]
    assert report.speed_mbps is not None and report.speed_mbps > 0
    assert report.left_pids == ()
    await eventually(place.clean)


@pytest.mark.parametrize("rank", [0, 1])
async def test_error_of_one_rank_is_told_and_the_other_is_not_waited_for(
    place: Place, rank: int
) -> None:
    text = "NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
    behaviour = {"fault": "error", "text": text, "rank": rank, "log": ["NCCL WARN Cuda failure 1"]}
    report = await place.run(behaviour, peers=False)

    assert report.ended == "failed" and not report.passed
    assert report.steps[0].status == "error"
    assert {step.status for step in report.steps[1:]} == {"skipped"}
    assert text in report.ranks[rank].error and not report.ranks[1 - rank].error
    assert report.log[0] == "NCCL WARN Cuda failure 1"


async def test_hang_ends_at_the_limit_of_a_step(place: Place) -> None:
    behaviour = {"fault": "hang", "from_bytes": 1024}
    report = await place.run(behaviour, step_s=1.0, peers=False)

    assert report.ended == "hang"
    assert [step.status for step in report.steps[:3]] == ["ok", "hang", "skipped"]
    assert report.largest_ok_bytes == 8 and report.first_bad_bytes == 1024
    assert report.left_pids == ()
    await eventually(place.clean)


async def test_wrong_values_are_counted_and_the_rest_is_still_tried(place: Place) -> None:
    report = await place.run({"fault": "wrong", "from_bytes": 1024}, peers=False)

    assert [step.status for step in report.steps] == ["ok", "wrong", "ok", "ok", "ok", "ok"]
    assert report.steps[1].wrong_values > 0
    assert not report.passed and report.ended == "complete"


async def test_crash_of_a_rank_shows_its_last_words(place: Place) -> None:
    report = await place.run({"fault": "crash", "rank": 1}, peers=False)

    assert report.ended == "crash"
    assert report.ranks[1].exit_code == 134
    assert "illegal memory access" in report.complaints


async def test_fault_of_large_collectives_only_is_found_from_512_kib_on(place: Place) -> None:
    steps = [StepPlan("all_reduce", "float16", size, False) for size in (8, 262144, 524288)]
    behaviour = {"fault": "error", "text": "an illegal memory access", "from_bytes": 524288}
    report = await place.run(behaviour, steps, peers=False, step_s=30.0)

    assert report.largest_ok_bytes == 262144 and report.first_bad_bytes == 524288


@pytest.mark.parametrize("peer", ["wrong", "hang", "error"])
async def test_peer_copies_are_compared_and_do_not_keep_the_ranks_from_running(
    place: Place, peer: str
) -> None:
    behaviour = {"peer": peer, "peer_reported": True}
    report = await place.run(behaviour, SMALL[:1], step_s=1.5)

    assert report.peers[0].status == peer and report.peers[0].reported
    assert report.passed


async def test_more_ranks_than_cards(place: Place) -> None:
    report = await place.run({"cards": 1}, SMALL[:1], peers=False)

    assert "rank 1 needs CUDA device 1, but 1 are visible" in report.complaints


async def test_time_for_everything_is_limited(place: Place) -> None:
    behaviour = {"fault": "hang"}
    report = await place.run(behaviour, total_s=1.0, peers=False)

    assert report.ended == "late"


async def test_library_that_hangs_while_it_is_closed_proves_nothing(place: Place) -> None:
    report = await place.run({"fault": "hang-at-end"}, SMALL[:2], peers=False)

    assert report.passed and report.left_pids == ()
    await eventually(place.clean)


async def test_cancelled_run_leaves_nothing(place: Place) -> None:
    task = asyncio.ensure_future(place.run({"fault": "hang"}, peers=False))
    await eventually(lambda: len(place.processes()) >= 4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await eventually(place.clean)


async def test_killed_coordinator_takes_ranks_segments_and_files_along(place: Place) -> None:
    segment = f"nccl-test{os.getpid()}"
    behaviour = {"fault": "hang", "segment": segment}
    task = asyncio.ensure_future(place.run(behaviour, peers=False))
    path = Path("/dev/shm") / segment
    await eventually(lambda: path.exists() and len(place.processes()) >= 4)
    await asyncio.sleep(0.3)  # the coordinator looks at its ranks every tenth of a second
    os.kill(min(place.processes()), signal.SIGKILL)

    with pytest.raises(HostError):
        await task
    await eventually(lambda: place.clean() and not path.exists())


async def test_segments_of_other_programs_are_left_alone(place: Place) -> None:
    other = Path("/dev/shm") / f"nccl-other{os.getpid()}"
    mine = f"nccl-mine{os.getpid()}"
    other.write_bytes(b"x")
    try:
        await place.run({"fault": "hang", "segment": mine}, start_s=2.0, peers=False)
        assert other.exists()
        assert not (Path("/dev/shm") / mine).exists()
    finally:
        other.unlink(missing_ok=True)


async def test_python_without_torch_is_no_finding(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    report = await program(tmp_path).run(request(str(python), steps=SMALL[:1], peers=False))

    assert "No module named 'torch'" in report.complaints


async def test_python_that_is_not_there_is_a_host_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot be started"):
        await program(tmp_path).run(request(str(tmp_path / "none")))


async def test_program_that_says_nothing_is_a_host_error() -> None:
    host = MemoryHost()
    host.programs["env"] = lambda argv: 0
    with pytest.raises(HostError, match="gave no answer"):
        await CollectiveProgram(host, assets.read_text).run(CollectiveRequest("/x/python"))


def test_request_follows_the_profile() -> None:
    profile = profile_with(env={"NCCL_P2P_DISABLE": "1"}, tensor_parallel_size=4)
    asked = request_for(profile, INSTALL)

    assert asked.python == f"{INSTALL.environment}/bin/python"
    assert (asked.world, dict(asked.env)) == (4, {"NCCL_P2P_DISABLE": "1"})
    assert request_for(profile_with(tensor_parallel_size=1), INSTALL).world == 2
    assert request_for(PROFILE, None).python == f"{PROFILE.engine.environment}/bin/python"
    assert request_for(None, None, python="/p").python == "/p"
    with pytest.raises(HostError):
        request_for(None, None)


async def test_probe_answers_with_what_checks_can_read() -> None:
    class Program:
        async def run(self, asked: CollectiveRequest) -> CollectiveReport:
            self.asked = asked
            return REPORT

    fake: Any = Program()
    probe = CollectiveProbe(fake, python="/p", extra_env={"A": "1"}, devices=(0, 0))
    output = await probe(profile_with(env={"B": "2"}), INSTALL)

    assert output.returncode == 0 and output.stdout == dump(REPORT)
    assert fake.asked.env == {"A": "1", "B": "2"}
    assert (fake.asked.devices, fake.asked.world) == ((0, 0), 2)
    assert probe.report is REPORT


REPORT = CollectiveReport(2, "nccl", "complete", (), ())
