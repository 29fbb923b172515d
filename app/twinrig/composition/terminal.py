"""Gives the command line what it works with."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from twinrig.cli.main import main
from twinrig.composition.language import choose_language
from twinrig.domain.supervision import ServerRecord
from twinrig.files import write_atomic
from twinrig.hosts.paths import find_paths
from twinrig.messages import Message, message
from twinrig.services.workbench import Workbench

FAULT_FILE = "last-fault.txt"


def run_terminal(argv: Sequence[str]) -> int:
    """Exit code of the command in ``argv``."""
    if list(argv[:1]) == ["elevated"]:  # hidden: what Windows starts with administrator rights
        from twinrig.hosts.windows.elevated_helper import run_helper

        return run_helper(argv[1:], os.environ)
    if "supervise" in argv:
        from twinrig.composition.keeping import use_home

        use_home(tuple(argv))
    paths = find_paths(os.environ)

    def opened(target: str) -> Workbench:
        from twinrig.composition.targets import open_workbench

        return open_workbench(target, paths)

    return main(
        argv,
        opened,
        language=choose_language(paths.config, os.environ),
        supervise=_supervise,
        demo_server=_demo_server,
        keep_fault=lambda fault: _keep_fault(paths.log / FAULT_FILE, fault),
        end_other_processes=_end_other_processes,
    )


def _keep_fault(path: Path, fault: BaseException) -> str:
    """Keep the trace of the last fault for a report; returns where."""
    text = "".join(traceback.format_exception(fault))
    with contextlib.suppress(OSError):
        write_atomic(path, text.encode("utf-8", "replace"), mode=0o600)
    return str(path)


def _end_other_processes() -> tuple[Message, ...]:
    from twinrig.hosts.windows.own_processes import end_others

    return tuple(
        message("The process {pid} of Twinrig does not end.", pid=pid)
        for pid in end_others(Path(sys.prefix))
    )


def _supervise(target: str, profile_id: str) -> tuple[int, ServerRecord | None]:
    from twinrig.composition.supervise import run_supervisor

    return run_supervisor(target, profile_id)


def _demo_server(config: str | None) -> int:
    from twinrig.hosts.demo.server import run_demo_server

    return run_demo_server(config)
