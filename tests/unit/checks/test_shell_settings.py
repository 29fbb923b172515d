from __future__ import annotations

import pytest

from fixtures.standard_machine import answer, facts, missing_program, profile_with, timed_out
from twinrig.checks.shell_settings import CHECK
from twinrig.domain.checks import CheckResult, Status

BASHRC = "set /home/u/.bashrc PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"


def judge(text: str, **changes: object) -> CheckResult:
    return CHECK.judge(facts(answer("shell_settings", f"checked=yes\n{text}"), **changes))


def test_shells_that_set_nothing_pass() -> None:
    assert judge("").status is Status.PASS


def test_settings_for_every_program_are_told_with_file_and_name() -> None:
    result = judge(BASHRC + "set /etc/environment NCCL_P2P_DISABLE=1\n")

    assert result.status is Status.WARN and result.finding is not None
    assert result.finding.id == "shell-settings" and result.finding.fixes == ()
    assert result.finding.param("names") == "PYTORCH_CUDA_ALLOC_CONF, NCCL_P2P_DISABLE"
    assert "/home/u/.bashrc" in str(result.next_step)


def test_what_the_profile_sets_too_is_no_difference() -> None:
    same = profile_with(env={"NCCL_P2P_DISABLE": "1"})
    text = "set /etc/environment NCCL_P2P_DISABLE=1\n"
    assert judge(text, profile=same).status is Status.PASS
    assert judge(text.replace("=1", "=0"), profile=same).status is Status.WARN
    assert judge(text, profile=None).status is Status.WARN


def test_garbage_cannot_tell() -> None:
    assert CHECK.judge(facts(answer("shell_settings", "bash: Fehler\n"))).status is Status.ERROR


@pytest.mark.parametrize("output", [timed_out("shell_settings"), missing_program("shell_settings")])
def test_no_answer_cannot_tell(output: object) -> None:
    assert CHECK.judge(facts(output)).status is Status.ERROR  # type: ignore[arg-type]
