"""Steps of a plan as JSON, so that a fix that a crash cut off can be finished as it was shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from twinrig.domain.elevation import AdminAction
from twinrig.domain.fixes import (
    AdminStep,
    CommandStep,
    FixStep,
    ProfileStep,
    RestartWslStep,
    WindowsFileStep,
    WriteFileStep,
)


def step_to_json(step: FixStep) -> dict[str, Any]:
    """What ``step_from_json`` reads."""
    if isinstance(step, AdminStep):
        revert = None if step.revert is None else list(step.revert.to_words())
        return {"type": "AdminStep", "action": list(step.action.to_words()), "revert": revert}
    return {"type": type(step).__name__, **asdict(step)}


def step_from_json(data: Mapping[str, Any]) -> FixStep:
    """Raises ValueError, KeyError or TypeError for what is no step of this version."""
    kind = str(data["type"])
    fields = {name: value for name, value in data.items() if name != "type"}
    if kind not in _MAKERS:
        raise ValueError(f"unknown step {kind!r}")
    return _MAKERS[kind](fields)


def _command(fields: dict[str, Any]) -> FixStep:
    back = fields["revert_argv"]
    words = {"argv": _words(fields["argv"]), "revert_argv": None if back is None else _words(back)}
    return CommandStep(**{**fields, **words})


def _admin(fields: dict[str, Any]) -> FixStep:
    back = fields["revert"]
    revert = None if back is None else AdminAction.from_words(_words(back))
    return AdminStep(AdminAction.from_words(_words(fields["action"])), revert)


def _profile(fields: dict[str, Any]) -> FixStep:
    parts = {name: _plain(fields[name]) for name in ("settings", "extra", "fields")}
    return ProfileStep(**{**fields, **parts})


def _words(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _plain(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Lists of settings are tuples in a profile."""
    return {n: tuple(v) if isinstance(v, list) else v for n, v in entries.items()}


_MAKERS: Mapping[str, Callable[[dict[str, Any]], FixStep]] = MappingProxyType(
    {
        "WriteFileStep": lambda fields: WriteFileStep(**fields),
        "WindowsFileStep": lambda fields: WindowsFileStep(**fields),
        "CommandStep": _command,
        "ProfileStep": _profile,
        "AdminStep": _admin,
        "RestartWslStep": lambda fields: RestartWslStep(**fields),
    }
)
