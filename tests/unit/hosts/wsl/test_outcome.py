"""What a call that brought no result is told to mean."""

from __future__ import annotations

import pytest

from twinrig.domain.errors import HostAwayError, HostError
from twinrig.hosts.wsl import outcome

PATH = "Something\nエラー コード: Wsl/Service/CreateInstance/"


@pytest.mark.parametrize(
    ("tail", "says", "step", "later"),
    [
        ("WSL_E_DISTRO_NOT_FOUND", "no distribution Ubuntu any more", "--distro", False),
        ("0x80040302", "no distribution Ubuntu any more", "--distro", False),
        ("WSL_E_DEFAULT_DISTRO_NOT_FOUND", "no Linux distribution", "wsl --install -d", False),
        ("0x80040301", "no Linux distribution", "wsl --install -d", False),
        ("WSL_E_USER_NOT_FOUND", "no user bob", "wsl.conf", False),
        ("WSL_E_VIRTUAL_MACHINE_PLATFORM_REQUIRED", "virtualisation", "BIOS", False),
        ("HCS_E_HYPERV_NOT_INSTALLED", "virtualisation", "BIOS", False),
        ("CreateVm/HCS/0x80370102", "virtualisation", "BIOS", False),
        ("WSL_E_WSL_OPTIONAL_COMPONENT_REQUIRED", "component of Windows", "--install", False),
        ("WSL_E_LOCAL_SYSTEM_NOT_SUPPORTED", "system account", "as the user", False),
        ("WSL_E_VM_CRASHED", "crashed", "--shutdown", True),
        ("E_UNEXPECTED", "after sleep", "--shutdown", True),
        ("0x8000ffff", "after sleep", "--shutdown", True),
        ("E_ILLEGAL_STATE_CHANGE", "Ubuntu is being installed", "Wait", True),
        ("ERROR_SHARING_VIOLATION", "disk file of Ubuntu", "--shutdown", True),
        ("E_NEVER_SEEN", "Something (E_NEVER_SEEN)", "wsl -d Ubuntu", True),
    ],
)
def test_errors_of_wsl(tail: str, says: str, step: str, later: bool) -> None:
    error = outcome.failure("Ubuntu", 0xFFFFFFFF, False, f"{PATH}{tail}\n", user="bob")
    assert says in str(error)
    assert step in str(error.next_step)
    assert isinstance(error, HostAwayError) is later


def test_lost_in_the_middle_is_not_a_failed_command() -> None:
    for code in (1, 0, 255, 0xFFFFFFFF, -1):
        error = outcome.failure("Ubuntu", code, True, f"{PATH}WSL_E_DISTRO_NOT_FOUND")
        assert "went away while a command was running in Ubuntu" in str(error)
        assert isinstance(error, HostAwayError)
    assert "went away" in str(outcome.failure("Ubuntu", 1, False, " \n"))


def test_killed_by_linux_is_told_apart() -> None:
    for code in (9, 137):
        error = outcome.failure("Ubuntu", code, True, "")
        assert "killed the command in Ubuntu" in str(error)
        assert ".wslconfig" in str(error.next_step)
        assert not isinstance(error, HostAwayError)
    assert "killed" not in str(outcome.failure("Ubuntu", 15, True, ""))


@pytest.mark.parametrize("code", [0xC000013A, 0xC0000142, 0x40010004, -1073741510])
def test_the_end_of_the_session(code: int) -> None:
    error = outcome.failure("Ubuntu", code, True, "")
    assert "session" in str(error)
    assert isinstance(error, HostAwayError)


def test_a_distribution_without_bash() -> None:
    text = "<3>WSL (9) ERROR: CreateProcessCommon:800: execvpe(/bin/bash) failed: No such file"
    error = outcome.failure("Alpine", 1, False, text)
    assert "Alpine has no bash" in str(error)
    assert type(error) is HostError


def test_the_rest_is_quoted() -> None:
    assert "0xFFFFFFFF" in str(outcome.failure("U", -1, False, ""))
    assert str(outcome.failure("U", 3, False, "\n  first \nsecond")).endswith("failed: first")
    assert len(str(outcome.failure("U", 3, False, "x" * 999))) < 230
    with_path = outcome.failure("U", -1, False, "Oh: Wsl/E_ODD")
    assert str(with_path).endswith("failed: Oh: Wsl/E_ODD")


def test_the_others_say_what_to_do() -> None:
    for error, kind in (
        (outcome.asleep("Ubuntu"), HostAwayError),
        (outcome.hangs(), HostAwayError),
        (outcome.slow_start("Ubuntu", 120), HostAwayError),
        (outcome.cannot_start("denied"), HostAwayError),
        (outcome.no_wsl(), HostError),
        (outcome.cannot_carry("a zero byte"), HostError),
    ):
        assert type(error) is kind
        assert error.next_step is not None
    assert "Ubuntu did not start within 120 s" in str(outcome.slow_start("Ubuntu", 120.0))
    assert "Ubuntu is asleep" in str(outcome.asleep("Ubuntu"))
    assert "cannot be started: denied." in str(outcome.cannot_start("denied"))


def test_codes_are_unsigned() -> None:
    assert outcome.normalised(-1) == outcome.FAILED_ITSELF == 4294967295
    assert outcome.normalised(127) == 127
