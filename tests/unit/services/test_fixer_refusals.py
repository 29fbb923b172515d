from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.fixer_rig import EXPANDABLE, PTRACE, Rig, plan_of, write
from fixtures.memory_host import host_error
from fixtures.standard_machine import ANSWERS, answer, profile_with
from twinrig.domain.checks import Finding, Status
from twinrig.domain.errors import ConflictError, HostError, UsageError
from twinrig.domain.fixes import (
    CommandStep,
)
from twinrig.domain.profile import Profile
from twinrig.fixes.sysctl_ptrace import PATH
from twinrig.messages import message
from twinrig.services.journal import Outcome

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
    [("2", "ptrace-scope-strict", False), ("0", "ptrace-scope-strict", True)],
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
