"""One engine's cards cannot talk: is it the machine, or that engine's set-up?"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from fixtures.standard_machine import INSTALL, PROFILE, TABBY_INSTALL, TABBY_PROFILE
from twinrig.domain.collective import CollectiveReport, RankFacts, StepOutcome, StepPlan
from twinrig.domain.errors import HostError
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import EnvEntry, Profile
from twinrig.messages import message
from twinrig.services.collective import CollectiveRequest
from twinrig.services.engine_comparison import Comparison, compare_engines

OTHER = replace(TABBY_PROFILE, id="tabby", env={"NCCL_SOCKET_IFNAME": EnvEntry("lo")})


def report(passes: bool, torch: str, nccl: str, via: str = "SHM/direct") -> CollectiveReport:
    step = StepOutcome(StepPlan("all_reduce", "float16", 8), "ok" if passes else "error")
    ranks = tuple(RankFacts(rank, torch=torch, nccl=nccl, exit_code=0) for rank in (0, 1))
    log = (f"Channel 00 : 0[0] -> 1[1] via {via}",)
    ended = "complete" if passes else "failed"
    return CollectiveReport(2, "nccl", ended, ranks, (step,), log=log)


FAILED = report(False, "2.9.0", "2.27.5", "P2P/CUMEM")


class Bench:
    """Two engines on one machine; ``answer`` is what the other one's ranks show."""

    def __init__(self, answer: CollectiveReport | HostError, *profiles: Profile) -> None:
        self.answer = answer
        self.requests: list[CollectiveRequest] = []
        self.candidates = {"vllm": None, "tabbyapi": None}
        self.profiles = SimpleNamespace(list=lambda: SimpleNamespace(profiles=profiles))
        self.installs = self
        self.collective = self

    async def find(self, engine_id: str, environment: str = "") -> tuple[EngineInstall, ...]:
        return (TABBY_INSTALL if engine_id == "tabbyapi" else INSTALL,)

    async def run(self, request: CollectiveRequest) -> CollectiveReport:
        self.requests.append(request)
        if isinstance(self.answer, HostError):
            raise self.answer
        return self.answer


async def compare(bench: Bench) -> Comparison | None:
    made: Any = bench
    return await compare_engines(made, PROFILE, FAILED)


async def test_machine_is_able_and_what_differs_is_told() -> None:
    bench = Bench(report(True, "2.11.0", "2.27.5"), PROFILE, OTHER)
    found = await compare(bench)

    assert found is not None and found.able
    assert "The machine is able" in str(found.text) and "vllm" in str(found.text)
    assert [str(line) for line in found.differences] == [
        "torch: 2.9.0 for vllm, 2.11.0 for tabbyapi",
        "transport: P2P/CUMEM for vllm, SHM/direct for tabbyapi",
        "NCCL_SOCKET_IFNAME: - for vllm, lo for tabbyapi",
    ]
    (request,) = bench.requests
    assert request.python == f"{TABBY_INSTALL.environment}/bin/python"
    assert request.env == {"NCCL_SOCKET_IFNAME": "lo"}


async def test_machine_that_cannot_do_it_is_not_blamed_on_the_engine() -> None:
    found = await compare(Bench(report(False, "2.11.0", "2.27.5"), PROFILE, OTHER))
    assert found is not None and not found.able and found.differences == ()
    assert "it is the machine" in str(found.text)


async def test_without_another_engine_nothing_is_said() -> None:
    twin = replace(PROFILE, id="twin")
    demo = replace(PROFILE, id="d", engine=replace(PROFILE.engine, id="demo"))
    assert await compare(Bench(report(True, "", ""), PROFILE, twin, demo)) is None


async def test_engine_that_does_not_answer_tells_nothing() -> None:
    assert await compare(Bench(HostError(message("gone")), PROFILE, OTHER)) is None
