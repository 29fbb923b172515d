"""Is the model there, readable, complete, and on a fast disk?"""

from __future__ import annotations

import difflib
import re

from twinrig.checks.judging import (
    evidence_of,
    failed,
    garbled,
    gib,
    passed,
    probe_fault,
    skipped,
    warned,
)
from twinrig.checks.model_facts import ModelAnswer, parse_model
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding, Severity
from twinrig.domain.wsl import linux_path
from twinrig.messages import N_, Message, message

ID = "model-folder"
_WINDOWS_DRIVE = re.compile(r"/mnt/[a-z](/|$)")
_WINDOWS_FILESYSTEMS = frozenset({"v9fs", "9p", "drvfs"})


def judge(facts: Facts) -> CheckResult:
    """First whether it is there, then whether it is whole, then whether it is slow."""
    if facts.profile is None:
        return skipped(ID, message("No profile was given."))
    path = facts.profile.model.path
    output = facts.probe("model")
    if not path:
        return _absent(path, message("The profile names no model."), ModelAnswer("no"))
    if linux := linux_path(path):
        return _windows_path(path, linux)
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    answer = parse_model(output)
    evidence = evidence_of(output)
    if answer.exists not in ("yes", "no", "file", "unreadable"):
        return garbled(ID, output)
    return (
        _presence(path, answer, evidence)
        or _completeness(path, answer, evidence)
        or _place(path, answer, evidence)
        or passed(
            ID,
            message(
                "{name}: files {count}, {size} GiB",
                name=path.rstrip("/").rsplit("/", 1)[-1],
                count=len(answer.weights),
                size=gib(answer.weight_bytes),
            ),
            evidence,
        )
    )


def _windows_path(path: str, linux: str) -> CheckResult:
    """As Explorer shows it; the server would look for a file of that very name."""
    return failed(
        ID,
        message("{path} is a path of Windows; the server runs in Linux.", path=path),
        Finding("model-path-missing", (("path", path), ("near", linux)), fixes=("cfg-model-path",)),
        next_step=message("Write its Linux path into the profile: {linux}", linux=linux),
    )


def _presence(path: str, answer: ModelAnswer, evidence: Evidence) -> CheckResult | None:
    if answer.exists == "no":
        text = message("The model folder {path} does not exist.", path=path)
        return _absent(path, text, answer, evidence)
    if answer.exists == "file":
        text = message("{path} is a file, not a model folder.", path=path)
        return _absent(path, text, answer, evidence)
    if answer.exists == "unreadable" or answer.unreadable:
        names = ", ".join(answer.unreadable[:3]) or path
        return failed(
            ID,
            message("You may not read {names} in the model folder.", names=names),
            Finding("model-unreadable", (("path", path),)),
            evidence,
            next_step=message("Give your Linux user the right to read {path}.", path=path),
        )
    if "config.json" not in answer.sizes and not _has_gguf(answer):
        text = message("The folder {path} holds no config.json.", path=path)
        return _absent(path, text, answer, evidence, also=("model-redownload",))
    return None


def _has_gguf(answer: ModelAnswer) -> bool:
    return any(name.endswith(".gguf") for name in answer.sizes)


def _absent(
    path: str,
    text: Message,
    answer: ModelAnswer,
    *evidence: Evidence,
    also: tuple[str, ...] = (),
) -> CheckResult:
    near = near_match(path, answer.near)
    params = (("path", path), *((("near", near),) if near else ()))
    next_step = message("Choose the folder of a model.")
    if near:
        next_step = message("Choose the folder of a model; did you mean {near}?", near=near)
    finding = Finding("model-path-missing", params, fixes=("cfg-model-path", *also))
    return failed(ID, text, finding, *evidence, next_step=next_step)


def near_match(path: str, candidates: tuple[str, ...]) -> str:
    """The folder beside a missing one whose name is most alike, "" when none is."""
    wanted = path.rstrip("/").rsplit("/", 1)[-1].lower()
    names = {c.rsplit("/", 1)[-1].lower(): c for c in candidates}
    found = difflib.get_close_matches(wanted, list(names), n=1, cutoff=0.6)
    return names[found[0]] if found else ""


def _completeness(path: str, answer: ModelAnswer, evidence: Evidence) -> CheckResult | None:
    missing = answer.missing
    if missing or not answer.weights:
        return failed(
            ID,
            message(
                "The model is not complete; files that are missing: {count} ({first})",
                count=len(missing) or 1,
                first=missing[0] if missing else "*.safetensors",
            ),
            Finding(
                "weights-missing",
                (("path", path), ("first", missing[0] if missing else "")),
                fixes=("model-redownload",),
            ),
            evidence,
            next_step=message("Download the model again; what is there already is kept."),
        )
    damaged = answer.damaged()
    if damaged:
        return failed(
            ID,
            message("{name} is damaged or was not downloaded to its end.", name=damaged[0]),
            Finding(
                "safetensors-corrupt",
                (("path", path), ("first", damaged[0])),
                fixes=("model-redownload",),
            ),
            Evidence("safetensors headers", "\n".join(damaged)),
            evidence,
            next_step=message("Remove the damaged files and download them again."),
        )
    return None


def _place(path: str, answer: ModelAnswer, evidence: Evidence) -> CheckResult | None:
    windows_drive = _WINDOWS_DRIVE.match(path) or _WINDOWS_DRIVE.match(answer.real_path)
    if not windows_drive and answer.filesystem not in _WINDOWS_FILESYSTEMS:
        return None
    return warned(
        ID,
        message("The model lies on a Windows drive; loading it takes many times longer."),
        Finding("slow-mnt-drive", (("path", path),), Severity.WARNING, ("model-move-ext4",)),
        evidence,
        next_step=message("Copy the model into the Linux file system, for example below ~/models."),
    )


CHECK = Check(
    id=ID,
    title=N_("Model folder is complete"),
    probes=("model",),
    judge=judge,
    needs_profile=True,
    findings=(
        "model-path-missing",
        "model-unreadable",
        "weights-missing",
        "safetensors-corrupt",
        "slow-mnt-drive",
    ),
)
