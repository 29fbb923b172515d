from __future__ import annotations

from fixtures.standard_machine import MODEL, PROFILE, VENV
from twinrig.checks.probe_protocol import build_script, probe_names, read_answer, request_for
from twinrig.checks.registry import CHECKS
from twinrig.domain.checks import ProbeOutput
from twinrig.domain.ports import CommandResult
from twinrig.domain.probes import PROBE_SCRIPT, format_frames

NONCE = "0123456789abcdef"


def result_of(text: str, *, timed_out: bool = False) -> CommandResult:
    code = None if timed_out else 0
    return CommandResult(("bash",), code, text.encode(), b"", 0.1, timed_out)


def test_each_probe_is_asked_once_and_slow_ones_last() -> None:
    names = probe_names(CHECKS)

    assert len(names) == len(set(names))
    assert names[-5:] == ("model", "model_config", "gpu", "driver", "holders")


def test_values_travel_as_arguments_and_never_in_the_text() -> None:
    request = request_for(PROFILE, ("gpu",), nonce=NONCE)
    script = build_script("the text", request)

    assert script.name == PROBE_SCRIPT
    assert script.text == "the text"
    assert script.args == (NONCE, "gpu", MODEL, VENV, "127.0.0.1:8000", "")


def test_environment_that_was_found_has_precedence() -> None:
    assert request_for(PROFILE, (), nonce=NONCE, environment="/found").environment == "/found"


def test_without_a_profile_nothing_is_asked_about_one() -> None:
    request = request_for(None, ("gpu",), nonce=NONCE)

    assert (request.model_path, request.environment, request.endpoint) == ("", "", "")


def test_probe_without_an_answer_did_not_run() -> None:
    request = request_for(None, ("gpu", "shm"), nonce=NONCE)
    answers = read_answer(request, result_of(format_frames(NONCE, [ProbeOutput("gpu", 0, "x\n")])))

    assert answers["gpu"].returncode == 0
    assert answers["shm"] == ProbeOutput("shm", None, "")


def test_time_out_of_the_whole_call_keeps_what_had_been_answered() -> None:
    request = request_for(None, ("shm", "gpu", "driver"), nonce=NONCE)
    text = f"{NONCE} shm o x\n{NONCE} shm end 0\n{NONCE} gpu o half\n"
    answers = read_answer(request, result_of(text, timed_out=True))

    assert answers["shm"] == ProbeOutput("shm", 0, "x\n")
    assert answers["gpu"].timed_out and answers["gpu"].stdout == "half\n"
    assert answers["driver"].timed_out


def test_undecodable_bytes_are_shown_not_fatal() -> None:
    request = request_for(None, ("gpu",), nonce=NONCE)
    data = f"{NONCE} gpu o ".encode() + b"\xff\xfe\n" + f"{NONCE} gpu end 0\n".encode()
    result = CommandResult(("bash",), 0, data, b"", 0.1)

    assert read_answer(request, result)["gpu"].stdout == "\ufffd\ufffd\n"


def test_windows_line_ends_of_a_checkout_do_not_reach_bash() -> None:
    script = build_script("a\r\nb\n", request_for(None, ("gpu",), nonce=NONCE))

    assert script.text == "a\nb\n"
