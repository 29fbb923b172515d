from __future__ import annotations

import pytest

from fixtures.standard_machine import (
    answer,
    facts,
    missing_program,
    profile_with,
    timed_out,
)
from twinrig.checks.ptrace_scope import CHECK
from twinrig.domain.checks import CheckResult, Status

EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128, expandable_segments:True"}


def judge(scope: str, **changes: object) -> CheckResult:
    return CHECK.judge(facts(answer("ptrace", f"{scope}\n"), **changes))


@pytest.mark.parametrize("scope", ["absent", "0", "1"])
def test_every_usual_value_passes_without_expandable_segments(scope: str) -> None:
    result = judge(scope)

    assert (result.status, result.finding) == (Status.PASS, None)


@pytest.mark.parametrize("scope", ["absent", "0"])
def test_unrestricted_kernels_pass_with_expandable_segments(scope: str) -> None:
    assert judge(scope, profile=profile_with(env=EXPANDABLE)).status is Status.PASS


@pytest.mark.parametrize(
    ("scope", "fixes"),
    [
        ("1", ("sysctl-ptrace-0", "env-expandable-off")),
        ("2", ("sysctl-ptrace-0", "env-expandable-off")),
        # 3 cannot be lowered before the next boot
        ("3", ("env-expandable-off",)),
    ],
)
def test_restricted_kernels_fail_two_cards_with_expandable_segments(
    scope: str, fixes: tuple[str, ...]
) -> None:
    result = judge(scope, profile=profile_with(env=EXPANDABLE))

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.id == "pidfd-getfd-denied"
    assert result.finding.params == (("scope", scope),)
    assert result.finding.fixes == fixes


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("PYTORCH_ALLOC_CONF", "expandable_segments:true", Status.FAIL),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False", Status.PASS),
        ("OTHER", "expandable_segments:True", Status.PASS),
    ],
)
def test_both_variables_of_torch_count(name: str, value: str, status: Status) -> None:
    assert judge("1", profile=profile_with(env={name: value})).status is status


def test_one_card_never_needs_it() -> None:
    profile = profile_with(env=EXPANDABLE, tensor_parallel_size=1)

    assert judge("1", profile=profile).status is Status.PASS


@pytest.mark.parametrize("scope", ["2", "3"])
def test_unusually_strict_values_are_explained(scope: str) -> None:
    result = judge(scope)

    assert result.status is Status.WARN
    assert result.next_step is not None


def test_works_without_a_profile() -> None:
    assert judge("1", profile=None).status is Status.PASS
    assert not CHECK.needs_profile


@pytest.mark.parametrize("make", [timed_out, missing_program])
def test_no_answer_is_an_error(make: object) -> None:
    assert CHECK.judge(facts(make("ptrace"))).status is Status.ERROR  # type: ignore[operator]


@pytest.mark.parametrize("text", ["", "4", "eins", "1 1", "不明"])
def test_garbage_is_an_error(text: str) -> None:
    result = judge(text)

    assert (result.status, result.finding) == (Status.ERROR, None)
