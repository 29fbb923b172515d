from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.standard_machine import (
    DRIVER,
    GPU,
    INSTALL,
    answer,
    facts,
    missing_program,
    on_linux,
    timed_out,
)
from twinrig.checks.cuda_wheels import CHECK, read_wheels
from twinrig.domain.checks import CheckResult, Facts, ProbeOutput, Status


def environment(torch: str, *, vllm: str = "0.11.2", needs: str = "", has: str = "") -> ProbeOutput:
    """``torch`` is a CUDA version such as 12.8; ``needs`` and ``has`` are majors of cudart."""
    tag = torch.replace(".", "")
    lines = [f"dist torch 2.9.0+cu{tag}", f"dist vllm {vllm}", f"torch_cuda={torch}"]
    lines += [f"cudart={major}" for major in has.split()]
    lines += [f"vllm_cudart={major}" for major in needs.split()]
    return answer("environment", "\n".join(lines) + "\n")


def driver(version: str, capability: str = "8.6") -> tuple[ProbeOutput, ProbeOutput]:
    return (
        answer("gpu", GPU.replace("591.44", version).replace(", 8.6", f", {capability}")),
        answer("driver", DRIVER.replace("591.44", version)),
    )


def judge(version: str, wheels: ProbeOutput, capability: str = "8.6") -> CheckResult:
    machine: Facts = facts(*driver(version, capability), wheels, install=bare_install())
    return CHECK.judge(machine)


def bare_install() -> object:
    return replace(INSTALL, version="0.11.2", torch_version="", torch_cuda=None)


@pytest.mark.parametrize(
    ("version", "torch", "needs"),
    [
        ("591.44", "13.0", "13"),
        ("580.65.06", "13.0", "13"),
        ("525.60.13", "12.6", "12"),
        ("528.33", "12.9", "12"),
        ("617.14", "12.6", "12"),
        # torch for CUDA 12.8, vLLM for 12.9, driver of CUDA 12.8: runs, and is no warning
        ("572.61", "12.8", "12"),
    ],
)
def test_fitting_wheels_pass_without_a_warning(version: str, torch: str, needs: str) -> None:
    result = judge(version, environment(torch, needs=needs, has=needs))

    assert (result.status, result.finding) == (Status.PASS, None)


def test_torch_cu128_with_vllm_cu129_on_a_12_8_driver_passes() -> None:
    result = judge("572.61", environment("12.8", vllm="0.11.2+cu129"))

    assert (result.status, result.finding) == (Status.PASS, None)
    assert str(result.summary) == "Wheels for CUDA 12.8 run on driver 572.61"


@pytest.mark.parametrize("version", ["579.99", "572.61", "525.60"])
def test_cuda_13_wheels_on_an_older_driver_fail_with_wheels_first(version: str) -> None:
    result = judge(version, environment("13.0", needs="13", has="13"))

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.id == "driver-too-old"
    assert result.finding.param("needed") == "580"
    assert result.finding.fixes == ("pkg-cu12-wheels", "win-driver-update")


def test_cuda_14_is_not_declared_fine_on_an_old_driver() -> None:
    assert judge("572.61", environment("14.0")).status is Status.FAIL
    assert judge("700.10", environment("14.0")).status is Status.PASS


def test_cuda_13_vllm_beside_cuda_12_torch_on_an_old_driver() -> None:
    result = judge("572.61", environment("12.8", needs="13", has="12"))

    assert result.finding is not None
    assert result.finding.id == "cudart13-missing"
    assert result.finding.fixes == ("pkg-cu12-wheels", "win-driver-update")


def test_cuda_13_vllm_beside_cuda_12_torch_on_a_new_driver() -> None:
    result = judge("591.44", environment("12.8", needs="13", has="12"))

    assert result.finding is not None
    assert result.finding.id == "cudart13-missing"
    assert result.finding.fixes == ("pkg-cu12-wheels", "pkg-reinstall-matching")


def test_run_time_library_of_the_other_major_present_is_enough() -> None:
    result = judge("591.44", environment("12.8", needs="13", has="12 13"))

    assert result.status is Status.PASS


def test_mirror_image_cuda_12_vllm_beside_cuda_13_torch() -> None:
    result = judge("591.44", environment("13.0", needs="12", has="13"))

    assert result.finding is not None
    assert result.finding.id == "cudart13-missing"
    assert result.finding.param("cuda_major") == "12"
    assert result.finding.fixes == ("pkg-reinstall-matching",)


def test_linux_is_not_offered_a_windows_driver() -> None:
    machine = on_linux(*driver("570.26"), environment("13.0"), install=bare_install())
    result = CHECK.judge(machine)

    assert result.finding is not None
    assert result.finding.fixes == ("pkg-cu12-wheels",)


@pytest.mark.parametrize(
    ("capability", "torch", "status"),
    [
        ("12.0", "12.6", Status.FAIL),
        ("12.0", "12.8", Status.PASS),
        ("8.9", "12.6", Status.PASS),
        ("[N/A]", "12.6", Status.PASS),
    ],
)
def test_new_cards_need_cuda_12_8(capability: str, torch: str, status: Status) -> None:
    result = judge("591.44", environment(torch), capability)

    assert result.status is status
    if result.finding is not None:
        assert result.finding.id == "no-kernel-image"
        assert result.finding.fixes == ("pkg-cu128-wheels",)


@pytest.mark.parametrize("text", ["dist torch 2.9.0+cpu\n", "dist torch 2.9.0\ntorch_cuda=None\n"])
def test_torch_without_cuda_fails(text: str) -> None:
    result = judge("591.44", answer("environment", text))

    assert result.finding is not None
    assert result.finding.id == "torch-cpu-build"


def test_what_the_finder_read_counts_when_the_probe_says_nothing() -> None:
    machine = facts(answer("environment", ""))

    assert read_wheels(machine).torch_cuda == (12, 8)
    assert CHECK.judge(machine).status is Status.PASS


def test_no_engine_is_a_skip_and_prerequisites_are_named() -> None:
    assert CHECK.judge(facts(install=None)).status is Status.SKIP
    assert CHECK.requires == ("driver-version", "engine-installed")


@pytest.mark.parametrize("output", [timed_out("environment"), missing_program("environment")])
def test_no_answer_is_an_error(output: ProbeOutput) -> None:
    result = judge("591.44", output)

    assert (result.status, result.finding) == (Status.ERROR, None)


@pytest.mark.parametrize(
    "text", ["", "torch_cuda=十二\n", "torch_cuda=12\n", "dist torch\n", "x\x00"]
)
def test_garbage_is_an_error(text: str) -> None:
    result = judge("591.44", answer("environment", text))

    assert (result.status, result.finding) == (Status.ERROR, None)


def test_unknown_driver_is_an_error() -> None:
    result = CHECK.judge(facts(answer("gpu", ""), answer("driver", "?")))

    assert (result.status, result.finding) == (Status.ERROR, None)
