"""``twinrig profiles adopt``: servers that somebody else starts, as profiles."""

from __future__ import annotations

from twinrig.cli.session import FINDINGS, FINE, Session
from twinrig.domain.errors import UsageError
from twinrig.messages import message
from twinrig.services.adoption import Adoption, AdoptionFinder
from twinrig.services.workbench import Workbench


async def adopt(session: Session, bench: Workbench) -> int:
    """Show what was found; with ``--save`` keep it. The found server is never touched."""
    args, terminal = session.args, session.terminal
    finder = AdoptionFinder(bench.host, bench.engines, bench.target, bench.profiles.free_id)
    found = await _found(finder, args.pid)
    for refused in finder.refused:
        terminal.say(
            message(
                "Not readable, in {source}: {reason}", source=refused.source, reason=refused.text
            ),
            "warn",
        )
    if not found and finder.refused:
        terminal.data([])
        return FINDINGS
    if not found:
        terminal.data([])
        terminal.say(message("No server of a known engine was found that somebody else starts."))
        return FINDINGS
    for adoption in found:
        _tell(session, adoption)
        if args.save:
            bench.profiles.save(adoption.profile)
            terminal.say(message("Saved the profile {id}.", id=adoption.profile.id), "good")
            terminal.next_step(adoption.next_step)
    terminal.data(found)
    return FINE


async def _found(finder: AdoptionFinder, pid: int | None) -> tuple[Adoption, ...]:
    if pid is None:
        return await finder.units()
    adoption = await finder.process(pid)
    if adoption is None and finder.refused:
        return ()
    if adoption is None:
        raise UsageError(
            message("The process {pid} is no server of a known engine.", pid=pid),
            message("Look for its number with: ps -ef"),
        )
    return (adoption,)


def _tell(session: Session, adoption: Adoption) -> None:
    terminal, profile = session.terminal, adoption.profile
    terminal.say(message("Found in {source}:", source=adoption.source))
    terminal.table([(profile.id, profile.engine.id, profile.model.path, str(profile.network.port))])
    if adoption.left_out:
        terminal.say(message("Not taken over: {names}", names=", ".join(adoption.left_out)), "warn")
    for note in adoption.notes:
        terminal.say(note, "warn")
