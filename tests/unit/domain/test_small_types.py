"""Findings, probe answers, endpoints, exit states and errors."""

from __future__ import annotations

import pytest

from twinrig.domain.checks import Facts, Finding, ProbeOutput, Severity
from twinrig.domain.errors import FieldError, ProfileError, TwinrigError, UsageError
from twinrig.domain.launch import Endpoint, LaunchSpec, Readiness
from twinrig.domain.ports import CommandResult, ExitStatus
from twinrig.domain.profile import ENV_NAME, PROFILE_ID
from twinrig.messages import message


def test_the_same_finding_from_two_places_is_one_row() -> None:
    seen = Finding("shm-small", (("path", "/dev/shm"),), Severity.WARNING, ("grow",))
    logged = Finding("shm-small", (("path", "/dev/shm"),))
    assert seen == logged
    assert len({seen, logged}) == 1
    assert seen != Finding("shm-small", (("path", "/tmp"),))


def test_parameters_are_read_by_name() -> None:
    finding = Finding("x", (("port", "8000"),))
    assert finding.param("port") == "8000"
    assert finding.param("none", "-") == "-"


def test_a_probe_that_was_not_asked_reads_as_not_run() -> None:
    answer = Facts({}).probe("gpu")
    assert (answer.name, answer.returncode, answer.stdout) == ("gpu", None, "")
    assert not answer.missing_program


def test_127_is_a_missing_program() -> None:
    assert ProbeOutput("gpu", 127, "").missing_program
    assert not ProbeOutput("gpu", None, "").missing_program


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("192.168.1.5", "http://192.168.1.5:8000"),
    ],
)
def test_a_wildcard_address_is_reached_by_loopback(host: str, url: str) -> None:
    assert Endpoint(host, 8000).base_url == url


def test_a_key_is_not_shown_with_the_launch() -> None:
    ready = Readiness("/health", "/v1/completions", {})
    spec = LaunchSpec("n", ("x",), {}, (), Endpoint("h", 1), ready, "m", bearer_token="secret-1")
    assert "secret-1" not in repr(spec)


def test_exit_states_say_how_it_ended() -> None:
    assert str(ExitStatus(1)) == "exit code 1"
    assert str(ExitStatus(None, 9)) == "signal 9"


def test_output_that_is_not_utf8_is_shown_not_fatal() -> None:
    assert CommandResult((), 0, b"caf\xe9", b"", 0.0).output == "caf\ufffd"


def test_an_error_says_what_happened_and_what_to_do() -> None:
    error = TwinrigError(message("The port {port} is taken.", port=8), message("Choose another."))
    assert str(error) == "The port 8 is taken."
    assert str(error.next_step) == "Choose another."


def test_a_faulty_profile_lists_every_fault() -> None:
    faults = [FieldError("settings.a", message("x")), FieldError("network.port", message("y"))]
    error = ProfileError("Qwen", faults)
    assert isinstance(error, UsageError)
    assert error.errors == tuple(faults)
    assert str(error) == "Faulty fields of the profile Qwen: 2."


@pytest.mark.parametrize("name", ["a", "qwen3-30b", "0", "a" * 48])
def test_profile_ids(name: str) -> None:
    assert PROFILE_ID.fullmatch(name)


@pytest.mark.parametrize("name", ["", "-a", "A", "a/b", "..", "a.b", "a b", "a" * 49, "a\n", "é"])
def test_no_profile_ids(name: str) -> None:
    assert not PROFILE_ID.fullmatch(name)


def test_names_of_variables() -> None:
    assert ENV_NAME.fullmatch("NCCL_P2P_DISABLE")
    assert not any(map(ENV_NAME.fullmatch, ("", "1A", "A-B", "A=B", "A\n", "Ä")))
