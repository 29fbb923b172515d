from __future__ import annotations

import pytest

from fixtures.standard_machine import (
    GPU,
    answer,
    facts,
    missing_program,
    profile_with,
    timed_out,
)
from twinrig.checks.gpu_count import CHECK
from twinrig.domain.checks import Status

ONE_CARD = "\n".join(GPU.splitlines()[:2]) + "\n"


def test_two_cards_for_two_ranks() -> None:
    result = CHECK.judge(facts())

    assert result.status is Status.PASS
    assert str(result.summary) == "Cards needed: 2, usable: 2"


def test_one_card_for_two_ranks_fails_with_both_numbers() -> None:
    result = CHECK.judge(facts(answer("gpu", ONE_CARD)))

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.id == "tp-exceeds-gpus"
    assert result.finding.params == (("wanted", "2"), ("usable", "1"))
    assert result.finding.fixes == ("cfg-gpu-select", "cfg-tp-1")


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({"tensor_parallel_size": 1}, Status.PASS),
        ({"tensor_parallel_size": 1, "pipeline_parallel_size": 2}, Status.PASS),
        ({"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, Status.FAIL),
        ({"tensor_parallel_size": "two"}, Status.PASS),
        ({"tensor_parallel_size": True}, Status.PASS),
        ({"tensor_parallel_size": -4}, Status.PASS),
    ],
)
def test_ranks_are_tensor_times_pipeline(settings: dict[str, object], status: Status) -> None:
    assert CHECK.judge(facts(profile=profile_with(**settings))).status is status


@pytest.mark.parametrize(
    ("visible", "status"), [("0", Status.FAIL), ("", Status.FAIL), ("0,1", Status.PASS)]
)
def test_hidden_cards_do_not_count(visible: str, status: Status) -> None:
    profile = profile_with(env={"CUDA_VISIBLE_DEVICES": visible})

    assert CHECK.judge(facts(profile=profile)).status is status


def test_needs_visible_cards_and_a_profile_first() -> None:
    assert CHECK.requires == ("gpu-visible",)
    assert CHECK.needs_profile


@pytest.mark.parametrize(
    "output", [timed_out("gpu"), missing_program("gpu"), answer("gpu", "文字化け")]
)
def test_no_answer_and_garbage_are_errors(output: object) -> None:
    result = CHECK.judge(facts(output))  # type: ignore[arg-type]

    assert (result.status, result.finding) == (Status.ERROR, None)
