from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Collection
from dataclasses import replace

import pytest

from fixtures.memory_host import FakeClock, MemoryHost, host_error
from fixtures.standard_machine import ANSWERS, INSTALL, PROFILE, answer, missing_program, timed_out
from fixtures.windows_side import MemoryWindows
from twinrig.checks.registry import CHECKS
from twinrig.domain.checks import (
    Check,
    CheckResult,
    Cost,
    Facts,
    ProbeOutput,
    Status,
)
from twinrig.domain.errors import UsageError
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import Profile
from twinrig.domain.windows import is_windows_probe
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.local.host import LocalHost
from twinrig.messages import message
from twinrig.services.preflight import Preflight, is_about

CHEAP = tuple(c for c in CHECKS if c.cost is Cost.CHEAP and is_about(c, PROFILE))


class Finder:
    """Finds what it was told to; ``error`` is raised instead."""

    def __init__(self, *found: EngineInstall) -> None:
        self.found = found
        self.error: Exception | None = None
        self.asked: list[tuple[str, str]] = []

    async def find(self, engine_id: str, environment: str = "") -> tuple[EngineInstall, ...]:
        self.asked.append((engine_id, environment))
        if self.error is not None:
            raise self.error
        return self.found


def machine(*outputs: ProbeOutput) -> MemoryHost:
    """The standard machine with some answers replaced."""
    special = {output.name: output for output in outputs}
    return MemoryHost(lambda name: special.get(name) or answer(name, ANSWERS[name]))


async def run(
    host: MemoryHost,
    profile: Profile | None = PROFILE,
    ids: Collection[str] | None = None,
    checks: tuple[Check, ...] = CHECKS,
    finder: Finder | None = None,
) -> dict[str, CheckResult]:
    windows = MemoryWindows()
    preflight = Preflight(host, checks, finder or Finder(INSTALL), FakeClock(), windows=windows)
    return {result.check_id: result async for result in preflight.run(profile, ids)}


def made_up(check_id: str, judge: object, **changes: object) -> Check:
    check = Check(check_id, "A title", ("ptrace",), judge)  # type: ignore[arg-type]
    return replace(check, **changes)


def fine(facts: Facts) -> CheckResult:
    return CheckResult("", Status.PASS, message("fine"))


async def test_healthy_machine_passes_in_registry_order_with_one_call() -> None:
    host = machine()
    results = await run(host)

    assert list(results) == [check.id for check in CHEAP]
    assert {result.status for result in results.values()} == {Status.PASS}
    assert host.calls == ["probes"]


async def test_every_probe_is_asked_for_once() -> None:
    host = machine()
    await run(host)

    (request,) = host.requests
    asked = {name for check in CHEAP for name in (*check.probes, *check.optional)}
    assert sorted(request.names) == sorted(n for n in asked if not is_windows_probe(n))
    assert len(request.nonce) == 32
    assert (request.model_path, request.environment) == (PROFILE.model.path, INSTALL.environment)
    assert request.endpoint == "127.0.0.1:8000"


async def test_nonce_is_new_for_each_run() -> None:
    host = machine()
    await run(host)
    await run(host)

    assert host.requests[0].nonce != host.requests[1].nonce


async def test_noise_before_the_answers_does_not_matter() -> None:
    host = machine()
    host.noise = "Welcome!\nW\x00e\x00 NVIDIA-SMI has failed\n"

    assert {result.status for result in (await run(host)).values()} == {Status.PASS}


async def test_machine_without_a_card_fails_once_and_names_the_cause() -> None:
    results = await run(machine(missing_program("gpu"), missing_program("driver")))

    failed = [name for name, result in results.items() if result.status is Status.FAIL]
    skipped = [name for name, result in results.items() if result.status is Status.SKIP]
    assert failed == ["gpu-visible"]
    assert {"gpu-count", "driver-version", "cuda-wheels", "vram-free"} < set(skipped)
    assert "NVIDIA cards are visible" in str(results["driver-version"].summary)
    assert "NVIDIA driver is recent enough" in str(results["cuda-wheels"].summary)


async def test_prerequisite_that_could_not_tell_skips_its_dependants_too() -> None:
    results = await run(machine(timed_out("gpu")))

    assert results["gpu-visible"].status is Status.ERROR
    assert results["gpu-count"].status is Status.SKIP


async def test_warning_of_a_prerequisite_is_good_enough() -> None:
    slow = answer("model", ANSWERS["model"].replace("ext2/ext3", "v9fs"))
    results = await run(machine(slow))

    assert results["model-folder"].status is Status.WARN
    assert results["ram-size"].status is Status.PASS


async def test_without_a_profile_checks_about_one_are_skipped_with_the_reason() -> None:
    results = await run(machine(), profile=None)

    needing = {c.id for c in CHECKS if c.needs_profile and c.cost is Cost.CHEAP}
    assert {n for n, r in results.items() if r.status is Status.SKIP} == needing
    assert {str(results[name].summary) for name in needing} == {"No profile was given."}


async def test_only_the_named_checks_are_reported_but_prerequisites_are_judged() -> None:
    host = machine(missing_program("gpu"))
    results = await run(host, ids=["cuda-wheels", "port-free"])

    assert list(results) == ["cuda-wheels", "port-free"]
    assert results["cuda-wheels"].status is Status.SKIP
    assert host.calls == ["probes"]
    assert "disk" not in host.requests[0].names


async def test_unknown_check_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="nonsense"):
        await run(machine(), ids=["nonsense"])


async def test_unreachable_host_makes_every_check_an_error_with_the_next_step() -> None:
    host = machine()
    host.unreachable = host_error("gone")
    results = await run(host)

    assert results["gpu-visible"].status is Status.ERROR
    assert "gone" in str(results["gpu-visible"].summary)
    assert str(results["gpu-visible"].next_step) == "Try again."
    assert not any(result.finding for result in results.values())


async def test_answer_that_is_missing_is_an_error_of_that_check_alone() -> None:
    host = MemoryHost(lambda name: None if name == "disk" else answer(name, ANSWERS[name]))
    results = await run(host)

    assert results["disk-free"].status is Status.ERROR
    assert {r.status for name, r in results.items() if name != "disk-free"} == {Status.PASS}


async def test_crash_of_one_check_is_its_own_error_with_the_exception_as_evidence() -> None:
    def crash(facts: Facts) -> CheckResult:
        raise ZeroDivisionError("by nought")

    checks = (made_up("bad", crash), made_up("good", fine))
    results = await run(machine(), checks=checks)

    assert results["bad"].status is Status.ERROR
    assert results["bad"].evidence[0].text == "ZeroDivisionError: by nought"
    assert results[""].status is Status.PASS


async def test_check_that_never_ends_is_cut_off_and_the_next_one_runs() -> None:
    release = threading.Event()

    def hang(facts: Facts) -> CheckResult:
        release.wait(20)
        return fine(facts)

    checks = (made_up("slow", hang, timeout_s=0.05), made_up("good", fine))
    try:
        results = await run(machine(), checks=checks)
    finally:
        release.set()

    assert results["slow"].status is Status.ERROR
    assert "0.05 s" in str(results["slow"].summary)
    assert results[""].status is Status.PASS


async def test_cancelling_ends_the_call_to_the_host() -> None:
    host = machine()
    host.hold = asyncio.Event()
    task = asyncio.create_task(run(host))
    while not host.requests:
        await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert host.cancelled


async def test_engine_that_is_not_found_is_a_failure_and_its_dependants_skip() -> None:
    results = await run(machine(), finder=Finder())

    assert results["engine-installed"].status is Status.FAIL
    assert results["python-version"].status is Status.SKIP
    assert results["cuda-wheels"].status is Status.SKIP


async def test_search_that_fails_is_an_error_not_a_missing_engine() -> None:
    finder = Finder()
    finder.error = host_error("no answer")
    results = await run(machine(), finder=finder)

    assert results["engine-installed"].status is Status.ERROR
    assert results["gpu-visible"].status is Status.PASS


async def test_finder_is_asked_for_the_engine_and_environment_of_the_profile() -> None:
    finder = Finder(INSTALL)
    await run(machine(), finder=finder)
    await run(machine(), profile=None, finder=finder)

    assert finder.asked == [("vllm", PROFILE.engine.environment)]


async def test_slow_checks_run_only_when_asked() -> None:
    host = machine()
    checks = (made_up("cheap", fine), made_up("slow", fine, cost=Cost.SLOW))
    preflight = Preflight(host, checks, Finder(INSTALL), FakeClock())

    assert len([result async for result in preflight.run(PROFILE)]) == 1
    assert len(host.requests) == 1
    assert len([result async for result in preflight.run(PROFILE, ["slow"])]) == 1
    assert len(host.requests) == 2


async def test_facts_for_a_fix_ask_only_what_it_needs() -> None:
    host = machine()
    preflight = Preflight(host, CHECKS, Finder(INSTALL), FakeClock())
    facts = await preflight.facts(PROFILE, ("ptrace", "ptrace_file"))

    assert facts.probe("ptrace").stdout == "1\n"
    assert facts.install == INSTALL
    assert host.requests[0].names == ("ptrace", "ptrace_file")

    assert (await preflight.facts(PROFILE, ())).probes == {}
    assert len(host.requests) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the probes are for Linux")
async def test_this_computer_is_asked_by_the_real_host() -> None:
    host = LocalHost(dict(os.environ))
    preflight = Preflight(host, CHECKS, Finder(), SystemClock())
    results = [result async for result in preflight.run(PROFILE)]

    assert [result.check_id for result in results] == [check.id for check in CHEAP]
    by_id = {result.check_id: result for result in results}
    assert by_id["disk-free"].status in {Status.PASS, Status.WARN, Status.FAIL}
    assert by_id["model-folder"].finding is not None
    assert by_id["model-folder"].finding.id == "model-path-missing"
