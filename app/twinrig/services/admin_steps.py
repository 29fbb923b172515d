"""Steps that need a Windows administrator: tasks of the fixed list, each with its way back."""

from __future__ import annotations

import subprocess
from typing import Any

from twinrig.domain.elevation import AdminAction, AdminTask, Elevation
from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.fixes import AdminStep
from twinrig.messages import Message, message
from twinrig.services.fix_steps import StepPreview
from twinrig.services.journal import AppliedStep

_TITLES = {
    AdminTask.OPEN_NAT: message("Pass port {port} on to WSL and open the Windows firewall for it"),
    AdminTask.CLOSE_NAT: message("Close port {port} in the Windows firewall again"),
    AdminTask.OPEN_MIRRORED: message("Open the firewall of WSL for port {port}"),
    AdminTask.CLOSE_MIRRORED: message("Close port {port} in the firewall of WSL again"),
    AdminTask.SET_TDR_DELAY: message("Let Windows wait {seconds} s for the graphics card"),
    AdminTask.RESET_TDR_DELAY: message("Let Windows wait as long for the graphics card as usual"),
}


class AdminSteps:
    """Windows asks the user at each step. ``elevation`` None: there is no Windows here."""

    def __init__(self, elevation: Elevation | None) -> None:
        self._elevation = elevation

    async def preview(self, step: AdminStep) -> StepPreview:
        """The exact commands, and those that take it back."""
        return StepPreview(_title(step.action), "admin", step_text(step), root=True)

    async def record(self, step: AdminStep) -> AppliedStep:
        """The way back is part of the step."""
        revert = None if step.revert is None else list(step.revert.to_words())
        data = {"words": list(step.action.to_words()), "revert_words": revert}
        return AppliedStep("admin", step_text(step), data)

    async def apply(self, step: AdminStep, record: AppliedStep) -> None:
        """Raises HostError when the user says no or a command fails."""
        await self._run(step.action)

    async def check_revert(self, record: AppliedStep) -> None:
        """Raises ConflictError when there is no way back, HostError when it is not possible now."""
        self._revert_action(record)
        self._needed()

    async def revert(self, record: AppliedStep) -> None:
        """What is closed already stays closed."""
        await self._run(self._revert_action(record))

    async def _run(self, action: AdminAction) -> None:
        await self._needed().run(action)

    def _needed(self) -> Elevation:
        if self._elevation is None:
            raise HostError(
                message("This step changes Windows, and Twinrig does not run on Windows here."),
                message("Run Twinrig on Windows, or run the shown commands there yourself."),
            )
        return self._elevation

    def _revert_action(self, record: AppliedStep) -> AdminAction:
        words: Any = record.data["revert_words"]
        if words is None:
            raise ConflictError(
                message("The command “{command}” cannot be taken back.", command=record.text),
                message("Take back by hand what it did."),
            )
        try:
            return AdminAction.from_words([str(word) for word in words])
        except ValueError as error:
            raise ConflictError(
                message("The journal names a step that this Twinrig does not know."),
                message("Take back by hand what it did."),
            ) from error


def _title(action: AdminAction) -> Message:
    return Message(_TITLES[action.task].msgid, dict(action.params))


def step_text(step: AdminStep) -> str:
    """Command lines as an administrator would type them."""
    lines = command_lines(step.action)
    if step.revert is not None:
        lines += [f"# undo: {line}" for line in command_lines(step.revert)]
    return "\n".join(lines)


def command_lines(action: AdminAction) -> list[str]:
    """One line for each command of a task."""
    return [subprocess.list2cmdline(command.argv) for command in action.commands()]
