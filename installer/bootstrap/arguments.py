"""What the arguments of twinrig ask for, as far as the set-up must know."""

from __future__ import annotations

from collections.abc import Sequence

WITH_VALUE = ("--target", "--language", "--replay", "--smoke")
"""Options that stand before the verb and have a value of their own."""


def panel_wanted(arguments: Sequence[str]) -> bool:
    """Whether these arguments open the panel: no verb, or the verb ``panel``."""
    rest = iter(arguments)
    for argument in rest:
        if argument in ("--version", "--help", "-h"):
            return False
        if argument in WITH_VALUE:
            next(rest, None)
        elif not argument.startswith("-"):
            return argument == "panel"
    return True
