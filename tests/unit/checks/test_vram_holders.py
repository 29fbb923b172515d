from __future__ import annotations

import pytest

from fixtures.standard_machine import GPU, answer, facts, missing_program, timed_out
from twinrig.checks.vram_holders import CHECK, Holder, parse_holders
from twinrig.domain.checks import CheckResult, Status

TRAINING = "app 812 9500 /home/u/venv/bin/python\nopen 812 - /home/u/venv/bin/python train.py\n"


def judge(text: str, gpu: str = GPU) -> CheckResult:
    return CHECK.judge(facts(answer("holders", f"{text}checked=yes\n"), answer("gpu", gpu)))


def test_nobody_and_small_programs_pass() -> None:
    assert judge("").status is Status.PASS
    assert judge("app 77 180 /usr/bin/gnome-shell\n").status is Status.PASS


def test_large_foreign_program_is_named_with_pid_and_size() -> None:
    result = judge(TRAINING)

    assert result.status is Status.WARN and result.finding is not None
    assert result.finding.id == "vram-held" and result.finding.param("pids") == "812"
    assert "python train.py (812, 9.3 GiB)" in str(result.summary)


def test_server_of_ours_is_no_foreign_program() -> None:
    ours = "app 812 9500 VLLM::Worker\nopen 812 r-abc123 VLLM::Worker_TP0\n"
    assert judge(ours).status is Status.PASS


def test_under_wsl_open_devices_are_named_without_a_size() -> None:
    busy = GPU.replace("24576, 812", "24576, 9000")
    text = "open 4711 - python3 bench.py\n"
    result = judge(text, busy)

    assert result.status is Status.WARN and "python3 bench.py (4711)" in str(result.summary)
    assert judge(text).status is Status.PASS  # the cards are empty


def test_rows_are_joined_by_pid_and_what_is_hidden_is_left_out() -> None:
    text = f"{TRAINING}app 9 - [Not Found]\nopen 10 r-1 x\nnoise\napp x y z\n"
    assert parse_holders(answer("holders", text)) == (
        Holder(812, "/home/u/venv/bin/python train.py", 9500),
        Holder(10, "x", None, "r-1"),
    )


def test_garbage_cannot_tell() -> None:
    assert CHECK.judge(facts(answer("holders", "Prozesse: keine\n"))).status is Status.ERROR


@pytest.mark.parametrize("output", [timed_out("holders"), missing_program("holders")])
def test_no_answer_cannot_tell(output: object) -> None:
    assert CHECK.judge(facts(output)).status is Status.ERROR  # type: ignore[arg-type]
