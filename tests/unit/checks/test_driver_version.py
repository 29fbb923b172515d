from __future__ import annotations

import pytest

from fixtures.standard_machine import (
    DRIVER,
    GPU,
    answer,
    facts,
    missing_program,
    on_linux,
    timed_out,
)
from twinrig.checks.driver_version import CHECK
from twinrig.checks.gpu_facts import driver_cuda, driver_version
from twinrig.domain.checks import Status


def with_driver(version: str) -> tuple[object, object]:
    return (
        answer("gpu", GPU.replace("591.44", version)),
        answer("driver", DRIVER.replace("591.44", version)),
    )


def test_healthy_driver_names_version_and_cuda() -> None:
    result = CHECK.judge(facts())

    assert result.status is Status.PASS
    assert str(result.summary) == "Driver 591.44, CUDA up to 13.1"


@pytest.mark.parametrize("version", ["525.60.13", "527.41", "572.61", "580.65.06", "9999.01"])
def test_a_driver_above_the_minimum_is_never_outdated(version: str) -> None:
    result = CHECK.judge(facts(*with_driver(version)))  # type: ignore[arg-type]

    assert (result.status, result.finding) == (Status.PASS, None)


@pytest.mark.parametrize("version", ["470.256.02", "516.94", "524.99"])
def test_below_525_fails(version: str) -> None:
    result = CHECK.judge(facts(*with_driver(version)))  # type: ignore[arg-type]

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.id == "driver-too-old"
    assert result.finding.params == (("driver", version), ("needed", "525"))
    assert result.finding.fixes == ("win-driver-update",)
    assert version in str(result.summary)


def test_linux_gets_words_instead_of_a_windows_fix() -> None:
    result = CHECK.judge(on_linux(*with_driver("470.1")))  # type: ignore[arg-type]

    assert result.finding is not None
    assert result.finding.fixes == ()
    assert result.next_step is not None


@pytest.mark.parametrize(
    ("header", "version", "cuda"),
    [
        ("| NVIDIA-SMI 615.10   KMD Version: 617.14   CUDA UMD Version: 13.4 |", "617.14", (13, 4)),
        ("Driver Version: 580.65.06   CUDA Version: 13.0", "580.65.06", (13, 0)),
        ("Driver Version: 580.65.06   CUDA Version: N/A", "580.65.06", None),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build",
            "570.124.06",
            None,
        ),
    ],
)
def test_both_generations_of_the_head_and_the_kernel_file_are_read(
    header: str, version: str, cuda: tuple[int, int] | None
) -> None:
    machine = facts(answer("gpu", "", code=1), answer("driver", header))

    assert driver_version(machine) == version
    assert driver_cuda(machine) == cuda


def test_version_without_cuda_still_passes() -> None:
    result = CHECK.judge(facts(answer("driver", "", code=1)))

    assert result.status is Status.PASS
    assert str(result.summary) == "Driver 591.44"


def test_needs_visible_cards_first() -> None:
    assert CHECK.requires == ("gpu-visible",)


@pytest.mark.parametrize("make", [timed_out, missing_program])
def test_no_answer_is_an_error(make: object) -> None:
    result = CHECK.judge(facts(make("gpu"), make("driver")))  # type: ignore[operator]

    assert (result.status, result.finding) == (Status.ERROR, None)


@pytest.mark.parametrize("text", ["", "ドライバー バージョン: 不明", "Driver Version: N/A"])
def test_garbage_is_an_error(text: str) -> None:
    result = CHECK.judge(facts(answer("gpu", "[N/A]\n"), answer("driver", text)))

    assert (result.status, result.finding) == (Status.ERROR, None)
