"""Checks about WSL's driver and version, the cards' memory, and workers left over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fixtures.standard_machine import (
    GPU,
    answer,
    facts,
    missing_program,
    on_linux,
    profile_with,
    timed_out,
)
from twinrig.checks import gpu_mismatch, orphan_workers, vram_free, wsl_driver, wsl_version
from twinrig.domain.checks import CheckResult, ProbeOutput, Status
from twinrig.domain.profile import EnvEntry

BLACKWELL = answer("gpu", GPU.replace("8.6", "12.0"))


def kind(result: CheckResult) -> str:
    return result.finding.id if result.finding else ""


# --- driver and version of WSL


def wsl(text: str) -> ProbeOutput:
    return answer("wsl", text)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("driver=yes\n", Status.PASS),
        ("driver=no\n", Status.FAIL),
        ("driver=yes\nforeign /usr/lib/x86_64-linux-gnu/libcuda.so.580.82\n", Status.WARN),
        ("driver=yes\npackage libnvidia-compute-580\n", Status.WARN),
    ],
)
def test_driver_inside_wsl(text: str, status: Status) -> None:
    result = wsl_driver.judge(facts(wsl(text)))
    assert result.status is status
    assert kind(result) == ("" if status is Status.PASS else "cuda-driver-missing-wsl")


def test_driver_of_a_native_machine_is_its_own() -> None:
    assert wsl_driver.judge(on_linux(wsl("driver=no\nforeign /x\n"))).status is Status.PASS


@pytest.mark.parametrize("name", ["system", "wsl"])
def test_driver_inside_wsl_could_not_tell(name: str) -> None:
    for output in (timed_out(name), missing_program(name), answer(name, "", code=1)):
        assert wsl_driver.judge(facts(output)).status is Status.ERROR
        assert wsl_version.judge(facts(output)).status is Status.ERROR


@pytest.mark.parametrize(
    ("version", "status"),
    [("2.6.3.0", Status.FAIL), ("2.7.0.0", Status.PASS), ("2.9.4", Status.PASS)],
)
def test_graphs_on_new_cards_need_a_new_wsl(version: str, status: Status) -> None:
    result = wsl_version.judge(facts(BLACKWELL, wsl(f"driver=yes\nwsl_version={version}\n")))
    assert result.status is status
    assert kind(result) == ("blackwell-graphs-wsl" if status is Status.FAIL else "")


def test_old_wsl_is_fine_for_older_cards_and_without_graphs() -> None:
    old = wsl("driver=yes\nwsl_version=2.5.8.0\n")
    assert wsl_version.judge(facts(old)).status is Status.PASS
    eager = profile_with(enforce_eager=True)
    assert wsl_version.judge(facts(old, BLACKWELL, profile=eager)).status is Status.PASS
    assert wsl_version.judge(on_linux(old, BLACKWELL)).status is Status.PASS


def test_unknown_wsl_matters_only_for_new_cards() -> None:
    unknown = wsl("driver=yes\n")
    nobody = answer("windows_wsl", "installed=no\nwsl_version=\n")
    assert wsl_version.judge(facts(unknown, nobody)).status is Status.PASS
    assert wsl_version.judge(facts(unknown, nobody, BLACKWELL)).status is Status.ERROR


def test_windows_tells_the_version_where_the_distribution_does_not() -> None:
    unknown = wsl("driver=yes\n")
    assert wsl_version.judge(facts(unknown, BLACKWELL)).status is Status.FAIL
    new = answer("windows_wsl", "installed=yes\nwsl_version=2.7.0.0\n")
    assert wsl_version.judge(facts(unknown, new, BLACKWELL)).status is Status.PASS


# --- memory


def used(first: str, second: str = "4") -> ProbeOutput:
    rows = GPU.replace("24576, 4,", f"24576, {second},").replace("24576, 812,", f"24576, {first},")
    return answer("gpu", rows)


def test_free_memory_is_judged_by_the_share_that_is_claimed() -> None:
    assert vram_free.judge(facts(used("1900"))).status is Status.PASS
    result = vram_free.judge(facts(used("4096")))

    assert result.status is Status.FAIL and kind(result) == "vram-startup-not-free"
    assert result.finding is not None
    assert dict(result.finding.params) == {"gpu": "0", "free_gib": "20.00", "total_gib": "24.00"}
    lower = profile_with(gpu_memory_utilization=0.8)
    assert vram_free.judge(facts(used("4096"), profile=lower)).status is Status.PASS


def test_second_card_is_looked_at_too() -> None:
    result = vram_free.judge(facts(used("4", "9000")))
    assert result.finding is not None and result.finding.param("gpu") == "1"


@pytest.mark.parametrize("line", ["server 411", "worker 512 411 - VLLM::Worker_TP0"])
def test_memory_of_a_server_that_runs_is_not_missed(line: str) -> None:
    busy = answer("workers", f"checked=yes\n{line}\n")
    assert vram_free.judge(facts(used("23000"), busy)).status is Status.PASS


@pytest.mark.parametrize(
    "output",
    [
        timed_out("gpu"),
        missing_program("gpu"),
        answer("gpu", "?"),
        answer("gpu", GPU.replace("24576", "[N/A]")),
    ],
)
def test_memory_that_is_not_told_is_no_finding(output: Any) -> None:
    for check in (vram_free, gpu_mismatch):
        assert check.judge(facts(output)).status is Status.ERROR


def test_cards_of_different_size_waste_the_larger_one() -> None:
    mixed = answer("gpu", GPU.replace("RTX 3090, 24576, 812", "RTX 4070, 12282, 812"))
    result = gpu_mismatch.judge(facts(mixed))

    assert result.status is Status.WARN and kind(result) == "gpu-mismatch"
    split = profile_with(tensor_parallel_size=1)
    assert gpu_mismatch.judge(facts(mixed, profile=split)).status is Status.PASS
    chosen = replace(profile_with(), env={"CUDA_VISIBLE_DEVICES": EnvEntry("0,1")})
    assert gpu_mismatch.judge(facts(mixed, profile=chosen)).status is Status.PASS


def test_other_names_of_the_same_size_are_harmless() -> None:
    named = answer("gpu", GPU.replace("RTX 3090, 24576, 812", "RTX 4090, 24564, 812"))
    assert gpu_mismatch.judge(facts(named)).status is Status.PASS


# --- workers


def test_workers_without_a_server_hold_the_cards() -> None:
    text = "checked=yes\nworker 512 1 run-1 VLLM::Worker_TP0\nworker 513 1 run-1 VLLM::Worker_TP1\n"
    result = orphan_workers.judge(facts(answer("workers", text)))

    assert result.status is Status.FAIL and kind(result) == "vllm-orphan-workers"
    assert result.finding is not None and result.finding.param("pids") == "512,513"
    running = answer("workers", f"{text}server 411\n")
    assert orphan_workers.judge(facts(running)).status is Status.PASS


@pytest.mark.parametrize(
    "output", [timed_out("workers"), missing_program("workers"), answer("workers", "")]
)
def test_workers_could_not_be_told(output: Any) -> None:
    assert orphan_workers.judge(facts(output)).status is Status.ERROR
