from __future__ import annotations

import pytest

from fixtures.standard_machine import GPU, answer, facts, missing_program, on_linux, timed_out
from twinrig.checks.gpu_visible import CHECK
from twinrig.domain.checks import Status


def test_names_both_cards_on_a_healthy_machine() -> None:
    result = CHECK.judge(facts())

    assert result.status is Status.PASS
    assert str(result.summary).startswith("NVIDIA cards: 2 (NVIDIA GeForce RTX 3090, ")
    assert "GPU-11111111" in result.evidence[0].text
    assert result.finding is None


def test_missing_nvidia_smi_in_wsl_leads_to_windows_fixes() -> None:
    result = CHECK.judge(facts(missing_program("gpu")))

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.id == "cuda-driver-missing-wsl"
    assert result.finding.fixes[0] == "wsl-restart"
    assert "command not found" in result.evidence[0].text
    assert result.next_step is not None


def test_missing_nvidia_smi_on_linux_never_speaks_of_windows() -> None:
    result = CHECK.judge(on_linux(missing_program("gpu")))

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.id == "gpu-not-visible"
    assert not [fix for fix in result.finding.fixes if fix.startswith("w")]
    assert "WSL" not in str(result.summary) + str(result.next_step)


@pytest.mark.parametrize("code", [6, 9, 12, 18])
def test_codes_of_nvidia_smi_that_mean_no_card(code: int) -> None:
    result = CHECK.judge(facts(answer("gpu", "some localised words", code=code)))

    assert result.status is Status.FAIL


def test_no_devices_with_return_code_0_is_a_failure_too() -> None:
    assert CHECK.judge(facts(answer("gpu", "No devices were found\n"))).status is Status.FAIL


def test_lost_card_is_told_apart_from_no_card() -> None:
    text = "Unable to determine the device handle for GPU0: GPU is lost.  Reboot the system"
    result = CHECK.judge(facts(answer("gpu", text, code=15)))

    assert result.finding is not None
    assert result.finding.id == "gpu-lost-tdr"


def test_time_out_is_no_finding() -> None:
    result = CHECK.judge(facts(timed_out("gpu")))

    assert result.status is Status.ERROR
    assert result.finding is None
    assert "in time" in str(result.summary)


def test_probe_that_never_ran_is_no_finding() -> None:
    result = CHECK.judge(facts(answer("gpu", "", code=None)))

    assert (result.status, result.finding) == (Status.ERROR, None)


@pytest.mark.parametrize(
    "text", ["", "ドライバーが見つかりません\n", "0, x\n", GPU.replace("GPU-", "?")]
)
def test_garbage_and_localised_answers_are_errors(text: str) -> None:
    result = CHECK.judge(facts(answer("gpu", text)))

    assert (result.status, result.finding) == (Status.ERROR, None)


def test_unknown_code_is_an_error_not_a_missing_card() -> None:
    assert CHECK.judge(facts(answer("gpu", "?", code=255))).status is Status.ERROR
