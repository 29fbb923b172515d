"""When the cards cannot talk for one engine: can they for another one of this machine?

The same collectives on another engine's Python and with its profile's settings tell whether the
machine is able; what differs between the two is then what to look at.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinrig.domain.collective import CollectiveReport
from twinrig.domain.errors import TwinrigError
from twinrig.domain.profile import Profile
from twinrig.messages import Message, message
from twinrig.services.collective import request_for
from twinrig.services.workbench import Workbench


@dataclass(frozen=True)
class Comparison:
    """``able``: the collectives passed for the other engine, so the machine can do it."""

    engine_id: str
    able: bool
    report: CollectiveReport
    text: Message
    differences: tuple[Message, ...] = ()


async def compare_engines(
    bench: Workbench, profile: Profile, failed: CollectiveReport | None
) -> Comparison | None:
    """Try one profile of each other engine until one passes; None when there is no other.

    ``failed`` is what the collectives showed for ``profile``.
    """
    last: Comparison | None = None
    for other in _others(bench, profile):
        try:
            found = await bench.installs.find(other.engine.id, other.engine.environment)
            request = request_for(other, found[0] if found else None)
            report = await bench.collective.run(request)
        except TwinrigError:
            continue  # an engine that is not there tells nothing
        last = compare(profile, failed, other, report)
        if last.able:
            return last
    return last


def compare(
    profile: Profile, failed: CollectiveReport | None, other: Profile, report: CollectiveReport
) -> Comparison:
    """The verdict over two reports of the same cards."""
    names = {"engine": profile.engine.id, "other": other.engine.id}
    if not report.passed:
        text = message(
            "The cards cannot talk for {other} either: it is the machine, not {engine}.", **names
        )
        return Comparison(other.engine.id, False, report, text)
    text = message(
        "The machine is able: for {other} the cards talk. What differs is the set-up of {engine}.",
        **names,
    )
    return Comparison(
        other.engine.id, True, report, text, _differences(profile, failed, other, report)
    )


def _others(bench: Workbench, profile: Profile) -> list[Profile]:
    """One profile of each other engine, real ones only."""
    listing = bench.profiles.list().profiles
    chosen: dict[str, Profile] = {}
    for other in listing:
        if other.engine.id in bench.candidates and other.engine.id != profile.engine.id:
            chosen.setdefault(other.engine.id, other)
    return list(chosen.values())


def _differences(
    profile: Profile, failed: CollectiveReport | None, other: Profile, report: CollectiveReport
) -> tuple[Message, ...]:
    pairs: list[tuple[str, str, str]] = []
    if failed is not None:
        pairs += [
            ("torch", failed.torch_version, report.torch_version),
            ("NCCL", failed.nccl_version, report.nccl_version),
            ("transport", ", ".join(failed.transports), ", ".join(report.transports)),
        ]
    for name in sorted({*profile.env, *other.env}):
        here = profile.env[name].value if name in profile.env else ""
        there = other.env[name].value if name in other.env else ""
        pairs.append((name, here, there))
    return tuple(
        message(
            "{name}: {here} for {engine}, {there} for {other}",
            name=name,
            here=here or "-",
            there=there or "-",
            engine=profile.engine.id,
            other=other.engine.id,
        )
        for name, here, there in pairs
        if here != there
    )
