"""What it means when ``wsl.exe`` ended without a result: each cause with its way out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twinrig.domain.errors import HostAwayError, HostError
from twinrig.hosts.wsl.decoding import error_symbol
from twinrig.messages import Message, message

FAILED_ITSELF = 0xFFFFFFFF
"""Exit code of ``wsl.exe`` when it was not Linux that failed (signed: -1)."""

_SESSION_ENDED = frozenset({0xC000013A, 0xC0000142, 0x40010004})
_KILLED = frozenset({9, 137})
_REASON_LENGTH = 200
_NO_SHELL = "execvpe(/bin/bash) failed"


def normalised(returncode: int) -> int:
    """Unsigned 32 bits: Qt and C report -1 where Python reports 4294967295."""
    return returncode & 0xFFFFFFFF


def failure(distro: str, returncode: int, began: bool, text: str, *, user: str = "") -> HostError:
    """Why there is no result. ``began``: Linux had started; ``text``: what ``wsl.exe`` wrote."""
    code = normalised(returncode)
    if code in _SESSION_ENDED:
        return HostAwayError(
            message("Windows ended wsl.exe: the session is ending or its console was closed."),
            message("Sign in again, then try again."),
        )
    if began:
        return went_away(distro, killed=code in _KILLED)
    symbol = error_symbol(text).upper()
    known = _KNOWN.get(symbol)
    if known is not None:
        kind = HostAwayError if symbol in _FOR_NOW else HostError
        return kind(*known(distro, user))
    if _NO_SHELL in text:
        return HostError(
            message("The distribution {distro} has no bash.", distro=distro),
            message("Install the package bash in it, then try again."),
        )
    if code == 1 and not text.strip():
        return went_away(distro)
    return HostAwayError(
        message("wsl.exe failed: {reason}", reason=_reason(text, code)),
        message(
            'Run "wsl --update" in a terminal, then "wsl -d {distro}" to see more.', **_d(distro)
        ),
    )


def went_away(distro: str, *, killed: bool = False) -> HostError:
    """The command is not known to have failed: it lost its Linux, or was killed in it."""
    if killed:
        return HostError(
            message("Linux killed the command in {distro}.", distro=distro),
            message("Look for a lack of memory: the memory of WSL is set in .wslconfig."),
        )
    return HostAwayError(
        message("WSL went away while a command was running in {distro}.", distro=distro),
        message(
            "Try again. If nobody stopped or updated WSL, it crashed: see the list of running "
            'distributions with "wsl -l -v".'
        ),
    )


def asleep(distro: str) -> HostError:
    """It is stopped, and only looking at it would start it."""
    return HostAwayError(
        message("The distribution {distro} is asleep.", distro=distro),
        message("Starting a server or running the checks wakes it up."),
    )


def hangs() -> HostError:
    """Nothing that has to do with WSL answers any more."""
    return HostAwayError(
        message("WSL does not answer."),
        message(
            'Run "wsl --shutdown" in a terminal (it ends everything in WSL). If that hangs too, '
            "restart Windows."
        ),
    )


def slow_start(distro: str, limit_s: float) -> HostError:
    """WSL answers, the distribution does not come up."""
    return HostAwayError(
        message(
            "The distribution {distro} did not start within {limit} s.",
            distro=distro,
            limit=f"{limit_s:g}",
        ),
        message(
            'Open it once with "wsl -d {distro}" in a terminal and look what it waits for.',
            **_d(distro),
        ),
    )


def no_wsl() -> HostError:
    """There is no ``wsl.exe``."""
    return HostError(
        message("WSL is not installed on this computer."),
        message('Run "wsl --install" in a terminal as administrator and restart Windows.'),
    )


def cannot_start(reason: str) -> HostError:
    """``wsl.exe`` is there and Windows does not start it."""
    return HostAwayError(
        message("wsl.exe cannot be started: {reason}.", reason=reason),
        message('Repair WSL with "wsl --update" in a terminal, then try again.'),
    )


def cannot_carry(reason: str) -> HostError:
    """The words of a command are not such that Linux could take them."""
    return HostError(
        message("This cannot be passed to Linux: {reason}.", reason=reason),
        message("Shorten it, or look for a zero byte in it."),
    )


def _d(distro: str) -> dict[str, str]:
    return {"distro": distro}


def _reason(text: str, code: int) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    symbol = error_symbol(text)
    if not lines:
        return f"0x{code:X}"
    first = lines[0][:_REASON_LENGTH]
    return f"{first} ({symbol})" if symbol and symbol not in first else first


_Texts = Callable[[str, str], tuple[Message, Message]]


def _not_found(distro: str, _user: str) -> tuple[Message, Message]:
    return (
        message("WSL has no distribution {distro} any more.", distro=distro),
        message('Choose another one with --distro; "wsl -l -v" lists them.'),
    )


def _none_installed(_distro: str, _user: str) -> tuple[Message, Message]:
    return (
        message("WSL has no Linux distribution installed."),
        message(
            'Install one with "wsl --install -d Ubuntu" in a terminal, open it once, then try '
            "again."
        ),
    )


def _no_user(distro: str, user: str) -> tuple[Message, Message]:
    return (
        message("The distribution {distro} has no user {user}.", distro=distro, user=user or "-"),
        message("Look at [user] default in its /etc/wsl.conf, then try again."),
    )


def _no_virtualisation(_distro: str, _user: str) -> tuple[Message, Message]:
    return (
        message("WSL cannot start its virtual machine: virtualisation is switched off."),
        message(
            'Switch virtualisation on in the BIOS, run "wsl --install --no-distribution" as '
            "administrator, then restart Windows."
        ),
    )


def _component(_distro: str, _user: str) -> tuple[Message, Message]:
    return (
        message("A component of Windows that WSL needs is not installed."),
        message('Run "wsl --install --no-distribution" as administrator, then restart Windows.'),
    )


def _system_account(_distro: str, _user: str) -> tuple[Message, Message]:
    return (
        message("WSL does not work for the system account."),
        message("Start Twinrig as the user who installed the distribution."),
    )


def _vm_crashed(_distro: str, _user: str) -> tuple[Message, Message]:
    return (
        message("The virtual machine of WSL crashed."),
        message('Run "wsl --shutdown" in a terminal, then try again.'),
    )


def _unexpected(_distro: str, _user: str) -> tuple[Message, Message]:
    return (
        message("WSL cannot start anything at present, as happens after sleep."),
        message('Run "wsl --shutdown" in a terminal (it ends everything in WSL), then try again.'),
    )


def _in_work(distro: str, _user: str) -> tuple[Message, Message]:
    return (
        message("The distribution {name} is being installed, moved or converted.", name=distro),
        message("Wait until that is done, then try again."),
    )


def _disk_in_use(distro: str, _user: str) -> tuple[Message, Message]:
    return (
        message("The disk file of {distro} is in use by another program or user.", distro=distro),
        message('Close what uses it, run "wsl --shutdown" in a terminal, then try again.'),
    )


_KNOWN: Mapping[str, _Texts] = {
    "WSL_E_DISTRO_NOT_FOUND": _not_found,
    "0X80040302": _not_found,
    "WSL_E_DEFAULT_DISTRO_NOT_FOUND": _none_installed,
    "0X80040301": _none_installed,
    "WSL_E_USER_NOT_FOUND": _no_user,
    "WSL_E_VIRTUAL_MACHINE_PLATFORM_REQUIRED": _no_virtualisation,
    "HCS_E_HYPERV_NOT_INSTALLED": _no_virtualisation,
    "0X80370102": _no_virtualisation,
    "WSL_E_WSL_OPTIONAL_COMPONENT_REQUIRED": _component,
    "WSL_E_LOCAL_SYSTEM_NOT_SUPPORTED": _system_account,
    "WSL_E_VM_CRASHED": _vm_crashed,
    "E_UNEXPECTED": _unexpected,
    "0X8000FFFF": _unexpected,
    "E_ILLEGAL_STATE_CHANGE": _in_work,
    "ERROR_SHARING_VIOLATION": _disk_in_use,
}

_FOR_NOW = frozenset(
    {"WSL_E_VM_CRASHED", "E_UNEXPECTED", "0X8000FFFF"}
    | {"E_ILLEGAL_STATE_CHANGE", "ERROR_SHARING_VIOLATION"}
)
"""A later try may succeed, as when WSL was updated or the computer slept."""
