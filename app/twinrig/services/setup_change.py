"""Putting a new environment into use, as a change of the journal that can be taken back."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Protocol

from twinrig.domain.checks import Finding
from twinrig.domain.errors import HostError, TwinrigError
from twinrig.domain.fixes import CommandStep, FixStep, ProfileStep
from twinrig.domain.ports import Clock, Host
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.messages import Message, message
from twinrig.services.controller import ServerController
from twinrig.services.fix_steps import CommandSteps, StepKind
from twinrig.services.journal import AppliedStep, Journal, JournalEntry, Outcome
from twinrig.services.plan_codec import step_to_json
from twinrig.services.profile_steps import Profiles, ProfileSteps
from twinrig.services.setup_words import SetupProgress, SetupStep

FIX_ID = "engine-setup"
REQUESTED_BY = "engine-setup"
LOAD_TIMEOUT_S = 3600.0
STOP_TIMEOUT_S = 120.0

# $1 folder of the engine, $2 what must be in use now, $3 what shall be ("" = nothing)
_SWITCH = """cd "$1" || exit
now=$(readlink current) || now=
[ "$now" = "$3" ] && exit 0
[ "$now" = "$2" ] || { echo "in use is ${now:-nothing}" >&2; exit 76; }
if [ -z "$3" ]; then rm -f current; exit; fi
[ -d "$3/venv" ] || { echo "$1/$3 is gone" >&2; exit 76; }
ln -sfn "$3" .current && mv -T .current current"""


class Switch(Protocol):
    """What is put into use: see ``SetupPlan``."""

    @property
    def engine_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def root(self) -> str: ...
    @property
    def environment(self) -> str: ...
    @property
    def folder(self) -> str: ...
    @property
    def replaces(self) -> str: ...


class SetupChange:
    """Applies, proves and takes back."""

    def __init__(
        self,
        host: Host,
        profiles: Profiles,
        journal: Journal,
        controller: ServerController,
        clock: Clock,
        target: str,
    ) -> None:
        self._commands = CommandSteps(host)
        self._edits = ProfileSteps(profiles)
        self._journal = journal
        self._controller = controller
        self._clock = clock
        self._target = target

    async def apply(self, plan: Switch, profile_id: str) -> str:
        """Switch; with ``profile_id`` that profile names the environment too. Id of the entry.

        Raises HostError, ConflictError or ProfileError; nothing is switched then.
        """
        steps: list[tuple[StepKind, CommandStep | ProfileStep]] = [
            (self._commands, self._switch(plan))
        ]
        if profile_id:
            fields = {"engine.environment": plan.environment}
            steps.append((self._edits, ProfileStep(profile_id, {}, {}, "", fields=fields)))
        entry = self._entry(plan, [step for _kind, step in steps])
        self._journal.begin(entry)
        done: list[tuple[StepKind, AppliedStep]] = []
        try:
            for index, (kind, step) in enumerate(steps):
                record = await kind.record(step)
                self._journal.record_step(entry.id, record)
                done.append((kind, record))
                await kind.apply(step, record)
                self._journal.confirm_step(entry.id, index)
        except TwinrigError:
            await self._take_back(entry.id, done)
            raise
        self._journal.finish(entry.id, Outcome.APPLIED)
        return entry.id

    async def busy(self) -> bool:
        """Whether a server runs, which holds the cards."""
        return await self._controller.active() is not None

    async def prove(
        self, entry_id: str, profile_id: str, tell: Callable[[SetupProgress], object]
    ) -> bool:
        """Start the profile's server, wait for its first reply, stop it again.

        False while a server runs: it is left alone. Raises HostError when there is no reply: the
        switch is taken back then.
        """
        if await self.busy():
            return False
        tell(SetupProgress(SetupStep.START))
        try:
            record = await self._first_reply(profile_id)
        except TwinrigError as error:
            await self._undo(entry_id)
            raise HostError(
                message(
                    "The new version was installed, but it gave no reply: {reason} "
                    "What was in use before is in use again.",
                    reason=error.text,
                ),
                error.next_step,
            ) from error
        if record.state is not ServerState.READY:
            await self._undo(entry_id)
            raise _no_reply(record)
        self._journal.finish(entry_id, Outcome.APPLIED, proven=True)
        return True

    async def _first_reply(self, profile_id: str) -> ServerRecord:
        controller = self._controller
        ends = {ServerState.READY, ServerState.FAILED, ServerState.STOPPED, ServerState.BACKOFF}
        try:
            await controller.start(profile_id, REQUESTED_BY)
            return await controller.wait_for(profile_id, ends, LOAD_TIMEOUT_S)
        finally:
            if (await controller.status(profile_id)).supervisor_alive:
                await controller.stop(profile_id, REQUESTED_BY)
                rest = {ServerState.STOPPED, ServerState.FAILED}
                await controller.wait_for(profile_id, rest, STOP_TIMEOUT_S)

    async def _undo(self, entry_id: str) -> None:
        entry = self._journal.entry(entry_id)
        if entry is None:
            return
        kinds: dict[str, StepKind] = {"command": self._commands, "profile": self._edits}
        await self._take_back(entry_id, [(kinds[step.kind], step) for step in entry.steps])

    async def _take_back(self, entry_id: str, done: list[tuple[StepKind, AppliedStep]]) -> None:
        for kind, record in reversed(done):
            await kind.revert(record)
        self._journal.finish(entry_id, Outcome.ROLLED_BACK)

    def _switch(self, plan: Switch) -> CommandStep:
        head = ("/bin/bash", "--noprofile", "--norc", "-c", _SWITCH, "twinrig-setup", plan.root)
        return CommandStep((*head, plan.replaces, plan.folder), (*head, plan.folder, plan.replaces))

    def _entry(self, plan: Switch, steps: Sequence[FixStep]) -> JournalEntry:
        return JournalEntry(
            id=uuid.uuid4().hex[:12],
            at_s=self._clock.now(),
            target=self._target,
            fix_id=FIX_ID,
            title=message("Set up {engine} {version}", engine=plan.name, version=plan.version[:12]),
            finding=Finding("engine-not-installed", (("engine", plan.engine_id),)),
            plan=tuple(step_to_json(step) for step in steps),
        )


def _no_reply(record: ServerRecord) -> HostError:
    cause: Message = (
        record.failure.text if record.failure else message("The server was stopped meanwhile.")
    )
    return HostError(
        message(
            "The new version was installed, but it gave no reply: {reason} "
            "What was in use before is in use again.",
            reason=cause,
        ),
        record.failure.next_step if record.failure else None,
    )
