"""Environments to try, as data: the empty one first, then what the profile has, then the table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from twinrig.domain.profile import Profile

SCHEMA_VERSION = 1
EMPTY, PRESENT = "empty", "present"

_MANAGED = re.compile(r"NCCL_(?!DEBUG)\w+")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True)
class Candidate:
    """``env`` is the whole of what it sets; ``settings`` are options of the profile."""

    id: str
    env: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, bool] = field(default_factory=dict)
    needs_ptrace: bool = False

    @property
    def size(self) -> int:
        """How much it changes; of two equally fast ones the smaller is better."""
        return len(self.env) + len(self.settings)


@dataclass(frozen=True)
class CandidateTable:
    """``remove``: variables that must not be set for this engine beside those of NCCL."""

    candidates: tuple[Candidate, ...] = ()
    remove: tuple[str, ...] = ()

    def managed(self, name: str) -> bool:
        """Whether the experiment decides about this variable: what a trial does not name is
        unset in it, and stays unset when the trial is chosen."""
        named = {known for candidate in self.candidates for known in candidate.env}
        return bool(_MANAGED.fullmatch(name)) or name in self.remove or name in named


def load_candidates(text: str) -> Mapping[str, CandidateTable]:
    """By engine id. Raises ValueError with the place of a fault."""
    data = yaml.safe_load(text)
    if not isinstance(data, dict) or data.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"candidates: schema_version {SCHEMA_VERSION} expected")
    return {str(engine): _table(str(engine), entry) for engine, entry in data["engines"].items()}


def candidates_for(table: CandidateTable, profile: Profile | None) -> tuple[Candidate, ...]:
    """In the order of trial; each environment once."""
    own = {
        name: entry.value
        for name, entry in (profile.env.items() if profile else ())
        if table.managed(name)
    }
    found = [Candidate(EMPTY)]
    if own:
        found.append(Candidate(PRESENT, own))
    return (*found, *(c for c in table.candidates if c.env != own or c.settings))


def trial_env(
    table: CandidateTable, profile: Profile | None, env: Mapping[str, str]
) -> dict[str, str]:
    """Environment of a trial: what else the profile sets, and ``env`` for what is managed."""
    kept = {
        name: entry.value
        for name, entry in (profile.env.items() if profile else ())
        if not table.managed(name)
    }
    return {**kept, **env}


def _table(engine: str, entry: Any) -> CandidateTable:
    found = tuple(_candidate(engine, item) for item in entry["candidates"])
    ids = [candidate.id for candidate in found]
    if len(set(ids)) != len(ids) or {EMPTY, PRESENT} & set(ids):
        raise ValueError(f"candidates: {engine}: ids must differ, also from {EMPTY} and {PRESENT}")
    return CandidateTable(found, tuple(_name(engine, name) for name in entry.get("remove", [])))


def _candidate(engine: str, item: Any) -> Candidate:
    env = {_name(engine, name): value for name, value in item["env"].items()}
    if not all(isinstance(value, str) for value in env.values()):
        raise ValueError(f"candidates: {engine} {item['id']}: values must be quoted text")
    settings = item.get("settings", {})
    if not all(isinstance(value, bool) for value in settings.values()):
        raise ValueError(f"candidates: {engine} {item['id']}: settings must be true or false")
    return Candidate(str(item["id"]), env, settings, item.get("needs_ptrace") is True)


def _name(engine: str, name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"candidates: {engine}: {name!r} is no variable name")
    return name
