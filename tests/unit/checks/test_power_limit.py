from __future__ import annotations

import pytest

from fixtures.standard_machine import GPU, answer, facts, missing_program, timed_out
from twinrig.checks.power_limit import CHECK
from twinrig.domain.checks import CheckResult, Status


def judge(first: str, second: str) -> CheckResult:
    limits = iter((first, second))
    lines = [
        line.replace("350.00, 350.00", next(limits)) if "GPU-" in line else line
        for line in GPU.splitlines()
    ]
    return CHECK.judge(facts(answer("gpu", "\n".join(lines))))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("350.00, 350.00", "350.00, 350.00"),
        ("250.00, 350.00", "250.00, 350.00"),  # lowered for noise
        ("350.00, 350.00", "320.00, 350.00"),
        ("370.00, 350.00", "370.00, 350.00"),
    ],
)
def test_limits_that_cost_little_pass(first: str, second: str) -> None:
    assert judge(first, second).status is Status.PASS


def test_card_far_below_its_makers_limit() -> None:
    result = judge("350.00, 350.00", "150.00, 350.00")

    assert result.status is Status.WARN and result.finding is not None
    assert result.finding.id == "power-limit-low"
    assert result.finding.param("gpu") == "1" and result.finding.param("limit_w") == "150"
    assert result.next_step is not None and "-pl 350" in str(result.next_step)


def test_unequal_limits_of_equal_cards() -> None:
    result = judge("350.00, 350.00", "250.00, 350.00")
    assert result.status is Status.WARN and "250 W and 350 W" in str(result.summary)


def test_different_kinds_of_cards_are_not_compared() -> None:
    lines = GPU.replace("RTX 3090, 24576, 4,", "RTX 4090, 24564, 4,")
    lines = lines.replace("4, 591.44, 8.6, 4, 8, 16, 350.00", "4, 591.44, 8.9, 4, 8, 16, 270.00")
    assert CHECK.judge(facts(answer("gpu", lines))).status is Status.PASS


def test_limits_that_are_not_told_are_no_fault() -> None:
    assert judge("[N/A], [N/A]", "[Not Supported], [N/A]").status is Status.SKIP


@pytest.mark.parametrize("output", [timed_out("gpu"), missing_program("gpu")])
def test_no_answer_cannot_tell(output: object) -> None:
    assert CHECK.judge(facts(output)).status is Status.ERROR  # type: ignore[arg-type]
