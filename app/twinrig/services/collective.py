"""Runs the collective check on the target: real ranks on the engine's own Python."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from twinrig.domain.checks import ProbeOutput
from twinrig.domain.collective import MIB, CollectiveReport, StepPlan, parse_report, step_plans
from twinrig.domain.errors import HostError
from twinrig.domain.install import EngineInstall
from twinrig.domain.ports import CommandResult, Host
from twinrig.domain.profile import Profile
from twinrig.messages import message

PROBE = "collective"
"""Name of the answer that checks ask for."""

PROGRAM_FILES = ("nccl/rank.py", "nccl/coordinator.py")
_BOOT = (
    "import sys; exec(compile(sys.stdin.buffer.read(), 'twinrig-collective', 'exec'), "
    "{'__name__': '__main__'})"
)
_START_S = 120.0
_STEP_S = 20.0
_TOTAL_S = 300.0
_MARGIN_S = 30.0


@dataclass(frozen=True)
class CollectiveRequest:
    """``python`` is an absolute path on the target. ``devices`` empty = one card a rank."""

    python: str
    env: Mapping[str, str] = field(default_factory=dict)
    world: int = 2
    backend: str = "nccl"
    devices: tuple[int, ...] = ()
    steps: tuple[StepPlan, ...] = field(default_factory=step_plans)
    peers: bool = True
    peer_bytes: int = 16 * MIB
    start_s: float = _START_S
    step_s: float = _STEP_S
    grace_s: float = 5.0
    total_s: float = _TOTAL_S


class CollectiveProgram:
    """The program on one target; ``read_text`` gives the resources it is made of."""

    def __init__(self, host: Host, read_text: Callable[[str], str]) -> None:
        self._host = host
        self._read_text = read_text

    async def run(self, request: CollectiveRequest) -> CollectiveReport:
        """A report whatever the ranks did. Raises HostError when there is none.

        When cancelled, nothing is left on the target.
        """
        nonce = secrets.token_hex(16)
        source = "\n".join(self._read_text(name).replace("\r\n", "\n") for name in PROGRAM_FILES)
        words = [f"{name}={value}" for name, value in sorted(request.env.items())]
        result = await self._host.run(
            ("env", *words, request.python, "-I", "-c", _BOOT, json.dumps(_plan(request, nonce))),
            timeout_s=request.total_s + _MARGIN_S,
            stdin=source.encode(),
        )
        return _read(nonce, request, result)


class CollectiveProbe:
    """Answers the probe ``collective`` for a profile: its Python, its environment, its ranks.

    ``python``, ``extra_env`` and ``devices`` (one rank each) come from the user; ``report`` is
    what the last run showed.
    """

    def __init__(
        self,
        program: CollectiveProgram,
        *,
        python: str = "",
        extra_env: Mapping[str, str] | None = None,
        devices: tuple[int, ...] = (),
    ) -> None:
        self._program = program
        self._devices = devices
        self._python = python
        self._extra_env = dict(extra_env or {})
        self.report: CollectiveReport | None = None

    async def __call__(self, profile: Profile | None, install: EngineInstall | None) -> ProbeOutput:
        """The report as JSON; return code 0 also when the ranks failed. Raises HostError."""
        self.report = None
        request = request_for(profile, install, python=self._python)
        request = replace(request, env={**request.env, **self._extra_env})
        if self._devices:
            request = replace(request, devices=self._devices, world=len(self._devices))
        self.report = await self._program.run(request)
        return ProbeOutput(PROBE, 0, dump(self.report))


def request_for(
    profile: Profile | None, install: EngineInstall | None, *, python: str = ""
) -> CollectiveRequest:
    """What the server of this profile would use. Raises HostError without a Python to use."""
    environment = install.environment if install else ""
    environment = environment or (profile.engine.environment if profile else "")
    if not python and environment:
        python = f"{environment}/bin/python"
    if not python:
        raise HostError(
            message("There is no engine whose Python could run the check."),
            message("Choose a profile with an engine, or name a Python that has torch."),
        )
    if profile is None:
        return CollectiveRequest(python)
    env = {name: entry.value for name, entry in profile.env.items()}
    asked = profile.settings.get("tensor_parallel_size")
    world = asked if isinstance(asked, int) and not isinstance(asked, bool) and asked > 1 else 2
    return CollectiveRequest(python, env, world)


def dump(report: CollectiveReport) -> str:
    """JSON that ``load`` reads; the coordinator's own form."""
    return json.dumps(
        {
            "schema": 1,
            "world": report.world,
            "backend": report.backend,
            "ended": report.ended,
            "ranks": [
                {
                    "rank": rank.rank,
                    "name": rank.name,
                    "uuid": rank.uuid,
                    "torch": rank.torch,
                    "nccl": rank.nccl,
                    "error": _error(rank.error),
                    "exit": rank.exit_code,
                }
                for rank in report.ranks
            ],
            "steps": [
                {
                    "op": step.plan.op,
                    "dtype": step.plan.dtype,
                    "bytes": step.plan.size_bytes,
                    "timed": step.plan.timed,
                    "status": step.status,
                    "wrong": step.wrong_values,
                    "seconds": step.seconds,
                }
                for step in report.steps
            ],
            "peers": [
                {
                    "source": pair.source,
                    "target": pair.target,
                    "reported": pair.reported,
                    "status": pair.status,
                    "seconds": 1.0 if pair.mbps else None,
                    "bytes": (pair.mbps or 0.0) * 1e6,
                    "text": pair.text,
                }
                for pair in report.peers
            ],
            "log": list(report.log),
            "output": list(report.output),
            "left_pids": list(report.left_pids),
        }
    )


def _error(text: str) -> dict[str, str] | None:
    kind, _, rest = text.partition(": ")
    return {"type": kind, "text": rest} if text else None


def _plan(request: CollectiveRequest, nonce: str) -> dict[str, Any]:
    return {
        "nonce": nonce,
        "world": request.world,
        "backend": request.backend,
        "devices": list(request.devices) or None,
        "peers": request.peers and request.backend == "nccl" and request.world > 1,
        "peer_bytes": request.peer_bytes,
        "steps": [
            {"op": s.op, "dtype": s.dtype, "bytes": s.size_bytes, "timed": s.timed}
            for s in request.steps
        ],
        "start_s": request.start_s,
        "step_s": request.step_s,
        "grace_s": request.grace_s,
        "total_s": request.total_s,
    }


def _read(nonce: str, request: CollectiveRequest, result: CommandResult) -> CollectiveReport:
    for line in result.output.splitlines():
        if line.startswith(f"{nonce} "):
            try:
                return parse_report(json.loads(line.removeprefix(f"{nonce} ")))
            except ValueError as error:
                raise _no_answer(request, str(error)) from error
    if result.returncode in (126, 127):
        raise HostError(
            message("{python} cannot be started.", python=request.python),
            message("Choose the engine's environment in the profile."),
        )
    said = (result.stderr.decode("utf-8", "replace") or result.output).strip().splitlines()
    raise _no_answer(request, said[-1] if said else "-")


def _no_answer(request: CollectiveRequest, reason: str) -> HostError:
    return HostError(
        message(
            "The collective check on {python} gave no answer: {reason}",
            python=request.python,
            reason=reason,
        ),
        message("Run it again; if that does not help, report it with the engine's versions."),
    )
