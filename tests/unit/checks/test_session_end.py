from __future__ import annotations

import pytest

from fixtures.standard_machine import answer, facts, missing_program, on_linux, timed_out
from twinrig.checks.session_end import CHECK
from twinrig.domain.checks import Status


def test_windows_holds_servers_of_wsl_whatever_systemd_says() -> None:
    for text in ("systemd=no\nlinger=no\nuser=u\n", "systemd=yes\nlinger=no\nuser=u\n"):
        result = CHECK.judge(facts(answer("session", text)))
        assert result.status is Status.PASS and result.next_step is None


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("systemd=yes\nlinger=yes\nuser=u\n", False),
        ("systemd=yes\nlinger=no\nuser=u\n", True),
        ("systemd=no\nlinger=no\nuser=u\n", False),
    ],
)
def test_on_linux_it_is_told_and_never_a_warning(text: str, advice: bool) -> None:
    result = CHECK.judge(on_linux(answer("session", text)))

    assert result.status is Status.PASS and result.finding is None
    assert (result.next_step is not None) is advice


def test_advice_names_the_user() -> None:
    result = CHECK.judge(on_linux(answer("session", "systemd=yes\nlinger=no\nuser=anna\n")))
    assert "loginctl enable-linger anna" in str(result.next_step)


def test_garbage_cannot_tell() -> None:
    assert CHECK.judge(on_linux(answer("session", "läuft\n"))).status is Status.ERROR


@pytest.mark.parametrize("output", [timed_out("session"), missing_program("session")])
def test_no_answer_cannot_tell(output: object) -> None:
    assert CHECK.judge(facts(output)).status is Status.ERROR  # type: ignore[arg-type]
