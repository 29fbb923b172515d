"""Steps that need root on this machine: directly when we are root, else by ``sudo -n``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from twinrig.domain.errors import HostError
from twinrig.domain.ports import CommandResult
from twinrig.messages import message


def as_root(argv: Sequence[str]) -> tuple[str, ...]:
    """The command line that runs ``argv`` as root without asking. Raises HostError."""
    if os.geteuid() == 0:
        return tuple(argv)
    if shutil.which("sudo") is None:
        raise _not_allowed()
    return ("sudo", "-n", "--", *argv)


def check_allowed(result: CommandResult) -> None:
    """Raises HostError when it was sudo itself that refused."""
    if result.argv[:1] == ("sudo",) and result.returncode == 1 and _sudo_speaks(result.stderr):
        raise _not_allowed()


def _sudo_speaks(stderr: bytes) -> bool:
    return stderr.lstrip().startswith(b"sudo:")


def _not_allowed() -> HostError:
    return HostError(
        message("This step needs administrator rights on this computer."),
        message("Run the shown commands yourself with sudo, or allow sudo without a password."),
    )
