"""The versions under which something was proven, kept as text beside what was proven.

``driver 596.36; kernel 6.6.114; torch 2.13.0; nccl 2.28.9; vllm 0.33.0`` in square brackets, in
the reason of a variable: a later look compares it with the machine as it is then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_BRACKETS = re.compile(r"\[([^\[\]]*)\]\s*$")
_PART = re.compile(r"([a-z0-9]+) (\S+)")


def to_text(versions: Mapping[str, str]) -> str:
    """Known versions only, in the order given. Names and versions hold no blanks."""
    return "[" + "; ".join(f"{name} {value}" for name, value in versions.items() if value) + "]"


def from_text(text: str) -> Mapping[str, str]:
    """The versions at the end of ``text``; empty when there are none."""
    found = _BRACKETS.search(text)
    parts = found[1].split("; ") if found else []
    pairs = [_PART.fullmatch(part.strip()) for part in parts]
    return {pair[1]: pair[2] for pair in pairs if pair}


def changed(then: Mapping[str, str], now: Mapping[str, str]) -> Mapping[str, tuple[str, str]]:
    """What is known of both times and differs: name -> (then, now)."""
    return {
        name: (value, now[name])
        for name, value in then.items()
        if now.get(name) and now[name] != value
    }
