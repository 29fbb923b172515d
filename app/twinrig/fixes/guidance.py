"""Fixes only the user can do: words from ``resources/advice/fixes.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import Guidance
from twinrig.messages import Message

# The one in C is ten times faster, and this is read at every start.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class GuidanceFix:
    """``Fix`` that explains. The finding's parameters may be used in its sentences."""

    probes: tuple[str, ...] = ()

    def __init__(self, fix_id: str, title: str, instructions: tuple[str, ...]) -> None:
        self.id = fix_id
        self.title = title
        self.instructions = instructions

    def plan(self, finding: Finding, facts: Facts) -> Guidance:
        """The same for every finding."""
        return Guidance(
            self.id,
            Message(self.title),
            tuple(Message(sentence) for sentence in self.instructions),
        )


def load_guidance(text: str) -> Mapping[str, GuidanceFix]:
    """By fix id. Raises ValueError naming the entry: the file is part of the program."""
    data = yaml.load(text, Loader=_LOADER)
    if not isinstance(data, dict) or not isinstance(data.get("fixes"), dict):
        raise ValueError("advice: the top must hold 'fixes'")
    return {str(fix_id): _entry(str(fix_id), entry) for fix_id, entry in data["fixes"].items()}


def _entry(fix_id: str, entry: Any) -> GuidanceFix:
    if not isinstance(entry, dict) or set(entry) != {"title", "instructions"}:
        raise ValueError(f"advice: {fix_id} needs exactly 'title' and 'instructions'")
    title, steps = entry["title"], entry["instructions"]
    if not isinstance(title, str) or not title or not isinstance(steps, list) or not steps:
        raise ValueError(f"advice: {fix_id} lacks a title or instructions")
    if not all(isinstance(step, str) and step for step in steps):
        raise ValueError(f"advice: {fix_id} has an instruction that is no text")
    return GuidanceFix(fix_id, title, tuple(steps))
