"""The definition of a task of Windows' Task Scheduler: written by us, read back without words.

Only the XML is read, never what ``schtasks.exe`` says: its sentences, column heads and states are
translated, in the code page of the console.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.sax.saxutils import escape

NAMESPACE = "http://schemas.microsoft.com/windows/2004/02/mit/task"
_NS = f"{{{NAMESPACE}}}"
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_TASK = re.compile(r"<Task\b.*?</Task>", re.DOTALL)

# Against the defaults of Task Scheduler: a limit of 72 hours (PT0S = none), an end when a laptop
# loses mains power, a priority below normal (7; 5 is normal). A second start is ignored. It starts
# again only a program that could not be started; a crash is the supervisor's own business. Hidden
# stays false: ending a hidden task is said to do nothing.
_SETTINGS = (
    ("AllowStartOnDemand", "true"),
    ("MultipleInstancesPolicy", "IgnoreNew"),
    ("DisallowStartIfOnBatteries", "false"),
    ("StopIfGoingOnBatteries", "false"),
    ("AllowHardTerminate", "true"),
    ("StartWhenAvailable", "true"),
    ("RunOnlyIfNetworkAvailable", "false"),
    ("RunOnlyIfIdle", "false"),
    ("WakeToRun", "false"),
    ("Hidden", "false"),
    ("Enabled", "true"),
    ("ExecutionTimeLimit", "PT0S"),
    ("Priority", "5"),
)
_NOT_DEFAULT = (
    "DisallowStartIfOnBatteries",
    "StopIfGoingOnBatteries",
    "StartWhenAvailable",
    "ExecutionTimeLimit",
    "Priority",
)
"""Settings that mean something else where they are absent."""

_LOGON_DELAY = "PT20S"


@dataclass(frozen=True)
class TaskSpec:
    """One task. ``name`` is its full path, ``user`` the SID of the only user who may run it.

    ``command`` is a program and its words; ``at_logon`` starts it when that user signs in.
    """

    name: str
    user: str
    command: tuple[str, ...]
    folder: str
    description: str
    at_logon: bool = False


def task_xml(spec: TaskSpec) -> bytes:
    """UTF-16 with its mark, as the declaration says; anything else is refused by Windows."""
    settings = "".join(f"    <{name}>{value}</{name}>\n" for name, value in _SETTINGS)
    text = (
        '<?xml version="1.0" encoding="UTF-16"?>\n'
        f'<Task version="1.4" xmlns="{NAMESPACE}">\n'
        "  <RegistrationInfo>\n"
        "    <Author>Twinrig</Author>\n"
        f"    <Description>{escape(spec.description)}</Description>\n"
        f"    <URI>{escape(spec.name)}</URI>\n"
        "  </RegistrationInfo>\n"
        f"{_triggers(spec)}"
        "  <Principals>\n"
        '    <Principal id="Author">\n'
        f"      <UserId>{escape(spec.user)}</UserId>\n"
        "      <LogonType>InteractiveToken</LogonType>\n"
        "      <RunLevel>LeastPrivilege</RunLevel>\n"
        "    </Principal>\n"
        "  </Principals>\n"
        "  <Settings>\n"
        f"{settings}"
        "    <IdleSettings>\n"
        "      <StopOnIdleEnd>false</StopOnIdleEnd>\n"
        "      <RestartOnIdle>false</RestartOnIdle>\n"
        "    </IdleSettings>\n"
        "    <RestartOnFailure><Interval>PT1M</Interval><Count>3</Count></RestartOnFailure>\n"
        "  </Settings>\n"
        '  <Actions Context="Author">\n'
        "    <Exec>\n"
        f"      <Command>{escape(spec.command[0])}</Command>\n"
        f"      <Arguments>{escape(arguments(spec.command[1:]))}</Arguments>\n"
        f"      <WorkingDirectory>{escape(spec.folder)}</WorkingDirectory>\n"
        "    </Exec>\n"
        "  </Actions>\n"
        "</Task>\n"
    )
    return b"\xff\xfe" + text.replace("\n", "\r\n").encode("utf-16-le")


def arguments(words: Sequence[str]) -> str:
    """One command line that Windows splits into exactly these words again."""
    return subprocess.list2cmdline(words)


def _triggers(spec: TaskSpec) -> str:
    if not spec.at_logon:
        return ""
    # Without UserId it would be any user's logon, which only an administrator may ask for.
    return (
        "  <Triggers>\n"
        "    <LogonTrigger>\n"
        "      <Enabled>true</Enabled>\n"
        f"      <UserId>{escape(spec.user)}</UserId>\n"
        f"      <Delay>{_LOGON_DELAY}</Delay>\n"
        "    </LogonTrigger>\n"
        "  </Triggers>\n"
    )


@dataclass(frozen=True)
class TaskDefinition:
    """What a registered task would do. ``at_logon``: it and its trigger are both switched on."""

    name: str
    command: str
    arguments: str
    folder: str
    enabled: bool
    at_logon: bool
    settings: tuple[tuple[str, str], ...]

    def does(self, spec: TaskSpec) -> bool:
        """Whether it is what ``spec`` asks for, so that it need not be written again.

        The text came through a code page that may not know every letter of a path: what is not
        ASCII counts as equal. Windows leaves out settings that are its defaults.
        """
        wanted, present = dict(_SETTINGS), dict(self.settings)
        return (
            _ascii(self.command) == _ascii(spec.command[0])
            and _ascii(self.arguments) == _ascii(arguments(spec.command[1:]))
            and _ascii(self.folder) == _ascii(spec.folder)
            and self.enabled
            and self.at_logon == spec.at_logon
            and all(name in present for name in _NOT_DEFAULT)
            and all(wanted.get(name, value) == value for name, value in self.settings)
        )


def read_definition(text: str) -> TaskDefinition | None:
    """Out of ``/Query /XML``; None for anything else than one task."""
    try:
        root = ElementTree.fromstring(_DECLARATION.sub("", text.lstrip("﻿")).strip())
    except ElementTree.ParseError:
        return None
    if root.tag != f"{_NS}Task":
        return None
    settings = root.find(f"{_NS}Settings")
    pairs = [] if settings is None else [(_local(e.tag), _value(e)) for e in settings]
    triggers = root.findall(f"{_NS}Triggers/{_NS}LogonTrigger")
    enabled = dict(pairs).get("Enabled", "true") == "true"
    return TaskDefinition(
        _find(root, "RegistrationInfo/URI"),
        _find(root, "Actions/Exec/Command"),
        _find(root, "Actions/Exec/Arguments"),
        _find(root, "Actions/Exec/WorkingDirectory"),
        enabled,
        enabled and any(_find(trigger, "Enabled", "true") == "true" for trigger in triggers),
        tuple((name, value) for name, value in pairs if value),
    )


def read_all(text: str) -> tuple[TaskDefinition, ...]:
    """Every task of one answer: several documents behind each other, or one around all."""
    pieces = [_with_namespace(found) for found in _TASK.findall(text)]
    return tuple(found for piece in pieces if (found := read_definition(piece)) is not None)


def _with_namespace(piece: str) -> str:
    if NAMESPACE in piece[:400]:
        return piece
    return piece.replace("<Task", f'<Task xmlns="{NAMESPACE}"', 1)


def _local(tag: str) -> str:
    return tag.removeprefix(_NS)


def _value(element: ElementTree.Element) -> str:
    return (element.text or "").strip() if len(element) == 0 else ""


def _find(root: ElementTree.Element, path: str, missing: str = "") -> str:
    found = root.find("/".join(_NS + step for step in path.split("/")))
    return missing if found is None else (found.text or "").strip()


def _ascii(text: str) -> str:
    """What of a text survives every code page; how many letters one of the others took, not."""
    return re.sub(r"[^\x20-\x7e]+|\?+", "?", text)
