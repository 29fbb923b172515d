from __future__ import annotations

import pytest

from fixtures.standard_machine import (
    DF_HEAD,
    answer,
    facts,
    missing_program,
    profile_with,
    timed_out,
)
from twinrig.checks.shm_size import CHECK
from twinrig.domain.checks import CheckResult, Severity, Status


def judge(size_kib: int, free_kib: int, left: str = "") -> CheckResult:
    used = size_kib - free_kib
    return CHECK.judge(
        facts(answer("shm", f"{DF_HEAD}shm {size_kib} {used} {free_kib} 1% /dev/shm\n{left}"))
    )


def test_half_of_the_ram_passes() -> None:
    result = CHECK.judge(facts())

    assert result.status is Status.PASS
    assert str(result.summary) == "Free in /dev/shm: 15.6 GiB"


def test_default_of_a_container_fails() -> None:
    result = judge(65536, 65536)

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.id == "shm-too-small"
    assert result.finding.param("size_mib") == "64"
    assert result.finding.fixes == ("shm-size",)


@pytest.mark.parametrize(
    ("free_kib", "status"),
    [
        (262143, Status.FAIL),
        (262144, Status.WARN),
        (1048575, Status.WARN),
        (1048576, Status.PASS),
    ],
)
def test_limits_are_256_mib_and_1_gib(free_kib: int, status: Status) -> None:
    assert judge(16_000_000, free_kib).status is status


def test_leftovers_are_counted_and_shown() -> None:
    result = judge(1_000_000, 0, "left 500 /dev/shm/nccl-a\nleft 600 /dev/shm/psm_b\n")

    assert result.finding is not None
    assert result.finding.param("leftovers") == "2"
    assert "/dev/shm/nccl-a" in result.evidence[0].text


def test_a_warning_is_not_blocking() -> None:
    result = judge(16_000_000, 500_000)

    assert result.finding is not None
    assert result.finding.severity is Severity.WARNING


def test_one_card_needs_no_shared_memory() -> None:
    result = CHECK.judge(facts(profile=profile_with(tensor_parallel_size=1)))

    assert result.status is Status.SKIP
    assert CHECK.needs_profile


@pytest.mark.parametrize("make", [timed_out, missing_program])
def test_no_answer_is_an_error(make: object) -> None:
    assert CHECK.judge(facts(make("shm"))).status is Status.ERROR  # type: ignore[operator]


@pytest.mark.parametrize("text", ["", "Dateisystem 1K-Blöcke\n", DF_HEAD, "shm - - - - /dev/shm\n"])
def test_garbage_is_an_error(text: str) -> None:
    result = CHECK.judge(facts(answer("shm", text)))

    assert (result.status, result.finding) == (Status.ERROR, None)
