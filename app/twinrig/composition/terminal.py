"""Gives the command line what it works with."""

from __future__ import annotations

import os
from collections.abc import Sequence

from twinrig.cli.main import main
from twinrig.composition.language import choose_language
from twinrig.hosts.paths import find_paths
from twinrig.services.workbench import Workbench


def run_terminal(argv: Sequence[str]) -> int:
    """Exit code of the command in ``argv``."""
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
    )


def _supervise(target: str, profile_id: str) -> int:
    from twinrig.composition.supervise import run_supervisor

    return run_supervisor(target, profile_id)


def _demo_server(config: str | None) -> int:
    from twinrig.hosts.demo.server import run_demo_server

    return run_demo_server(config)
