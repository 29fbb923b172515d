from __future__ import annotations

import pytest

from fixtures.standard_machine import answer, facts, missing_program, timed_out
from twinrig.checks.process_limits import CHECK
from twinrig.domain.checks import CheckResult, Status


def judge(files: str, memlock: str = "67108864 67108864") -> CheckResult:
    return CHECK.judge(facts(answer("limits", f"files {files}\nmemlock {memlock}\n")))


@pytest.mark.parametrize(
    ("files", "memlock"),
    [
        ("10240 1048576", "67108864 67108864"),  # WSL
        ("1024 524288", "8388608 8388608"),  # a desktop: engines raise the soft one themselves
        ("unlimited unlimited", "unlimited unlimited"),
    ],
)
def test_usual_limits_pass(files: str, memlock: str) -> None:
    assert judge(files, memlock).status is Status.PASS


def test_few_files_that_nobody_can_raise() -> None:
    result = judge("1024 4096")

    assert result.status is Status.WARN and result.finding is not None
    assert result.finding.id == "too-many-open-files"
    assert result.finding.param("limit") == "4096"
    assert result.finding.fixes == ("env-nofile-limit",)


def test_memory_lock_of_an_old_wsl() -> None:
    result = judge("10240 1048576", "65536 65536")

    assert result.status is Status.WARN and result.finding is not None
    assert result.finding.id == "memlock-too-small"
    assert result.finding.fixes == ("limits-memlock",)


@pytest.mark.parametrize("text", ["", "files viele\n", "files 1 2\n", "files a b\nmemlock 1 2\n"])
def test_garbage_cannot_tell(text: str) -> None:
    assert CHECK.judge(facts(answer("limits", text))).status is Status.ERROR


@pytest.mark.parametrize("output", [timed_out("limits"), missing_program("limits")])
def test_no_answer_cannot_tell(output: object) -> None:
    assert CHECK.judge(facts(output)).status is Status.ERROR  # type: ignore[arg-type]
