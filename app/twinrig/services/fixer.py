"""Fixer: shows what a fix would do, applies it, proves it, and takes it back."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from twinrig.checks.registry import with_dependants
from twinrig.domain.checks import Check, CheckResult, Cost, Facts, Finding, Status
from twinrig.domain.elevation import (
    Elevation,
    ElevationCancelledError,
    ElevationRefusedError,
)
from twinrig.domain.errors import ConflictError, HostError, TwinrigError, UsageError
from twinrig.domain.fixes import (
    AdminStep,
    CommandStep,
    Fix,
    FixPlan,
    FixStep,
    Guidance,
    ProfileStep,
    RestartWslStep,
    WindowsFileStep,
    WriteFileStep,
)
from twinrig.domain.ports import Clock, Host, Lock
from twinrig.domain.profile import Profile
from twinrig.domain.windows import FileStore
from twinrig.messages import Message, message
from twinrig.services.admin_steps import AdminSteps
from twinrig.services.file_steps import FileSteps, HostFiles, NoWindowsFiles
from twinrig.services.fix_steps import CommandSteps, FixPreview, StepKind, StepPreview
from twinrig.services.journal import AppliedStep, Journal, JournalEntry, Outcome
from twinrig.services.plan_codec import step_from_json, step_to_json
from twinrig.services.profile_steps import Profiles, ProfileSteps
from twinrig.services.wsl_restart import RestartSteps, WslRestart

__all__ = ["FixOutcome", "FixPreview", "Fixer", "StepPreview"]

LOCK_NAME = "changes"
_LOCK_WAIT_S = 60.0
_LOCK_PAUSE_S = 0.2
_UNTOUCHED = (ElevationCancelledError, ElevationRefusedError)
"""The step changed nothing: to take it back would ask the user a second time."""
_KINDS: Mapping[type[FixStep], str] = {
    WriteFileStep: "file",
    WindowsFileStep: "windows-file",
    CommandStep: "command",
    ProfileStep: "profile",
    AdminStep: "admin",
    RestartWslStep: "wsl-restart",
}


class Prover(Protocol):
    """What is needed of ``Preflight``."""

    checks: tuple[Check, ...]

    def run(
        self, profile: Profile | None = None, ids: Sequence[str] | None = None
    ) -> AsyncIterator[CheckResult]: ...

    async def facts(self, profile: Profile | None, names: Sequence[str]) -> Facts: ...


@dataclass(frozen=True)
class FixOutcome:
    """``proven``: the checks that found the fault were run again and passed. ``results`` are
    those checks and all that depend on them."""

    entry_id: str
    applied: bool
    proven: bool
    results: tuple[CheckResult, ...]
    text: Message


class Fixer:
    """Fixes of one target. Changes are made one after the other, between processes too when a
    ``lock`` is given. ``windows_files``, ``elevation`` and ``wsl_restart`` exist where
    Twinrig runs on Windows."""

    def __init__(
        self,
        host: Host,
        profiles: Profiles,
        journal: Journal,
        preflight: Prover,
        fixes: Mapping[str, Fix],
        clock: Clock,
        target: str,
        *,
        lock: Lock | None = None,
        windows_files: FileStore | None = None,
        elevation: Elevation | None = None,
        wsl_restart: WslRestart | None = None,
    ) -> None:
        self._kinds: Mapping[str, StepKind] = {
            "file": FileSteps(HostFiles(host)),
            "windows-file": FileSteps(windows_files or NoWindowsFiles(), "windows-file"),
            "command": CommandSteps(host),
            "profile": ProfileSteps(profiles),
            "admin": AdminSteps(elevation),
            "wsl-restart": RestartSteps(wsl_restart),
        }
        self._profiles = profiles
        self._journal = journal
        self._preflight = preflight
        self._fixes = fixes
        self._clock = clock
        self._target = target
        self._lock = lock
        self._one_at_a_time = asyncio.Lock()

    async def options(
        self, finding: Finding, profile: Profile | None
    ) -> tuple[FixPlan | Guidance, ...]:
        """Ways out of a finding, best first; those that cannot help here are left out.

        Raises HostError when what they need cannot be read.
        """
        fixes = [self._fixes[fix_id] for fix_id in finding.fixes if fix_id in self._fixes]
        names = dict.fromkeys(name for fix in fixes for name in fix.probes)
        facts = await self._preflight.facts(profile, tuple(names))
        found: list[FixPlan | Guidance] = []
        for fix in fixes:
            with contextlib.suppress(UsageError):
                found.append(fix.plan(finding, facts))
        return tuple(found)

    async def preview(self, plan: FixPlan) -> FixPreview:
        """What each step would do now, exactly; nothing is changed."""
        steps = [await self._kind_of(step).preview(step) for step in plan.steps]
        return FixPreview(plan, tuple(steps))

    async def apply(self, finding: Finding, plan: FixPlan, profile: Profile | None) -> FixOutcome:
        """Apply all steps, then run the checks again that found the fault.

        When a step fails, the earlier ones are taken back and the error says so: ConflictError
        when something changed meanwhile, UsageError or HostError else.
        """
        async with self._exclusive():
            entry = JournalEntry(
                id=uuid.uuid4().hex[:12],
                at_s=self._clock.now(),
                target=self._target,
                fix_id=plan.fix_id,
                title=plan.title,
                finding=finding,
                plan=tuple(step_to_json(step) for step in plan.steps),
            )
            self._journal.begin(entry)
            await self._apply_steps(entry, plan.steps)
            return await self._applied(entry, profile)

    def interrupted(self) -> tuple[JournalEntry, ...]:
        """Fixes that a crash cut off, oldest first; none while one is at work."""
        found = tuple(entry for entry in self._journal.entries() if entry.interrupted)
        if not found or self._one_at_a_time.locked():
            return ()
        if self._lock is None:
            return found
        if not self._lock.acquire(LOCK_NAME):
            return ()
        self._lock.release()
        return found

    async def finish(self, entry_id: str, profile: Profile | None) -> FixOutcome:
        """Do what is left of a fix that was cut off, exactly as it was shown, then prove it.

        Raises UsageError when it is not one, ConflictError when something changed meanwhile.
        """
        async with self._exclusive():
            entry = self._undoable(entry_id)
            steps = _steps_of(entry)
            for index, record in enumerate(entry.steps):
                if not record.done:  # nobody can say how far it came: once more from its start
                    with _tolerance(record):
                        await self._kinds[record.kind].revert(record)
                    await self._kinds[record.kind].apply(steps[index], record)
                    self._journal.confirm_step(entry.id, index)
            await self._apply_steps(entry, steps, first=len(entry.steps))
            return await self._applied(entry, profile)

    async def undo_all(self) -> tuple[tuple[JournalEntry, TwinrigError | None], ...]:
        """Take back everything that can be, newest first; each entry with what was in the way."""
        left = [entry for entry in reversed(self._journal.entries()) if entry.can_undo]
        found: list[tuple[JournalEntry, TwinrigError | None]] = []
        for entry in left:
            try:
                found.append((await self.undo(entry.id), None))
            except TwinrigError as error:
                found.append((entry, error))
        return tuple(found)

    async def _applied(self, entry: JournalEntry, profile: Profile | None) -> FixOutcome:
        self._journal.finish(entry.id, Outcome.APPLIED)
        results, proven = await self._prove(entry.finding, profile)
        if proven:
            self._journal.finish(entry.id, Outcome.APPLIED, proven=True)
        text = _outcome_text(entry.title, results, proven)
        return FixOutcome(entry.id, True, proven, results, text)

    async def undo(self, entry_id: str) -> JournalEntry:
        """Take back all steps, last one first. Nothing is touched when one of them cannot be.

        Raises UsageError when there is nothing to take back, ConflictError when something was
        changed since.
        """
        async with self._exclusive():
            entry = self._undoable(entry_id)
            for step in reversed(entry.steps):
                with _tolerance(step):
                    await self._kinds[step.kind].check_revert(step)
            for step in reversed(entry.steps):
                with _tolerance(step):
                    await self._kinds[step.kind].revert(step)
            self._journal.mark_undone(entry_id, self._clock.now())
        done = self._journal.entry(entry_id)
        return entry if done is None else done

    def _undoable(self, entry_id: str) -> JournalEntry:
        entry = self._journal.entry(entry_id)
        if entry is None:
            raise UsageError(
                message("There is no change {id} in the journal.", id=entry_id),
                message("Look at the list of changes."),
            )
        if entry.undone_at_s is not None:
            raise UsageError(message("“{fix}” was taken back already.", fix=entry.title))
        if entry.outcome is Outcome.ROLLED_BACK:
            raise UsageError(
                message("“{fix}” failed; nothing of it is left to take back.", fix=entry.title)
            )
        unknown = [step.kind for step in entry.steps if step.kind not in self._kinds]
        if unknown:
            raise UsageError(
                message("This Twinrig cannot take back a step of kind {kind}.", kind=unknown[0]),
                message("Update Twinrig, or take it back by hand."),
            )
        return entry

    async def _apply_steps(
        self, entry: JournalEntry, steps: Sequence[FixStep], *, first: int = 0
    ) -> None:
        recorded = [replace(step, done=True) for step in entry.steps]
        try:
            for index, step in enumerate(steps[first:], first):
                kind = self._kind_of(step)
                record = await kind.record(step)
                self._journal.record_step(entry.id, record)
                recorded.append(record)
                await kind.apply(step, record)
                recorded[-1] = replace(record, done=True)
                self._journal.confirm_step(entry.id, index)
        except TwinrigError as error:
            raise await self._rolled_back(entry, recorded, error) from error
        except asyncio.CancelledError:
            await asyncio.shield(self._roll_back(entry, recorded))
            raise

    async def _rolled_back(
        self, entry: JournalEntry, recorded: list[AppliedStep], error: TwinrigError
    ) -> TwinrigError:
        done = recorded[:-1] if isinstance(error, _UNTOUCHED) else recorded
        trouble = await self._roll_back(entry, done)
        if trouble is None:
            text = message(
                "“{fix}” was not applied: {reason} Nothing is left of it.",
                fix=entry.title,
                reason=error.text,
            )
        else:
            text = message(
                "“{fix}” was applied in part: {reason} Taking it back failed too: {trouble}",
                fix=entry.title,
                reason=error.text,
                trouble=trouble,
            )
        kinds = (ConflictError, UsageError)
        kind = next((k for k in kinds if isinstance(error, k)), HostError)
        return kind(text, error.next_step)

    async def _roll_back(self, entry: JournalEntry, recorded: list[AppliedStep]) -> Message | None:
        """What went wrong, None when everything is back. The step that failed is taken back as
        well: it may have done a part of its work."""
        trouble: Message | None = None
        for step in reversed(recorded):
            try:
                with _tolerance(step):
                    await self._kinds[step.kind].revert(step)
            except TwinrigError as error:
                trouble = trouble or error.text
        if trouble is None:
            with contextlib.suppress(HostError):  # an entry that stays open can be undone
                self._journal.finish(entry.id, Outcome.ROLLED_BACK)
        return trouble

    async def _prove(
        self, finding: Finding, profile: Profile | None
    ) -> tuple[tuple[CheckResult, ...], bool]:
        checks = self._preflight.checks
        origins = _origins(checks, finding)
        if not origins:
            return (), False
        fresh = profile if profile is None else await self._reload(profile)
        slow = {check.id for check in checks if check.cost is Cost.SLOW} - origins
        ids = [check_id for check_id in with_dependants(checks, origins) if check_id not in slow]
        results = tuple([result async for result in self._preflight.run(fresh, ids)])
        judged = [result for result in results if _tells(result, origins, finding)]
        proven = bool(judged) and all(_is_fine(result, finding) for result in judged)
        return results if judged else (), proven

    async def _reload(self, profile: Profile) -> Profile:
        try:
            return await asyncio.to_thread(self._profiles.load, profile.id)
        except TwinrigError:
            return profile  # not saved yet: what the caller has is all there is

    def _kind_of(self, step: FixStep) -> StepKind:
        return self._kinds[_KINDS[type(step)]]

    @contextlib.asynccontextmanager
    async def _exclusive(self) -> AsyncIterator[None]:
        async with self._one_at_a_time:
            if self._lock is None:
                yield
                return
            started = self._clock.monotonic()
            while not self._lock.acquire(LOCK_NAME):
                if self._clock.monotonic() - started > _LOCK_WAIT_S:
                    raise ConflictError(
                        message("Another Twinrig is changing this machine."),
                        message("Wait until it is done, then try again."),
                    )
                await self._clock.sleep(_LOCK_PAUSE_S)
            try:
                yield
            finally:
                self._lock.release()


def _steps_of(entry: JournalEntry) -> tuple[FixStep, ...]:
    if not entry.interrupted or not entry.plan:
        raise UsageError(
            message("“{fix}” cannot be finished; it can only be taken back.", fix=entry.title),
            message("Take it back, then apply it again."),
        )
    try:
        return tuple(step_from_json(step) for step in entry.plan)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            message("This Twinrig cannot read the rest of “{fix}”.", fix=entry.title),
            message("Take it back, then apply it again."),
        ) from error


@contextlib.contextmanager
def _tolerance(step: AppliedStep) -> Iterator[None]:
    """For a step that was recorded but never confirmed: what is not as we would have left it is
    not ours, and a command that failed need not have a way back."""
    try:
        yield
    except ConflictError:
        if step.done:
            raise
    except HostError:
        if step.done or step.kind != "command":
            raise


def _origins(checks: Sequence[Check], finding: Finding) -> set[str]:
    """The check that found this fault and all that could; a slow one only where it was the one
    that did, or no cheap one can tell."""
    named = [check for check in checks if finding.id in check.findings]
    cheap = {check.id for check in named if check.cost is Cost.CHEAP}
    found_by = {check.id for check in named if check.id == finding.check_id}
    return cheap | found_by or {check.id for check in named}


def _tells(result: CheckResult, origins: set[str], finding: Finding) -> bool:
    """A check that is not asked here proves nothing, unless it was the one that found the fault."""
    if result.check_id not in origins:
        return False
    return result.status is not Status.SKIP or result.check_id == finding.check_id


def _is_fine(result: CheckResult, finding: Finding) -> bool:
    """A warning about something else does not spoil the proof."""
    if result.status is Status.PASS:
        return True
    other = result.finding is not None and result.finding.id != finding.id
    return result.status is Status.WARN and other


def _outcome_text(title: Message, results: Sequence[CheckResult], proven: bool) -> Message:
    if proven:
        return message("“{fix}” is applied, and the check passes now.", fix=title)
    if not results:
        return message("“{fix}” is applied. Start the server to see whether it helps.", fix=title)
    return message(
        "“{fix}” is applied, but the check does not pass yet. Keep it or take it back.",
        fix=title,
    )
