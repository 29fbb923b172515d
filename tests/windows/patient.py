"""Runs the installed ``twinrig`` with longer limits for what another process has to do first.

A user's computer starts a supervisor in seconds; one that does ten things at once needs minutes.
"""

from __future__ import annotations

import sys

import twinrig.hosts.windows.task_manager as task_manager
import twinrig.services.controller as controller
from twinrig.__main__ import main

LIMIT_S = 240.0


def be_patient() -> None:
    """For this process."""
    task_manager.APPEAR_S = LIMIT_S
    controller.PICKUP_TIMEOUT_S = LIMIT_S


if __name__ == "__main__":
    be_patient()
    sys.exit(main(sys.argv[1:]))
