"""Every fix that Twinrig can do itself, cut off between any two of its steps."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.fixer_rig import FIXES, Rig
from fixtures.standard_machine import (
    HOSTS,
    INSTALL,
    SHM,
    TABBY_PROFILE,
    answer,
    facts,
    profile_with,
    tabby,
)
from fixtures.standard_windows import CONFIG_PATH, config_answer
from twinrig.domain.checks import Facts, Finding
from twinrig.domain.errors import ConflictError, UsageError
from twinrig.domain.fixes import AdminStep, FixPlan, RestartWslStep
from twinrig.domain.profile import Profile
from twinrig.fixes.registry import PLANNED
from twinrig.hosts.locks import FileLock
from twinrig.services.fixer import LOCK_NAME
from twinrig.services.journal import Outcome
from twinrig.services.plan_codec import step_from_json, step_to_json

PARAMS = (
    ("port", "8001"),
    ("free_port", "8001"),
    ("free_gib", "20.0"),
    ("total_gib", "24.0"),
    ("argument", "--nonsense"),
    ("near", "/home/u/models/other"),
    ("template", "/home/u/template.jinja"),
    ("asked_name", "gpt"),
    ("found_environment", "/home/u/venvs/new"),
    ("wanted_max_len", "65536"),
    ("quantization", "awq"),
    ("option", "--made-up"),
)
ENV = {
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "CUDA_HOME": "/nowhere",
    "LD_LIBRARY_PATH": "/opt/lib",
    "NCCL_DEBUG": "WARN",
    "NCCL_SHM_DISABLE": "1",
}
SETTINGS: dict[str, Any] = {"enable_sleep_mode": True, "max_num_seqs": 8, "cpu_offload_gb": 8}
MACHINE = (
    answer("workers", "checked=yes\nworker 77 1 - VLLM::Worker_TP0\n"),
    answer("port", "checked=8000\nlisten 0100007F 1 1000\nholder 88 r-old vllm serve\nbusy 8001\n"),
    answer("hosts", HOSTS.replace("known=yes", "known=no")),
)


BROKEN_CONFIG = "[wsl2]\nmemory=48 GB\nnonsense\n"
HOSTS_TEXT = base64.b64decode(HOSTS.rpartition("base64=")[2])


class PowerCutError(BaseException):
    """Ends everything at once, as a crash would."""


def plans() -> list[tuple[str, FixPlan, Profile]]:
    """Each fix with the first situation in which it has a plan."""
    vllm = replace(profile_with(env=ENV, **SETTINGS), extra={"made-up": "1"})
    newer = replace(INSTALL, version="0.29.0")
    joined = {**TABBY_PROFILE.settings, "tensor_parallel_backend": "nccl"}
    over_nccl = replace(TABBY_PROFILE, settings=joined)
    guarded = profile_with()
    guarded = replace(guarded, network=replace(guarded.network, key_name="mine"))
    single = profile_with(tensor_parallel_size=1)
    left = answer("shm", f"{SHM}left 4096 /dev/shm/nccl-x1\n")
    situations: list[Facts] = [
        facts(*MACHINE, profile=vllm, install=newer),
        facts(*MACHINE, profile=profile_with(), install=newer),
        facts(*MACHINE, profile=single, install=newer),
        tabby(*MACHINE),
        tabby(profile=over_nccl),
        facts(left),
        facts(answer("windows_wslconfig", config_answer(BROKEN_CONFIG))),
        facts(profile=replace(guarded, network=replace(guarded.network, host="0.0.0.0"))),
        facts(profile=guarded),
    ]
    found: list[tuple[str, FixPlan, Profile]] = []
    for fix_id, fix in FIXES.items():
        for given in situations:
            try:
                plan = fix.plan(Finding(f"for-{fix_id}", PARAMS), given)
            except UsageError:
                continue
            if isinstance(plan, FixPlan) and given.profile is not None:
                found.append((fix_id, plan, given.profile))
                break
    return found


PLANS = plans()


def state(rig: Rig) -> tuple[Any, ...]:
    return (
        dict(rig.host.files),
        dict(rig.host.modes),
        dict(rig.store.profiles),
        rig.scope,
        dict(rig.windows.settings),
    )


def rig_for(
    folder: Path, profile: Profile, *, scope: str = "1", plan: FixPlan | None = None
) -> Rig:
    """Programs that a plan may call succeed; what they did is in ``host.calls``."""
    rig = Rig(folder, profile, scope)
    for name in ("apt-get", "kill", "rm", "ldconfig"):
        rig.host.programs[name] = lambda argv: 0
    rig.host.files["/etc/hosts"] = HOSTS_TEXT
    rig.host.modes["/etc/hosts"] = 0o644
    if plan is not None and plan.fix_id == "lan-close":
        for step in plan.steps:
            if isinstance(step, AdminStep) and step.revert is not None:  # open until now
                rig.windows.settings["nat"] = step.revert.params
    if plan is not None and plan.fix_id == "wslconfig-fix":
        rig.host.files[CONFIG_PATH] = BROKEN_CONFIG.encode()
        rig.host.modes[CONFIG_PATH] = 0o644
    return rig


def next_start(folder: Path, old: Rig, profile: Profile) -> Rig:
    """The program is started again on what the crash left."""
    rig = rig_for(folder, profile, scope=old.scope)
    rig.host.files, rig.host.modes = old.host.files, old.host.modes
    rig.store.profiles = old.store.profiles
    rig.windows.settings = old.windows.settings
    return rig


def test_there_is_something_to_walk_through() -> None:
    """All that the registry has, so that none is left out when one is added."""
    assert {plan[0] for plan in PLANS} == {fix.id for fix in PLANNED}


def cut_after(rig: Rig, calls: int) -> None:
    """The power goes at the given event of the journal; what was done before it stays."""
    real = rig.journal._write
    left = [calls]

    def write(event: Any, entry_id: str) -> None:
        if left[0] == 0:
            raise PowerCutError
        left[0] -= 1
        real(event, entry_id)

    rig.journal._write = write  # type: ignore[method-assign]


ALL = pytest.mark.parametrize(("fix_id", "plan", "profile"), PLANS, ids=[p[0] for p in PLANS])


async def crash(folder: Path, calls: int, fix_id: str, plan: FixPlan, profile: Profile) -> Rig:
    """A rig whose power went after so many events of the journal."""
    folder.mkdir()
    rig = rig_for(folder, profile, plan=plan)
    cut_after(rig, calls)
    with pytest.raises(PowerCutError):
        await rig.fixer.apply(Finding(f"for-{fix_id}", PARAMS), plan, profile)
    return rig


def events(plan: FixPlan) -> range:
    return range(2 + 2 * len(plan.steps))  # begin, step and done of each, end


@ALL
async def test_cut_off_anywhere_it_can_be_taken_back(
    tmp_path: Path, fix_id: str, plan: FixPlan, profile: Profile
) -> None:
    for calls in events(plan):
        folder = tmp_path / str(calls)
        before = state(rig_for(tmp_path / "untouched", profile, plan=plan))
        old = await crash(folder, calls, fix_id, plan, profile)
        again = next_start(folder, old, profile)
        for entry in again.fixer.interrupted():
            assert entry.outcome is Outcome.OPEN and entry.can_undo
            if any(step.done and step.kind == "command" for step in entry.steps) and (
                not plan.reversible
            ):
                with pytest.raises(ConflictError, match="cannot be taken back"):
                    await again.fixer.undo(entry.id)
            else:
                await again.fixer.undo(entry.id)
                assert again.fixer.interrupted() == ()
        assert state(again) == before, f"cut off after {calls} events"


@ALL
async def test_cut_off_anywhere_it_can_be_finished(
    tmp_path: Path, fix_id: str, plan: FixPlan, profile: Profile
) -> None:
    whole = rig_for(tmp_path / "whole", profile, plan=plan)
    await whole.fixer.apply(Finding(f"for-{fix_id}", PARAMS), plan, profile)
    for calls in events(plan):
        folder = tmp_path / str(calls)
        old = await crash(folder, calls, fix_id, plan, profile)
        again = next_start(folder, old, profile)
        entries = again.fixer.interrupted()
        assert len(entries) == (calls > 0), "offered exactly when something was begun"
        for entry in entries:
            outcome = await again.fixer.finish(entry.id, profile)
            assert outcome.applied and outcome.entry_id == entry.id
            assert state(again) == state(whole), f"cut off after {calls} events"
            assert again.fixer.interrupted() == ()
            if plan.reversible:
                await again.fixer.undo(entry.id)
                assert state(again) == state(rig_for(tmp_path / "untouched", profile, plan=plan))


@ALL
def test_every_step_survives_the_journal(fix_id: str, plan: FixPlan, profile: Profile) -> None:
    for step in plan.steps:
        assert step_from_json(json.loads(json.dumps(step_to_json(step)))) == step


@ALL
async def test_applied_and_taken_back_everything_is_as_before(
    tmp_path: Path, fix_id: str, plan: FixPlan, profile: Profile
) -> None:
    rig = rig_for(tmp_path, profile, plan=plan)
    before = state(rig)
    outcome = await rig.fixer.apply(Finding(f"for-{fix_id}", PARAMS), plan, profile)
    assert outcome.applied
    if all(isinstance(step, RestartWslStep) for step in plan.steps):
        assert rig.windows.restarts == 1 and state(rig) == before
        return
    if not plan.reversible:
        assert any("apt-get" in c or "kill" in c or "rm -f" in c for c in rig.host.calls)
        return
    assert state(rig) != before
    await rig.fixer.undo(outcome.entry_id)
    assert state(rig) == before


async def test_what_is_not_interrupted_cannot_be_finished(tmp_path: Path) -> None:
    fix_id, plan, profile = next(p for p in PLANS if p[0] == "env-nccl-cumem-0")
    rig = rig_for(tmp_path, profile)
    outcome = await rig.fixer.apply(Finding(f"for-{fix_id}", PARAMS), plan, profile)
    with pytest.raises(UsageError, match="cannot be finished"):
        await rig.fixer.finish(outcome.entry_id, profile)


async def test_rest_that_this_version_cannot_read_can_still_be_taken_back(tmp_path: Path) -> None:
    fix_id, plan, profile = next(p for p in PLANS if p[0] == "sysctl-ptrace-0")
    old = await crash(tmp_path / "x", 3, fix_id, plan, profile)
    path = tmp_path / "x" / "journal.jsonl"
    path.write_text(path.read_text().replace("WriteFileStep", "StepOfTomorrow"))
    again = next_start(tmp_path / "x", old, profile)
    (entry,) = again.fixer.interrupted()
    with pytest.raises(UsageError, match="cannot read the rest"):
        await again.fixer.finish(entry.id, profile)
    await again.fixer.undo(entry.id)
    assert state(again) == state(rig_for(tmp_path / "y", profile))


async def test_nothing_is_called_interrupted_while_another_twinrig_is_at_work(
    tmp_path: Path,
) -> None:
    fix_id, plan, profile = next(p for p in PLANS if p[0] == "sysctl-ptrace-0")
    old = await crash(tmp_path / "x", 3, fix_id, plan, profile)
    again = next_start(tmp_path / "x", old, profile)
    other = FileLock(tmp_path / "x")
    assert other.acquire(LOCK_NAME)
    assert again.fixer.interrupted() == ()
    other.release()
    assert len(again.fixer.interrupted()) == 1


async def test_everything_is_taken_back_newest_first_and_what_cannot_be_is_told(
    tmp_path: Path,
) -> None:
    rows = {p[0]: p for p in PLANS}
    profile = rows["env-nccl-cumem-0"][2]
    rig = rig_for(tmp_path, profile)
    before = state(rig)
    for fix_id in ("env-nccl-cumem-0", "sysctl-ptrace-0", "stop-orphan-workers", "wsl-hosts-fix"):
        plan = rows[fix_id][1]
        await rig.fixer.apply(Finding(f"for-{fix_id}", PARAMS), plan, profile)
    found = await rig.fixer.undo_all()

    assert [entry.fix_id for entry, _ in found] == [
        "wsl-hosts-fix",
        "stop-orphan-workers",
        "sysctl-ptrace-0",
        "env-nccl-cumem-0",
    ]
    assert [error is None for _, error in found] == [True, False, True, True]
    assert state(rig) == before
    assert [entry.fix_id for entry, _ in await rig.fixer.undo_all()] == ["stop-orphan-workers"]
