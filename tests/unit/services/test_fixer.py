from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.memory_host import FakeClock, MemoryHost, host_error
from fixtures.standard_machine import ANSWERS, INSTALL, answer, profile_with
from twinrig import assets
from twinrig.checks.registry import CHECKS
from twinrig.domain.checks import Finding, ProbeOutput, Status
from twinrig.domain.errors import ConflictError, HostError, TwinrigError, UsageError
from twinrig.domain.fixes import (
    CommandStep,
    FixPlan,
    FixStep,
    Guidance,
    ProfileStep,
    WriteFileStep,
)
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import EnvEntry, Profile
from twinrig.fixes.registry import load_fixes
from twinrig.fixes.sysctl_ptrace import CONTENT, PATH
from twinrig.hosts.local.host import LocalHost
from twinrig.hosts.locks import FileLock
from twinrig.messages import message
from twinrig.services import fixer as fixer_module
from twinrig.services.fixer import LOCK_NAME, Fixer
from twinrig.services.journal import Journal, Outcome
from twinrig.services.preflight import Preflight

FIXES = load_fixes(assets.read_text("advice/fixes.yaml"))
EXPANDABLE = profile_with(env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
PTRACE = Finding(
    "pidfd-getfd-denied", (("scope", "1"),), fixes=("sysctl-ptrace-0", "env-expandable-off")
)


class Store:
    """A profile store in memory that refuses a stale ``replaces``."""

    def __init__(self, *profiles: Profile) -> None:
        self.profiles = {profile.id: profile for profile in profiles}
        self.error: TwinrigError | None = None

    def load(self, profile_id: str) -> Profile:
        if profile_id not in self.profiles:
            raise UsageError(message("There is no profile {id}.", id=profile_id))
        return self.profiles[profile_id]

    def save(self, profile: Profile, *, replaces: Profile | None = None) -> None:
        if self.error is not None:
            raise self.error
        if replaces is not None and self.profiles.get(profile.id) != replaces:
            raise ConflictError(message("The profile changed."))
        self.profiles[profile.id] = profile


class Finder:
    async def find(self, engine_id: str, environment: str = "") -> tuple[EngineInstall, ...]:
        return (INSTALL,)


class Rig:
    """A fixer on a machine in memory whose ptrace_scope is a real variable."""

    def __init__(self, folder: Path, profile: Profile = EXPANDABLE, scope: str = "1") -> None:
        self.scope = scope
        self.host = MemoryHost(self._answer)
        self.host.programs["sysctl"] = self._sysctl
        self.store = Store(profile)
        self.clock = FakeClock()
        self.journal = Journal(folder / "journal.jsonl")
        self.preflight = Preflight(self.host, CHECKS, Finder(), self.clock)
        self.lock = FileLock(folder)
        self.fixer = self.new_fixer(self.lock)

    def new_fixer(self, lock: FileLock | None) -> Fixer:
        return Fixer(
            self.host,
            self.store,
            self.journal,
            self.preflight,
            FIXES,
            self.clock,
            "local",
            lock=lock,
        )

    def _answer(self, name: str) -> ProbeOutput:
        if name == "ptrace":
            return answer(name, f"{self.scope}\n")
        if name == "ptrace_file" and PATH in self.host.files:
            return answer(name, f"sha256={hashlib.sha256(self.host.files[PATH]).hexdigest()}\n")
        return answer(name, ANSWERS[name])

    def _sysctl(self, argv: Sequence[str]) -> int:
        self.scope = argv[-1].rpartition("=")[2]
        return 0

    async def plan(self, finding: Finding = PTRACE, index: int = 0) -> FixPlan:
        options = await self.fixer.options(finding, self.store.profiles["qwen"])
        plan = options[index]
        assert isinstance(plan, FixPlan)
        return plan

    async def apply(self, plan: FixPlan, finding: Finding = PTRACE) -> object:
        return await self.fixer.apply(finding, plan, self.store.profiles["qwen"])


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def plan_of(*steps: FixStep) -> FixPlan:
    return FixPlan("made-up", message("Made up"), steps)


def write(path: str, content: str | None, **changes: object) -> WriteFileStep:
    return replace(WriteFileStep(path, content), **changes)


# --- options and preview


async def test_options_are_plans_in_the_order_of_the_finding(rig: Rig) -> None:
    options = await rig.fixer.options(PTRACE, EXPANDABLE)

    assert [option.fix_id for option in options] == ["sysctl-ptrace-0", "env-expandable-off"]
    assert rig.host.calls == ["probes"]


async def test_options_leave_out_what_cannot_help_and_keep_words(rig: Rig) -> None:
    finding = Finding("x", fixes=("unknown-fix", "env-expandable-on", "free-disk", "cfg-tp-2"))
    options = await rig.fixer.options(finding, EXPANDABLE)

    assert [type(option) for option in options] == [Guidance]


async def test_options_of_a_machine_that_does_not_answer(rig: Rig) -> None:
    rig.host.unreachable = host_error()

    with pytest.raises(HostError):
        await rig.fixer.options(PTRACE, EXPANDABLE)


async def test_preview_shows_exact_commands_and_diffs_and_changes_nothing(rig: Rig) -> None:
    preview = await rig.fixer.preview(await rig.plan())
    file, command = preview.steps

    assert (file.kind, file.root) == ("file", True)
    assert file.text.startswith(f"--- /dev/null\n+++ {PATH}\n@@ ")
    assert "+kernel.yama.ptrace_scope = 0" in file.text
    assert command.text == (
        "sysctl -w kernel.yama.ptrace_scope=0\n# undo: sysctl -w kernel.yama.ptrace_scope=1"
    )
    assert str(file.title) == f"Create {PATH}"
    assert rig.host.files == {} and rig.scope == "1"
    assert rig.journal.entries() == ()


async def test_preview_of_a_profile_edit_is_a_diff_of_its_file(rig: Rig) -> None:
    preview = await rig.fixer.preview(await rig.plan(index=1))
    (step,) = preview.steps

    assert step.kind == "profile" and not step.root
    removed = [line for line in step.text.splitlines() if line.startswith("-")]
    assert any("PYTORCH_CUDA_ALLOC_CONF" in line for line in removed)
    assert rig.store.profiles["qwen"] == EXPANDABLE


async def test_preview_of_a_binary_file_does_not_show_its_bytes(rig: Rig) -> None:
    rig.host.files["/etc/x"] = b"\x00\x01\xff"
    preview = await rig.fixer.preview(plan_of(write("/etc/x", "text\n")))

    assert preview.steps[0].text == "--- /etc/x (3 bytes)\n+++ /etc/x (5 bytes)"


async def test_preview_of_removing_a_file(rig: Rig) -> None:
    rig.host.files["/etc/x"] = b"old\n"
    (step,) = (await rig.fixer.preview(plan_of(write("/etc/x", None)))).steps

    assert str(step.title) == "Remove /etc/x"
    assert "-old" in step.text and "+++ /dev/null" in step.text


# --- apply, prove, undo


async def test_applied_fix_is_proven_by_the_check_that_found_it(rig: Rig) -> None:
    outcome = await rig.fixer.apply(PTRACE, await rig.plan(), EXPANDABLE)

    assert outcome.applied and outcome.proven
    assert [result.check_id for result in outcome.results] == ["ptrace-scope"]
    assert rig.scope == "0"
    assert rig.host.files[PATH] == CONTENT.encode()
    assert f"root write {PATH}" in rig.host.calls
    assert "root sysctl -w kernel.yama.ptrace_scope=0" in rig.host.calls
    (entry,) = rig.journal.entries()
    assert entry.id == outcome.entry_id
    assert entry.outcome is Outcome.APPLIED and entry.proven
    assert [step.done for step in entry.steps] == [True, True]
    assert entry.finding == PTRACE
    assert entry.at_s == 1_000_000.0


async def test_undo_puts_everything_back_in_reverse_order(rig: Rig) -> None:
    outcome = await rig.fixer.apply(PTRACE, await rig.plan(), EXPANDABLE)
    rig.host.calls.clear()
    entry = await rig.fixer.undo(outcome.entry_id)

    assert entry.undone_at_s is not None
    assert rig.scope == "1"
    assert PATH not in rig.host.files
    assert rig.host.calls == [
        "root sysctl -w kernel.yama.ptrace_scope=1",
        f"root remove {PATH}",
    ]


async def test_undo_restores_exact_bytes_and_mode_of_an_existing_file(rig: Rig) -> None:
    rig.host.files["/etc/x"] = b"\xffold\r\nno end"
    rig.host.modes["/etc/x"] = 0o600
    outcome = await rig.fixer.apply(Finding("x"), plan_of(write("/etc/x", "new\n")), None)
    assert rig.host.files["/etc/x"] == b"new\n"

    await rig.fixer.undo(outcome.entry_id)
    assert rig.host.files["/etc/x"] == b"\xffold\r\nno end"
    assert rig.host.modes["/etc/x"] == 0o600


async def test_removed_file_comes_back(rig: Rig) -> None:
    rig.host.files["/etc/x"] = b"old"
    outcome = await rig.fixer.apply(Finding("x"), plan_of(write("/etc/x", None)), None)
    assert "/etc/x" not in rig.host.files

    await rig.fixer.undo(outcome.entry_id)
    assert rig.host.files["/etc/x"] == b"old"


async def test_profile_edit_is_applied_proven_and_taken_back(rig: Rig) -> None:
    outcome = await rig.fixer.apply(PTRACE, await rig.plan(index=1), EXPANDABLE)

    assert outcome.proven
    assert rig.store.profiles["qwen"].env == {}

    await rig.fixer.undo(outcome.entry_id)
    assert rig.store.profiles["qwen"] == EXPANDABLE


async def test_profile_edits_keep_the_reason_of_each_variable(rig: Rig) -> None:
    plan = await rig.plan(Finding("nccl-cumem-wsl", fixes=("env-nccl-cumem-0",)))
    await rig.apply(plan, Finding("nccl-cumem-wsl"))

    entry = rig.store.profiles["qwen"].env["NCCL_CUMEM_ENABLE"]
    assert entry.value == "0"
    assert "WSL2" in entry.reason


async def test_edits_of_every_kind_of_entry_come_back(rig: Rig) -> None:
    before = replace(
        EXPANDABLE, extra={"words": ("a", "b"), "old": 1}, settings={"tensor_parallel_size": 2}
    )
    rig.store.profiles["qwen"] = before
    step = ProfileStep(
        "qwen",
        {"tensor_parallel_size": 1, "enforce_eager": True},
        {"A": "1"},
        "why",
        extra={"words": None, "old": 2},
        fields={
            "network.port": 8003,
            "model.path": "/m",
            "model.served_name": "n",
            "engine.environment": "/v",
        },
    )
    outcome = await rig.fixer.apply(Finding("x"), plan_of(step), before)
    changed = rig.store.profiles["qwen"]
    assert changed.network.port == 8003
    assert (changed.model.path, changed.model.served_name) == ("/m", "n")
    assert changed.engine.environment == "/v"
    assert changed.settings == {"tensor_parallel_size": 1, "enforce_eager": True}
    assert changed.extra == {"old": 2}
    assert changed.env["A"] == EnvEntry("1", "why")

    await rig.fixer.undo(outcome.entry_id)
    assert rig.store.profiles["qwen"] == before


async def test_undo_keeps_what_the_user_edited_elsewhere_in_the_profile(rig: Rig) -> None:
    outcome = await rig.fixer.apply(PTRACE, await rig.plan(index=1), EXPANDABLE)
    rig.store.profiles["qwen"] = replace(rig.store.profiles["qwen"], name="Renamed")
    await rig.fixer.undo(outcome.entry_id)

    assert rig.store.profiles["qwen"] == replace(EXPANDABLE, name="Renamed")


async def test_undo_refuses_when_the_user_changed_the_same_entry(rig: Rig) -> None:
    plan = await rig.plan(Finding("n", fixes=("env-nccl-cumem-0",)))
    outcome = await rig.fixer.apply(Finding("n"), plan, EXPANDABLE)
    edited = replace(
        rig.store.profiles["qwen"],
        env={**rig.store.profiles["qwen"].env, "NCCL_CUMEM_ENABLE": EnvEntry("1", "mine")},
    )
    rig.store.profiles["qwen"] = edited

    with pytest.raises(ConflictError) as caught:
        await rig.fixer.undo(outcome.entry_id)
    assert "env.NCCL_CUMEM_ENABLE: 0 -> 1" in str(caught.value.text)
    assert rig.store.profiles["qwen"] == edited
    entry = rig.journal.entry(outcome.entry_id)
    assert entry is not None and entry.can_undo


async def test_finding_of_a_log_is_applied_but_not_proven(rig: Rig) -> None:
    plan = await rig.plan(Finding("nccl-cumem-wsl", fixes=("env-nccl-cumem-0",)))
    outcome = await rig.fixer.apply(Finding("nccl-cumem-wsl"), plan, EXPANDABLE)

    assert outcome.applied and not outcome.proven
    assert outcome.results == ()
    assert "Start the server" in str(outcome.text)


async def test_fix_that_does_not_help_is_not_called_proven(rig: Rig) -> None:
    rig.host.programs["sysctl"] = lambda argv: 0  # says yes, does nothing
    outcome = await rig.fixer.apply(PTRACE, await rig.plan(), EXPANDABLE)

    assert outcome.applied and not outcome.proven
    assert outcome.results[0].status is Status.FAIL
    assert "take it back" in str(outcome.text)
    entry = rig.journal.entry(outcome.entry_id)
    assert entry is not None and not entry.proven and entry.can_undo


async def test_proof_that_could_not_be_had_is_no_proof(rig: Rig) -> None:
    plan = await rig.plan()

    def sysctl_then_gone(argv: Sequence[str]) -> int:
        rig.host.unreachable = host_error()
        return 0

    rig.host.programs["sysctl"] = sysctl_then_gone
    outcome = await rig.fixer.apply(PTRACE, plan, EXPANDABLE)

    assert not outcome.proven
    assert outcome.results[0].status is Status.ERROR


async def test_dependants_of_the_check_are_run_again_too(rig: Rig) -> None:
    finding = Finding("cuda-driver-missing-wsl")
    outcome = await rig.fixer.apply(finding, plan_of(write("/x", "y")), EXPANDABLE)

    assert [result.check_id for result in outcome.results] == [
        "gpu-visible",
        "gpu-count",
        "driver-version",
        "cuda-wheels",
    ]
    assert outcome.proven


# --- refusals and failures


async def test_file_that_changed_after_the_preview_is_not_overwritten(rig: Rig) -> None:
    plan = await rig.plan()
    rig.host.files[PATH] = b"somebody else\n"

    with pytest.raises(ConflictError) as caught:
        await rig.fixer.apply(PTRACE, plan, EXPANDABLE)
    assert "Nothing is left of it" in str(caught.value.text)
    assert rig.host.files[PATH] == b"somebody else\n"
    assert rig.scope == "1"


async def test_failed_command_takes_the_earlier_steps_back_and_says_so(rig: Rig) -> None:
    rig.host.programs["sysctl"] = lambda argv: 1
    with pytest.raises(HostError) as caught:
        await rig.fixer.apply(PTRACE, await rig.plan(), EXPANDABLE)

    assert "permission denied" in str(caught.value.text)
    assert "Nothing is left of it" in str(caught.value.text)
    assert PATH not in rig.host.files
    (entry,) = rig.journal.entries()
    assert entry.outcome is Outcome.ROLLED_BACK
    with pytest.raises(UsageError):
        await rig.fixer.undo(entry.id)


@pytest.mark.parametrize(
    ("code", "words"), [(127, "is not installed"), (-1, "did not end within 10 s")]
)
async def test_missing_program_and_time_out_are_told_apart(rig: Rig, code: int, words: str) -> None:
    plan = await rig.plan()
    rig.host.programs["sysctl"] = lambda argv: code

    with pytest.raises(HostError, match=words) as caught:
        await rig.fixer.apply(PTRACE, plan, EXPANDABLE)
    assert caught.value.next_step is not None
    assert PATH not in rig.host.files


async def test_read_only_target_gives_the_hosts_reason_and_next_step(rig: Rig) -> None:
    rig.host.faults[f"write {PATH}"] = host_error("read-only file system")

    with pytest.raises(HostError, match="read-only file system") as caught:
        await rig.fixer.apply(PTRACE, await rig.plan(), EXPANDABLE)
    assert str(caught.value.next_step) == "Try again."
    assert rig.host.files == {} and rig.scope == "1"


async def test_roll_back_that_fails_too_is_told_and_stays_open(rig: Rig) -> None:
    plan = await rig.plan()

    def fail_and_lock(argv: Sequence[str]) -> int:
        rig.host.faults[f"write {PATH}"] = host_error("now read-only")
        return 1

    rig.host.programs["sysctl"] = fail_and_lock
    with pytest.raises(HostError, match="now read-only") as caught:
        await rig.fixer.apply(PTRACE, plan, EXPANDABLE)
    assert "applied in part" in str(caught.value.text)

    (entry,) = rig.journal.entries()
    assert entry.outcome is Outcome.OPEN and entry.can_undo
    rig.host.faults.clear()
    rig.host.programs["sysctl"] = lambda argv: 0
    await rig.fixer.undo(entry.id)
    assert PATH not in rig.host.files


async def test_invalid_profile_is_a_usage_error_and_nothing_is_left(rig: Rig) -> None:
    rig.store.error = UsageError(message("The profile is not valid."))

    with pytest.raises(UsageError, match="not valid"):
        await rig.fixer.apply(PTRACE, await rig.plan(index=1), EXPANDABLE)
    assert rig.store.profiles["qwen"] == EXPANDABLE


async def test_nothing_is_changed_when_the_journal_cannot_be_written(
    rig: Rig, tmp_path: Path
) -> None:
    plan = await rig.plan()
    (tmp_path / "journal.jsonl").mkdir()

    with pytest.raises(HostError, match="journal"):
        await rig.fixer.apply(PTRACE, plan, EXPANDABLE)
    assert rig.host.files == {} and rig.scope == "1"


async def test_undo_refuses_when_the_file_changed_since_and_shows_what(rig: Rig) -> None:
    outcome = await rig.fixer.apply(PTRACE, await rig.plan(), EXPANDABLE)
    rig.host.files[PATH] += b"kernel.yama.ptrace_scope = 2\n"

    with pytest.raises(ConflictError) as caught:
        await rig.fixer.undo(outcome.entry_id)
    assert "+kernel.yama.ptrace_scope = 2" in str(caught.value.text)
    # It was refused as a whole: the command was not taken back either.
    assert rig.scope == "0"
    entry = rig.journal.entry(outcome.entry_id)
    assert entry is not None and entry.undone_at_s is None


async def test_undo_accepts_a_file_that_is_back_already(rig: Rig) -> None:
    outcome = await rig.fixer.apply(PTRACE, await rig.plan(), EXPANDABLE)
    del rig.host.files[PATH]
    await rig.fixer.undo(outcome.entry_id)

    assert rig.scope == "1" and PATH not in rig.host.files


async def test_command_without_a_way_back_is_refused_before_anything_is_touched(rig: Rig) -> None:
    rig.host.programs["kill"] = lambda argv: 0
    plan = plan_of(write("/x", "y"), CommandStep(("kill", "1"), None))
    outcome = await rig.fixer.apply(Finding("x"), plan, None)

    with pytest.raises(ConflictError, match="cannot be taken back"):
        await rig.fixer.undo(outcome.entry_id)
    assert rig.host.files["/x"] == b"y"


async def test_undo_twice_and_of_nothing(rig: Rig) -> None:
    outcome = await rig.fixer.apply(PTRACE, await rig.plan(), EXPANDABLE)
    await rig.fixer.undo(outcome.entry_id)

    with pytest.raises(UsageError, match="taken back already"):
        await rig.fixer.undo(outcome.entry_id)
    with pytest.raises(UsageError, match="no change nothing"):
        await rig.fixer.undo("nothing")


def change_before_write(rig: Rig, content: bytes) -> None:
    """Somebody writes the file between our last look and our write."""
    real = rig.host.write_file

    async def late(path: str, data: bytes | None, **options: object) -> None:
        rig.host.files[path] = content
        rig.host.write_file = real  # type: ignore[method-assign]
        await real(path, data, **options)  # type: ignore[arg-type]

    rig.host.write_file = late  # type: ignore[method-assign]


async def test_file_that_changes_in_the_last_moment_is_not_overwritten(rig: Rig) -> None:
    change_before_write(rig, b"somebody else\n")

    with pytest.raises(ConflictError, match="Nothing is left of it"):
        await rig.fixer.apply(Finding("x"), plan_of(write("/x", "y")), None)
    assert rig.host.files["/x"] == b"somebody else\n"
    assert rig.journal.entries()[0].outcome is Outcome.ROLLED_BACK


async def test_file_that_changes_in_the_last_moment_of_an_undo_is_kept(rig: Rig) -> None:
    outcome = await rig.fixer.apply(Finding("x"), plan_of(write("/x", "y")), None)
    change_before_write(rig, b"somebody else\n")

    with pytest.raises(ConflictError):
        await rig.fixer.undo(outcome.entry_id)
    assert rig.host.files["/x"] == b"somebody else\n"


async def test_profile_that_changes_in_the_last_moment_is_kept(rig: Rig) -> None:
    plan = await rig.plan(index=1)
    other = replace(EXPANDABLE, name="Edited meanwhile")
    real = rig.store.save

    def late(profile: Profile, *, replaces: Profile | None = None) -> None:
        rig.store.profiles["qwen"] = other
        real(profile, replaces=replaces)

    rig.store.save = late  # type: ignore[method-assign]
    with pytest.raises(ConflictError):
        await rig.fixer.apply(PTRACE, plan, EXPANDABLE)
    assert rig.store.profiles["qwen"] == other


@pytest.mark.parametrize(
    ("scope", "finding_id", "proven"),
    [("2", "pidfd-getfd-denied", False), ("0", "pidfd-getfd-denied", True)],
)
async def test_warning_about_the_same_fault_is_no_proof(
    tmp_path: Path, scope: str, finding_id: str, proven: bool
) -> None:
    rig = Rig(tmp_path, profile=profile_with(), scope=scope)
    outcome = await rig.fixer.apply(Finding(finding_id), plan_of(write("/x", "y")), profile_with())

    assert outcome.proven is proven
    assert outcome.results[0].status is (Status.PASS if proven else Status.WARN)


async def test_warning_about_something_else_does_not_spoil_the_proof(rig: Rig) -> None:
    slow = ANSWERS["model"].replace("ext2/ext3", "v9fs")
    rig.host.answers = lambda name: answer(name, slow if name == "model" else ANSWERS[name])
    outcome = await rig.fixer.apply(
        Finding("weights-missing"), plan_of(write("/x", "y")), EXPANDABLE
    )

    assert outcome.results[0].status is Status.WARN
    assert outcome.proven


# --- crashes and concurrency


class PowerCutError(BaseException):
    """Ends everything at once, as a crash would."""


async def test_crash_between_two_steps_can_be_taken_back(rig: Rig) -> None:
    plan = await rig.plan()

    def crash(argv: Sequence[str]) -> int:
        raise PowerCutError

    rig.host.programs["sysctl"] = crash
    with pytest.raises(PowerCutError):
        await rig.fixer.apply(PTRACE, plan, EXPANDABLE)
    (entry,) = rig.journal.entries()
    assert entry.outcome is Outcome.OPEN
    assert [step.done for step in entry.steps] == [True, False]
    assert PATH in rig.host.files

    rig.host.programs["sysctl"] = lambda argv: 0
    await rig.fixer.undo(entry.id)
    assert PATH not in rig.host.files


async def test_crash_inside_a_write_can_be_taken_back_whether_it_happened_or_not(rig: Rig) -> None:
    for happened in (False, True):
        real = rig.host.write_file

        async def crash(path: str, data: bytes | None, **options: object) -> None:
            if happened:  # noqa: B023 - used within the round
                await real(path, data, **options)  # type: ignore[arg-type]  # noqa: B023
            raise PowerCutError

        rig.host.write_file = crash  # type: ignore[method-assign]
        with pytest.raises(PowerCutError):
            await rig.fixer.apply(Finding("x"), plan_of(write("/x", "y")), None)
        rig.host.write_file = real  # type: ignore[method-assign]
        await rig.fixer.undo(rig.journal.entries()[-1].id)
        assert "/x" not in rig.host.files


async def test_what_undo_needs_is_on_disk_before_the_step(rig: Rig, tmp_path: Path) -> None:
    seen: list[str] = []
    real = rig.host.write_file

    async def watch(path: str, data: bytes | None, **options: object) -> None:
        seen.append((tmp_path / "journal.jsonl").read_text())
        await real(path, data, **options)  # type: ignore[arg-type]

    rig.host.write_file = watch  # type: ignore[method-assign]
    rig.host.files["/x"] = b"before"
    await rig.fixer.apply(Finding("x"), plan_of(write("/x", "y")), None)

    assert len(seen) == 1
    assert '"event":"step"' in seen[0] and "YmVmb3Jl" in seen[0]  # "before" in base64


async def test_cancelled_apply_takes_back_what_it_did(rig: Rig) -> None:
    reached, never = asyncio.Event(), asyncio.Event()
    real = rig.host.run

    async def hang(command: object, **options: object) -> object:
        if isinstance(command, tuple) and command[0] == "sysctl" and not reached.is_set():
            reached.set()
            await never.wait()
        return await real(command, **options)  # type: ignore[arg-type]

    plan = await rig.plan()
    rig.host.run = hang  # type: ignore[method-assign,assignment]
    task = asyncio.create_task(rig.fixer.apply(PTRACE, plan, EXPANDABLE))
    await reached.wait()
    assert PATH in rig.host.files
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert PATH not in rig.host.files
    assert rig.journal.entries()[0].outcome is Outcome.ROLLED_BACK


async def test_two_changes_at_once_are_made_one_after_the_other(rig: Rig, tmp_path: Path) -> None:
    other = rig.new_fixer(FileLock(tmp_path))
    active, most = 0, 0
    real = rig.host.write_file

    async def count(path: str, data: bytes | None, **options: object) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(0.02)
        await real(path, data, **options)  # type: ignore[arg-type]
        active -= 1

    rig.host.write_file = count  # type: ignore[method-assign]
    await asyncio.gather(
        rig.fixer.apply(Finding("x"), plan_of(write("/a", "1")), None),
        rig.fixer.apply(Finding("x"), plan_of(write("/b", "2")), None),
        other.apply(Finding("x"), plan_of(write("/c", "3")), None),
    )

    assert most == 1
    assert set(rig.host.files) == {"/a", "/b", "/c"}
    assert len(rig.journal.entries()) == 3


async def test_lock_that_is_never_given_back_ends_in_an_error(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fixer_module, "_LOCK_WAIT_S", 0.5)
    holder = FileLock(tmp_path)
    assert holder.acquire(LOCK_NAME)
    try:
        with pytest.raises(ConflictError, match="Another Twinrig"):
            await rig.fixer.apply(Finding("x"), plan_of(write("/a", "1")), None)
    finally:
        holder.release()
    assert rig.host.files == {}
    await rig.fixer.apply(Finding("x"), plan_of(write("/a", "1")), None)
    assert rig.host.files == {"/a": b"1"}


async def test_lock_is_given_back_after_a_failure(rig: Rig, tmp_path: Path) -> None:
    rig.host.faults["write /a"] = host_error()
    with pytest.raises(HostError):
        await rig.fixer.apply(Finding("x"), plan_of(write("/a", "1")), None)

    assert FileLock(tmp_path).acquire(LOCK_NAME)


# --- a real file system


async def test_real_files_come_back_with_bytes_mode_and_absence(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "state")
    host = LocalHost(dict(os.environ))
    fixer = Fixer(host, rig.store, rig.journal, rig.preflight, FIXES, rig.clock, "local")
    old, new = tmp_path / "old.conf", tmp_path / "folder" / "new.conf"
    old.write_bytes(b"\xff\x00bytes\r\n")
    old.chmod(0o640)
    plan = plan_of(
        write(str(old), "text\n", expected_sha256=hashlib.sha256(old.read_bytes()).hexdigest()),
        write(str(new), "made\n", expected_sha256="", mode=0o600),
        CommandStep(("mkdir", str(tmp_path / "made")), ("rmdir", str(tmp_path / "made"))),
    )
    outcome = await fixer.apply(Finding("x"), plan, None)
    assert old.read_text() == "text\n"
    assert new.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "made").is_dir()

    await fixer.undo(outcome.entry_id)
    assert old.read_bytes() == b"\xff\x00bytes\r\n"
    assert old.stat().st_mode & 0o777 == 0o640
    assert not new.exists() and not (tmp_path / "made").exists()


async def test_undo_refuses_a_real_file_that_the_user_edited(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "state")
    host = LocalHost(dict(os.environ))
    fixer = Fixer(host, rig.store, rig.journal, rig.preflight, FIXES, rig.clock, "local")
    path = tmp_path / "x.conf"
    outcome = await fixer.apply(Finding("x"), plan_of(write(str(path), "fix\n")), None)
    path.write_text("fix\nmine\n")

    with pytest.raises(ConflictError, match=r"\+mine"):
        await fixer.undo(outcome.entry_id)
    assert path.read_text() == "fix\nmine\n"
