"""Fixes as data: a plan of steps that can be shown, applied, proven and taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.elevation import AdminAction
from twinrig.messages import Message


@dataclass(frozen=True)
class WriteFileStep:
    """Make ``path`` on the target hold ``content``; None removes the file.

    ``merge`` is not offered here: a fix computes the new content from what it read, and
    ``expected_sha256`` ("" = file must not exist) refuses to overwrite a file that changed.
    ``encoding`` is the file's own: what the fix does not change keeps its bytes.
    """

    path: str
    content: str | None
    expected_sha256: str | None = None
    mode: int = 0o644
    root: bool = False
    encoding: str = "utf-8"

    def data(self) -> bytes | None:
        """The wanted bytes; None = no such file."""
        return None if self.content is None else self.content.encode(self.encoding)


@dataclass(frozen=True)
class WindowsFileStep(WriteFileStep):
    """The same for a file of the Windows user; ``mode`` and ``root`` mean nothing there."""


@dataclass(frozen=True)
class AdminStep:
    """A task for a Windows administrator; ``revert`` takes it back (None = cannot)."""

    action: AdminAction
    revert: AdminAction | None


@dataclass(frozen=True)
class CommandStep:
    """Run ``argv`` on the target; ``revert_argv`` takes it back (None = cannot).

    ``done_text`` is what the program says when it fails because nothing is left to do.
    """

    argv: tuple[str, ...]
    revert_argv: tuple[str, ...] | None
    root: bool = False
    timeout_s: float = 60.0
    done_text: str = ""


@dataclass(frozen=True)
class ProfileStep:
    """Edit one profile. A value of None removes the entry. Keys: option id / variable name.

    ``extra`` is keyed by the engine's own key; ``fields`` by dotted names of what every profile
    has: ``network.port``, ``model.path``, ``model.served_name``, ``engine.environment``.
    """

    profile_id: str
    settings: Mapping[str, object]
    env: Mapping[str, str | None]
    reason: str
    extra: Mapping[str, object] = field(default_factory=dict)
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class RestartWslStep:
    """Stop the distribution, or all of WSL (``whole``), so that changed settings are read; a
    server that ran is started again. There is nothing to take back."""

    whole: bool = True


FixStep = WriteFileStep | WindowsFileStep | CommandStep | ProfileStep | AdminStep | RestartWslStep


@dataclass(frozen=True)
class FixPlan:
    """What a fix would do, exactly. ``risk`` is told before anything is changed."""

    fix_id: str
    title: Message
    steps: tuple[FixStep, ...]
    risk: Message | None = None
    needs_root: bool = False
    needs_admin: bool = False
    needs_wsl_shutdown: bool = False
    needs_reboot: bool = False
    needs_restart: bool = False
    reversible: bool = True


@dataclass(frozen=True)
class Guidance:
    """A fix only the user can do: the steps in words."""

    fix_id: str
    title: Message
    instructions: tuple[Message, ...]


class Fix(Protocol):
    """One way out of a finding. ``probes`` name what ``plan`` needs to have read.

    ``title`` is a marked sentence without values; a plan may say it more exactly.
    """

    id: str
    title: str
    probes: tuple[str, ...]

    def plan(self, finding: Finding, facts: Facts) -> FixPlan | Guidance:
        """Pure: compute the plan from what was read. Raises UsageError when it cannot apply."""
        ...
