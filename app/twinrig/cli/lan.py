"""``twinrig fix lan-open`` and ``lan-close``: share a server with other devices, or end that."""

from __future__ import annotations

from twinrig.cli import doctor
from twinrig.cli.fix import Offer, offer_one
from twinrig.cli.session import FINDINGS, FINE, Session
from twinrig.cli.terminal import Terminal
from twinrig.domain.errors import UsageError
from twinrig.domain.profile import Profile
from twinrig.messages import message
from twinrig.services.lan import LanAnswer, LanState
from twinrig.services.workbench import Workbench


async def run(session: Session) -> int:
    """Preview, ask, apply; then what other devices find. Exit code 1 while it is not as wished."""
    terminal, args = session.terminal, session.args
    share = args.id == "lan-open"
    async with session.bench() as bench:
        profile = doctor.profile_for(bench, args.profile)
        if profile is None:
            raise UsageError(
                message("This fix changes a profile, and none was chosen."),
                message("Name one with --profile ID."),
            )
        wish = bench.lan().wish(profile, share=share)
        ways = await bench.fixer.options(wish, profile)
        done = None
        if ways:
            offer = Offer(wish, ways[0])
            done = await offer_one(terminal, bench, profile, offer, yes=args.yes)
        state = await _tell(terminal, bench, profile)
        terminal.data({"fixes": [] if done is None else [done], "lan": state})
    return FINE if state.shared == share else FINDINGS


async def _tell(terminal: Terminal, bench: Workbench, profile: Profile) -> LanState:
    state = await bench.lan().state(bench.profiles.load(profile.id))
    if not state.shared:
        terminal.say(message("The server is for this computer only."))
        return state
    for url in state.urls:
        terminal.say(message("Other devices: {url}", url=url))
    if state.answer is LanAnswer.GUARDED:
        terminal.say(message("It answers there and asks for the key."), "good")
    elif state.answer is LanAnswer.UNGUARDED:
        terminal.say(
            message("It answers there WITHOUT the key: restart the server, then look again."), "bad"
        )
    else:
        terminal.say(message("Nothing answers there now. Start or restart the server."), "warn")
    return state
