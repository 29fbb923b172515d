"""What the command line says about the ranks of a collective: their Python and variables."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace

from twinrig.domain.collective import CollectiveReport
from twinrig.domain.errors import UsageError
from twinrig.domain.profile import ENV_NAME
from twinrig.messages import message
from twinrig.services.collective import CollectiveProbe, CollectiveRequest
from twinrig.services.workbench import Workbench


def extra_env(args: argparse.Namespace) -> Mapping[str, str]:
    """Of ``--env``. Raises UsageError for what is no NAME=VALUE."""
    pairs = [word.partition("=") for word in args.env]
    for name, sign, _ in pairs:
        if not sign or not ENV_NAME.fullmatch(name):
            raise UsageError(
                message("{word} is not NAME=VALUE.", word=f"{name}{sign}"),
                message("Write for example --env NCCL_DEBUG=INFO."),
            )
    return {name: value for name, _, value in pairs}


def python_of(args: argparse.Namespace) -> str:
    """Of ``--python``; "" when not given. Raises UsageError for a relative path."""
    if args.python and not args.python.startswith("/"):
        raise UsageError(
            message("--python needs an absolute path."),
            message("Write for example --python /home/me/venvs/vllm/bin/python."),
        )
    return str(args.python)


def devices_of(args: argparse.Namespace) -> tuple[int, ...]:
    """Of ``--devices``; empty when not given. Raises UsageError."""
    words = [word.strip() for word in args.devices.split(",")] if args.devices else []
    if not all(word.isdecimal() for word in words):
        raise UsageError(
            message("{word} is no list of devices.", word=args.devices),
            message("Write for example --devices 0,1."),
        )
    return tuple(int(word) for word in words)


def asked_of(request: CollectiveRequest, args: argparse.Namespace) -> CollectiveRequest:
    """The request with what the user asked for."""
    devices = devices_of(args)
    return replace(request, devices=devices, world=len(devices)) if devices else request


def probe_of(bench: Workbench, args: argparse.Namespace) -> CollectiveProbe:
    """The collective, with what the user asked for."""
    return CollectiveProbe(
        bench.collective,
        python=python_of(args),
        extra_env=extra_env(args),
        devices=devices_of(args),
    )


def figures(report: CollectiveReport | None) -> Mapping[str, object] | None:
    """A report with what is computed from it, as plain data."""
    if report is None:
        return None
    return {
        "passed": report.passed,
        "ended": report.ended,
        "world": report.world,
        "backend": report.backend,
        "transports": report.transports,
        "torch": report.torch_version,
        "nccl": report.nccl_version,
        "bus_mbps": report.speed_mbps,
        "ranks": report.ranks,
        "steps": [
            {
                "op": step.plan.op,
                "dtype": step.plan.dtype,
                "size_bytes": step.plan.size_bytes,
                "status": step.status,
                "wrong_values": step.wrong_values,
                "seconds": step.seconds,
                "bus_mbps": step.bus_mbps(report.world),
            }
            for step in report.steps
        ],
        "peers": report.peers,
        "log": report.log,
        "output": report.output,
        "left_pids": report.left_pids,
    }
