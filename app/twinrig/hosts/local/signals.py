"""Signals by pid that cannot hit a stranger who got the same pid meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from types import MappingProxyType

from twinrig.domain.launch import StopSignal
from twinrig.hosts.local.proc_table import read_entry

NUMBERS: Mapping[StopSignal, signal.Signals] = MappingProxyType(
    {
        StopSignal.INT: signal.SIGINT,
        StopSignal.TERM: signal.SIGTERM,
        StopSignal.KILL: signal.SIGKILL,
    }
)


def send(pid: int, start_ticks: int, number: signal.Signals) -> bool:
    """Signal the process of this pid *and* start time; False when it is gone or not ours.

    The handle is opened first and the start time read after it, so the check and the signal
    speak of the same process.
    """
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        entry = read_entry(pid)
        if entry is None or entry.start_ticks != start_ticks:
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
