from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.standard_machine import (
    GPU,
    TABBY_PROFILE,
    answer,
    facts,
    missing_program,
    profile_with,
    timed_out,
)
from twinrig.checks.gpu_links import parse_links
from twinrig.checks.pcie_link import CHECK
from twinrig.domain.checks import CheckResult, Status


def judge(link: str, **changes: object) -> CheckResult:
    second = "591.44, 8.6, 4, 8, 16"
    head, _, tail = GPU.rpartition(second)
    return CHECK.judge(facts(answer("gpu", f"{head}591.44, 8.6, {link}{tail}"), **changes))


@pytest.mark.parametrize("link", ["4, 8, 16", "3, 8, 16", "4, 4, 16", "5, 4, 16", "4, 16, 16"])
def test_usual_slots_of_two_cards_pass(link: str) -> None:
    assert judge(link).status is Status.PASS


@pytest.mark.parametrize(("link", "gbps"), [("3, 4, 16", "3.9"), ("4, 1, 16", "2.0")])
def test_riser_or_chipset_slot_is_told_with_its_speed(link: str, gbps: str) -> None:
    result = judge(link)

    assert result.status is Status.WARN and result.finding is not None
    assert result.finding.id == "pcie-link-narrow"
    assert result.finding.param("gpu") == "1" and result.finding.param("gbps") == gbps
    assert result.finding.fixes == ("cfg-pp-2",) and result.next_step is not None


def test_slot_does_not_matter_to_one_card() -> None:
    alone = profile_with(tensor_parallel_size=1)
    assert judge("3, 4, 16", profile=alone).status is Status.PASS


def test_way_out_follows_the_engine() -> None:
    result = judge("3, 4, 16", profile=replace(TABBY_PROFILE))
    assert result.finding is not None and result.finding.fixes == ("tabby-disable-tp",)


@pytest.mark.parametrize("link", ["[N/A], [N/A], [N/A]", "9, 8, 16"])
def test_one_card_that_does_not_tell_leaves_the_other(link: str) -> None:
    assert judge(link).status is Status.PASS


def test_driver_that_tells_nothing_is_no_fault() -> None:
    old = "\n".join(line.split(", 4, ")[0] for line in GPU.splitlines())
    assert parse_links(answer("gpu", old)) == ()
    assert CHECK.judge(facts(answer("gpu", old))).status is Status.SKIP


@pytest.mark.parametrize("output", [timed_out("gpu"), missing_program("gpu")])
def test_no_answer_cannot_tell(output: object) -> None:
    assert CHECK.judge(facts(output)).status is Status.ERROR  # type: ignore[arg-type]
