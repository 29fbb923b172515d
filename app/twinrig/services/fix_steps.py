"""What every kind of step can do: be shown, recorded, applied and taken back."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Protocol

from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.fixes import CommandStep, FixPlan
from twinrig.domain.ports import CommandResult, Host
from twinrig.messages import Message, message
from twinrig.services.journal import AppliedStep

_MAX_OUTPUT_LINES = 5


@dataclass(frozen=True)
class StepPreview:
    """What a step would do, exactly. ``kind`` is "file", "command" or "profile"; ``text`` a
    unified diff or the command line."""

    title: Message
    kind: str
    text: str
    root: bool


@dataclass(frozen=True)
class FixPreview:
    """A plan and what each of its steps would do now."""

    plan: FixPlan
    steps: tuple[StepPreview, ...]


class StepKind(Protocol):
    """One kind of step. ``step`` is of that kind; all methods may raise TwinrigError."""

    async def preview(self, step: Any) -> StepPreview:
        """Reads only."""
        ...

    async def record(self, step: Any) -> AppliedStep:
        """What undo needs, as it is now. Raises ConflictError when the plan is stale."""
        ...

    async def apply(self, step: Any, record: AppliedStep) -> None:
        """Change it."""
        ...

    async def check_revert(self, record: AppliedStep) -> None:
        """Raises ConflictError when it cannot be taken back; changes nothing."""
        ...

    async def revert(self, record: AppliedStep) -> None:
        """Take it back; one that is back already is no error."""
        ...


class CommandSteps:
    """Commands on the target."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def preview(self, step: CommandStep) -> StepPreview:
        """The command line as it would be run, and the one that takes it back."""
        return StepPreview(message("Run a command"), "command", _text(step), step.root)

    async def record(self, step: CommandStep) -> AppliedStep:
        """The way back is part of the step."""
        return AppliedStep(
            "command",
            _text(step),
            {
                "argv": list(step.argv),
                "revert_argv": None if step.revert_argv is None else list(step.revert_argv),
                "root": step.root,
                "timeout_s": step.timeout_s,
            },
        )

    async def apply(self, step: CommandStep, record: AppliedStep) -> None:
        """Raises HostError unless the command ends with 0."""
        await self._run(step.argv, step.root, step.timeout_s, step.done_text)

    async def check_revert(self, record: AppliedStep) -> None:
        """Raises ConflictError when there is no way back."""
        if record.data["revert_argv"] is None:
            raise ConflictError(
                message("The command “{command}” cannot be taken back.", command=record.text),
                message("Take back by hand what it did."),
            )

    async def revert(self, record: AppliedStep) -> None:
        """Runs the command that takes it back."""
        await self.check_revert(record)
        argv = tuple(str(word) for word in record.data["revert_argv"])
        await self._run(argv, bool(record.data["root"]), float(record.data["timeout_s"]))

    async def _run(
        self, argv: tuple[str, ...], root: bool, timeout_s: float, done_text: str = ""
    ) -> None:
        result = await self._host.run(argv, root=root, timeout_s=timeout_s)
        if done_text and done_text in result.stderr.decode("utf-8", "replace"):
            return
        if result.returncode != 0 or result.timed_out:
            raise HostError(_what_happened(argv, result, timeout_s), _what_next(result))


def _text(step: CommandStep) -> str:
    lines = [shlex.join(step.argv)]
    if step.revert_argv is not None:
        lines.append(f"# undo: {shlex.join(step.revert_argv)}")
    return "\n".join(lines)


def _what_happened(argv: tuple[str, ...], result: CommandResult, timeout_s: float) -> Message:
    command = shlex.join(argv)
    if result.timed_out:
        return message(
            "The command “{command}” did not end within {limit} s.",
            command=command,
            limit=f"{timeout_s:g}",
        )
    if result.returncode == 127:
        return message("The program {program} is not installed.", program=argv[0])
    lines = (result.output + result.stderr.decode("utf-8", "replace")).strip().splitlines()
    return message(
        "The command “{command}” failed with code {code}: {output}",
        command=command,
        code=result.returncode,
        output=" / ".join(lines[-_MAX_OUTPUT_LINES:]) or "-",
    )


def _what_next(result: CommandResult) -> Message:
    if result.returncode == 127:
        return message("Install the program, then try again.")
    return message("Run the command by hand to see more, then try again.")
