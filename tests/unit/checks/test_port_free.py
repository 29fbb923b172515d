from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.standard_machine import PROFILE, answer, facts, missing_program, timed_out
from twinrig.checks.port_free import CHECK, collides, next_free
from twinrig.domain.checks import CheckResult, Status
from twinrig.domain.profile import Network

LOOPBACK = "0100007F"
ANY4 = "00000000"
ANY6 = "0" * 32
LOOPBACK6 = "0" * 24 + "01000000"
OTHER = "0A00000A"  # 10.0.0.10
MAPPED = "0000000000000000FFFF00000100007F"


def judge(text: str, host: str = "127.0.0.1") -> CheckResult:
    profile = replace(PROFILE, network=Network(host, 8000))
    return CHECK.judge(facts(answer("port", text), profile=profile))


def test_free_port_passes() -> None:
    result = CHECK.judge(facts())

    assert result.status is Status.PASS
    assert str(result.summary) == "Port 8000 is free"


def test_taken_port_names_the_holder_and_the_next_free_port() -> None:
    text = (
        f"checked=8000\nbusy 8001\nlisten {LOOPBACK} 999 1000\n"
        "holder 4711 - python3 -m http.server 8000\nbusy 8002\n"
    )
    result = judge(text)

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.id == "port-in-use"
    assert result.finding.fixes == ("stop-old-server", "cfg-change-port")
    assert dict(result.finding.params) == {
        "port": "8000",
        "free_port": "8003",
        "pid": "4711",
        "program": "python3 -m http.server 8000",
    }
    assert "4711" in str(result.summary)
    assert "holder 4711" in result.evidence[0].text
    assert "busy" not in result.evidence[0].text


def test_holder_of_another_user_cannot_be_stopped() -> None:
    result = judge(f"checked=8000\nlisten {ANY4} 999 0\n")

    assert result.finding is not None
    assert result.finding.fixes == ("cfg-change-port",)
    assert "cannot be seen" in str(result.summary)


def test_our_own_running_server_is_no_fault() -> None:
    result = judge(f"checked=8000\nlisten {LOOPBACK} 9 1000\nholder 5 run-1 vllm serve\n")

    assert (result.status, result.finding) == (Status.PASS, None)
    assert "runs already" in str(result.summary)


def test_foreign_holder_beside_ours_is_a_fault() -> None:
    text = f"checked=8000\nlisten {LOOPBACK} 9 1\nholder 5 run-1 vllm\nholder 6 - nginx\n"
    result = judge(text)

    assert result.finding is not None
    assert result.finding.param("pid") == "6"


@pytest.mark.parametrize(
    ("listener", "host", "expected"),
    [
        (LOOPBACK, "127.0.0.1", True),
        (LOOPBACK, "localhost", True),
        (LOOPBACK, "0.0.0.0", True),
        (LOOPBACK, "", True),
        (LOOPBACK, "10.0.0.10", False),
        (OTHER, "127.0.0.1", False),
        (OTHER, "10.0.0.10", True),
        (ANY4, "127.0.0.1", True),
        (ANY6, "127.0.0.1", True),
        (MAPPED, "127.0.0.1", True),
        (LOOPBACK6, "127.0.0.1", False),
        (LOOPBACK6, "::1", True),
        (LOOPBACK6, "[::1]", True),
        (LOOPBACK6, "::", True),
        (OTHER, "my-computer.lan", True),
    ],
)
def test_which_listeners_collide(listener: str, host: str, expected: bool) -> None:
    assert collides(listener, host) is expected


def test_no_port_above_the_highest() -> None:
    assert next_free(65535, answer("port", "")) == 0
    assert next_free(65533, answer("port", "busy 65534\n")) == 65535


def test_no_profile_is_a_skip() -> None:
    assert CHECK.judge(facts(profile=None)).status is Status.SKIP


@pytest.mark.parametrize("make", [timed_out, missing_program])
def test_no_answer_is_an_error(make: object) -> None:
    assert CHECK.judge(facts(make("port"))).status is Status.ERROR  # type: ignore[operator]


@pytest.mark.parametrize(
    "text", ["", "checked=8001\n", "checked=8000\nlisten ZZZZ 1 1\n", "checked=8000\nlisten 01 1\n"]
)
def test_garbage_is_an_error_not_a_free_port(text: str) -> None:
    result = judge(text)

    assert (result.status, result.finding) == (Status.ERROR, None)
