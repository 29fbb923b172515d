"""Do the CUDA wheels of torch and engine fit the driver, the cards and each other?

Sources of the rules: NVIDIA's release notes (CUDA 12.x wheels run on driver 525 or newer,
13.x on 580 or newer; a newer driver runs every older CUDA) and torch's build scripts (wheels
before CUDA 12.8 hold no code for compute capability 12.0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from twinrig.checks.gpu_facts import driver_major, driver_version, parse_gpus
from twinrig.checks.judging import (
    evidence_of,
    failed,
    key_values,
    on_wsl,
    passed,
    probe_fault,
    skipped,
    tagged,
    unknown,
)
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding
from twinrig.messages import N_, message

ID = "cuda-wheels"
MINIMUM_DRIVERS: Mapping[int, int] = MappingProxyType({11: 450, 12: 525, 13: 580})
_BLACKWELL = (12, 0)
_BLACKWELL_CUDA = (12, 8)
_TAG = re.compile(r"\+cu(\d{2})(\d)\b")


@dataclass(frozen=True)
class Wheels:
    """What is installed. ``engine_major`` is the CUDA major the engine's binaries ask for."""

    torch_version: str
    torch_cuda: tuple[int, int] | None
    engine_major: int | None
    cpu_build: bool
    runtimes: frozenset[int]


def read_wheels(facts: Facts) -> Wheels:
    """From metadata and files on disk; the probe has precedence over an earlier reading."""
    output = facts.probe("environment")
    values, install = key_values(output), facts.install
    dists = dict(line.split(" ", 1) for line in tagged(output, "dist") if " " in line)
    torch_version = dists.get("torch") or (install.torch_version if install else "")
    cuda = _pair(values.get("torch_cuda", "")) or _tag(torch_version)
    if cuda is None and install is not None:
        cuda = install.torch_cuda
    engine = _tag(dists.get("vllm", install.version if install else ""))
    needed = re.findall(r"^vllm_cudart=(\d+)$", output.stdout, re.MULTILINE)
    majors = {int(major) for major in needed}
    return Wheels(
        torch_version=torch_version,
        torch_cuda=cuda,
        engine_major=majors.pop() if len(majors) == 1 else engine[0] if engine else None,
        cpu_build="+cpu" in torch_version or values.get("torch_cuda") == "None",
        runtimes=frozenset(
            int(major) for major in re.findall(r"^cudart=(\d+)", output.stdout, re.MULTILINE)
        ),
    )


def _pair(text: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)?", text)
    return (int(found[1]), int(found[2])) if found else None


def _tag(version: str) -> tuple[int, int] | None:
    found = _TAG.search(version)
    return (int(found[1]), int(found[2])) if found else None


def judge(facts: Facts) -> CheckResult:
    """Fixes that change wheels come before those that change the driver."""
    if facts.install is None:
        return skipped(ID, message("No engine was found."))
    output, major = facts.probe("environment"), driver_major(facts)
    wheels = read_wheels(facts)
    if major is None:
        return unknown(ID, message("The driver version is not known."), evidence_of(output))
    if wheels.cpu_build:
        return failed(
            ID,
            message(
                "torch {version} is a build without CUDA; the cards would not be used.",
                version=wheels.torch_version,
            ),
            Finding(
                "torch-cpu-build",
                (("torch", wheels.torch_version),),
                fixes=("pkg-reinstall-matching",),
            ),
            evidence_of(output),
        )
    if wheels.torch_cuda is None:
        return probe_fault(ID, output) or unknown(
            ID, message("The CUDA version of torch could not be read."), evidence_of(output)
        )
    return (
        _against_driver(facts, wheels, wheels.torch_cuda, major)
        or _against_each_other(facts, wheels, wheels.torch_cuda, major)
        or _against_cards(facts, wheels.torch_cuda)
        or _fine(facts, wheels.torch_cuda)
    )


def _evidence(facts: Facts) -> tuple[Evidence, ...]:
    return (
        Evidence("driver", driver_version(facts) or "?"),
        evidence_of(facts.probe("environment")),
    )


def _against_driver(
    facts: Facts, wheels: Wheels, cuda: tuple[int, int], driver: int
) -> CheckResult | None:
    newest = max(cuda[0], wheels.engine_major or 0)
    # A CUDA major that is not in the table needs at least what the newest known one needs.
    needed = MINIMUM_DRIVERS.get(newest, max(MINIMUM_DRIVERS.values()))
    if driver >= needed:
        return None
    fixes = ["pkg-cu12-wheels"] if driver >= MINIMUM_DRIVERS[12] else []
    fixes += ["win-driver-update"] if on_wsl(facts) else []
    mixed = cuda[0] != newest
    return failed(
        ID,
        message(
            "The installed wheels need CUDA {major}, that is driver {needed} or newer; "
            "the driver is {driver}.",
            major=newest,
            needed=needed,
            driver=driver_version(facts) or "?",
        ),
        Finding(
            "cudart13-missing" if mixed else "driver-too-old",
            (
                ("driver", driver_version(facts) or ""),
                ("needed", str(needed)),
                ("cuda_major", str(newest)),
                ("torch_cuda", f"{cuda[0]}.{cuda[1]}"),
            ),
            fixes=tuple(fixes),
        ),
        *_evidence(facts),
        next_step=message("Install wheels built for CUDA 12, or update the driver."),
    )


def _against_each_other(
    facts: Facts, wheels: Wheels, cuda: tuple[int, int], driver: int
) -> CheckResult | None:
    engine = wheels.engine_major
    if engine is None or engine == cuda[0] or engine in wheels.runtimes:
        return None
    wanted = "pkg-cu12-wheels" if cuda[0] == 12 else "pkg-reinstall-matching"
    others = tuple(fix for fix in ("pkg-reinstall-matching",) if fix != wanted)
    return failed(
        ID,
        message(
            "The engine was built for CUDA {engine}, torch for CUDA {torch}; "
            "the run-time library of CUDA {engine} is not there.",
            engine=engine,
            torch=f"{cuda[0]}.{cuda[1]}",
        ),
        Finding(
            "cudart13-missing",
            (
                ("driver", driver_version(facts) or str(driver)),
                ("cuda_major", str(engine)),
                ("torch_cuda", f"{cuda[0]}.{cuda[1]}"),
            ),
            fixes=(wanted, *others),
        ),
        *_evidence(facts),
        next_step=message("Install engine and torch as one set, both for the same CUDA."),
    )


def _against_cards(facts: Facts, cuda: tuple[int, int]) -> CheckResult | None:
    rows = parse_gpus(facts.probe("gpu"))
    new = [row.name for row in rows if row.capability and row.capability >= _BLACKWELL]
    if not new or cuda >= _BLACKWELL_CUDA:
        return None
    return failed(
        ID,
        message(
            "torch for CUDA {cuda} holds no code for {card}; CUDA 12.8 or newer is needed.",
            cuda=f"{cuda[0]}.{cuda[1]}",
            card=new[0],
        ),
        Finding(
            "no-kernel-image",
            (("torch_cuda", f"{cuda[0]}.{cuda[1]}"), ("card", new[0])),
            fixes=("pkg-cu128-wheels",),
        ),
        *_evidence(facts),
    )


def _fine(facts: Facts, cuda: tuple[int, int]) -> CheckResult:
    return passed(
        ID,
        message(
            "Wheels for CUDA {cuda} run on driver {driver}",
            cuda=f"{cuda[0]}.{cuda[1]}",
            driver=driver_version(facts) or "?",
        ),
        *_evidence(facts),
    )


CHECK = Check(
    id=ID,
    title=N_("CUDA wheels fit the driver"),
    probes=("system", "gpu", "driver", "environment"),
    judge=judge,
    requires=("driver-version", "engine-installed"),
    needs_profile=True,
    findings=("driver-too-old", "cudart13-missing", "torch-cpu-build", "no-kernel-image"),
)
