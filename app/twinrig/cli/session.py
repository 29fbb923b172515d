"""What every verb gets: the terminal, the parsed arguments, and a way to open a target."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from twinrig.cli.terminal import Terminal
from twinrig.domain.errors import UsageError
from twinrig.domain.profile import Profile
from twinrig.messages import Message, message
from twinrig.services.workbench import Workbench

FINE, FINDINGS, USAGE, UNKNOWN = 0, 1, 2, 3
"""Exit codes: fine, findings or failed, wrong usage, could not tell."""

REQUESTED_BY = "cli"


@dataclass(frozen=True)
class Session:
    """One command. ``target`` is as given: "auto", "local", "wsl" or "demo"."""

    terminal: Terminal
    args: argparse.Namespace
    target: str
    open_workbench: Callable[[str], Workbench]
    end_other_processes: Callable[[], tuple[Message, ...]] = tuple
    """Ends other processes of this installation; says which of them stay."""

    @asynccontextmanager
    async def bench(self, target: str | None = None) -> AsyncIterator[Workbench]:
        """The target's workbench, given back at the end. A simulated one is labelled."""
        bench = self.open_workbench(target or self.target)
        if bench.demo:
            label_demo(self.terminal, bench)
        try:
            yield bench
        finally:
            await bench.http.close()


def label_demo(terminal: Terminal, bench: Workbench) -> None:
    """Say that what follows is simulated."""
    terminal.say(
        message("{label}: simulated cards, nothing here is real.", label=Message(bench.label)),
        "accent",
    )


def profiles_of(bench: Workbench) -> tuple[Profile, ...]:
    """Usable profiles of this target."""
    return tuple(p for p in bench.profiles.list().profiles if p.target == bench.target)


async def pick_profile(bench: Workbench, profile_id: str | None) -> Profile:
    """The named profile, else that of the running server, else the only one there is.

    Raises UsageError that lists the choices.
    """
    if profile_id:
        return bench.profiles.load(profile_id)
    record = await bench.controller.active_record()
    mine = profiles_of(bench)
    for profile in mine:
        if record is not None and profile.id == record.profile_id:
            return profile
    if len(mine) == 1:
        return mine[0]
    if not mine:
        raise UsageError(
            message("There is no profile for this target yet."),
            message(
                'Make one with "twinrig --target {target} profiles new NAME".', target=bench.target
            ),
        )
    raise UsageError(
        message("There are several profiles; name one."),
        message("Profiles: {names}", names=", ".join(p.id for p in mine)),
    )


async def pick_id(bench: Workbench, profile_id: str | None) -> str:
    """Like ``pick_profile``, but also for a server whose profile is gone or broken."""
    if profile_id:
        return await known_id(bench, profile_id)
    record = await bench.controller.active_record()
    if record is not None:
        return record.profile_id
    return (await pick_profile(bench, None)).id


async def known_id(bench: Workbench, profile_id: str) -> str:
    """``profile_id``. Raises UsageError for one with neither a profile nor traces of a server."""
    if not bench.profiles.path(profile_id).exists():
        seen = await bench.controller.status(profile_id)
        if seen.record is None and seen.problem is None and not seen.supervisor_alive:
            bench.profiles.load(profile_id)
    return profile_id
