"""End what a dead server left behind: by process id, and only what still is that process."""

from __future__ import annotations

import re

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import CommandStep, FixPlan
from twinrig.fixes.planning import UndecidedError, nothing_to_change
from twinrig.messages import N_, Message, message

_WORKER = re.compile(r"VLLM::(EngineCore|Worker)")


class StopOrphanWorkers:
    """Workers of a vLLM whose server is gone. They ignore nothing: the signal to end suffices."""

    id = "stop-orphan-workers"
    title = N_("End workers that a dead server left behind")
    probes: tuple[str, ...] = ("workers",)

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError while a server runs whose workers they may be."""
        title = message("End workers that a dead server left behind")
        lines = facts.probe("workers").stdout.splitlines()
        if "checked=yes" not in lines or any(line.startswith("server ") for line in lines):
            raise UndecidedError(
                message("A vLLM server runs; its workers are not told apart from others."),
                message("Stop the server, then look again."),
            )
        pids = [pid for line in lines if (pid := _orphan(line))]
        if not pids:
            raise nothing_to_change(title)
        return _ending(self.id, title, pids)


class StopOldServer:
    """A server of ours that still holds the port: told by the run id in its environment."""

    id = "stop-old-server"
    title = N_("Stop the program that holds the port")
    probes: tuple[str, ...] = ("port",)

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError for a program that Twinrig did not start."""
        rows = [line.split(" ", 3) for line in facts.probe("port").stdout.splitlines()]
        holders = [row for row in rows if row[0] == "holder" and len(row) >= 3]
        ours = [row[1] for row in holders if row[2] != "-" and row[1].isdecimal()]
        if not ours or len(ours) < len(holders):
            raise UndecidedError(
                message("The program that holds the port was not started by Twinrig."),
                message("Look what it is before you end it, or choose another port."),
            )
        return _ending(self.id, message("Stop the old server that holds the port"), ours)


def _orphan(line: str) -> str:
    """The process id of a worker without a living parent, else ""."""
    words = line.split(" ")
    worker = len(words) >= 4 and words[0] == "worker" and words[1].isdecimal()
    return words[1] if worker and _WORKER.search(line) else ""


def _ending(fix_id: str, title: Message, pids: list[str]) -> FixPlan:
    argv = ("kill", "-TERM", *pids)
    step = CommandStep(argv, None, timeout_s=10.0, done_text="No such process")
    return FixPlan(
        fix_id,
        title,
        (step,),
        risk=message("What these programs did not save is lost."),
        reversible=False,
    )
