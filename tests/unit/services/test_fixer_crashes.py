from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from fixtures.fixer_rig import EXPANDABLE, FIXES, PTRACE, Rig, plan_of, write
from fixtures.memory_host import host_error
from twinrig.domain.checks import Finding
from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.fixes import (
    CommandStep,
)
from twinrig.fixes.sysctl_ptrace import PATH
from twinrig.hosts.local.host import LocalHost
from twinrig.hosts.locks import FileLock
from twinrig.services import fixer as fixer_module
from twinrig.services.fixer import LOCK_NAME, Fixer
from twinrig.services.journal import Outcome

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
