"""``twinrig switch`` and ``restart``: another profile's server, or the same one anew."""

from __future__ import annotations

from twinrig.cli.going_back import show_changes
from twinrig.cli.phases import PhaseFollower
from twinrig.cli.server import follow_start, show_failure
from twinrig.cli.session import FINDINGS, FINE, REQUESTED_BY, Session, pick_id
from twinrig.domain.server import ServerState
from twinrig.messages import message


async def switch(session: Session) -> int:
    """Stop what runs, after asking, and start the other profile. 1: failed, or the user said no."""
    terminal, args = session.terminal, session.args
    async with session.bench() as bench:
        profile = bench.profiles.load(args.profile)
        switching = bench.switching()
        other = await switching.running(profile.id)
        if other and not args.yes:
            question = message(
                "Stop the server of {running} and start {wanted}?",
                running=other,
                wanted=profile.id,
            )
            if not terminal.ask(question):
                terminal.data({"stopped": None, "record": None})
                terminal.say(
                    message(
                        "The server of {running} goes on. Add --yes to stop it and start {wanted}.",
                        running=other,
                        wanted=profile.id,
                    )
                )
                return FINDINGS
        stopped = await switching.switch(profile.id, REQUESTED_BY)
        if stopped:
            terminal.say(message("The server of {profile} was stopped.", profile=stopped))
        record = await follow_start(terminal, bench, profile.id, args.timeout)
        terminal.data({"stopped": stopped or None, "record": record})
        return FINE if record.state is ServerState.READY else FINDINGS


async def restart(session: Session) -> int:
    """Anew; changed settings that do not start give way to those that worked (then 1)."""
    terminal, args = session.terminal, session.args
    async with session.bench() as bench:
        profile_id = await pick_id(bench, args.profile)
        follower = PhaseFollower(terminal, bench.clock.now)
        done = await bench.switching().restart(
            profile_id, REQUESTED_BY, None if terminal.json_mode else follower
        )
        follower.done()
        if done.went_back:
            if done.failure is not None:
                show_failure(terminal, done.failure)
            terminal.say(
                message("The changed settings did not start; those that worked are back."), "warn"
            )
            show_changes(terminal, done.changes)
            terminal.next_step(
                message('"twinrig profiles restore {id}" brings the change back.', id=profile_id)
            )
        record = await follow_start(terminal, bench, profile_id, args.timeout)
        terminal.data({"went_back": done.went_back, "changes": done.changes, "record": record})
        ready = record.state is ServerState.READY and not done.went_back
        return FINE if ready else FINDINGS
