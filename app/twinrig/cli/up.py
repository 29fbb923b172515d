"""``twinrig up``: the whole main job in a terminal, from looking round to a watched server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from twinrig.cli import cut_off, doctor, first_reply, fix, server, watch
from twinrig.cli.demo_client import demo_client
from twinrig.cli.drafting import cards_of, draft_profile
from twinrig.cli.format import gib
from twinrig.cli.session import (
    FINDINGS,
    FINE,
    REQUESTED_BY,
    Session,
    pick_profile,
    profiles_of,
)
from twinrig.cli.terminal import Terminal
from twinrig.domain.checks import CheckResult, Severity, Status
from twinrig.domain.errors import GpuUnavailableError, UsageError
from twinrig.domain.fixes import FixPlan
from twinrig.domain.gpu import GpuInfo
from twinrig.domain.profile import Profile
from twinrig.domain.server import ServerState
from twinrig.messages import Message, message
from twinrig.services.workbench import Workbench

UNATTENDED_VIEW_S = 20.0
LOAD_TIMEOUT_S = 3600.0


async def run(session: Session) -> int:
    """Exit code 0 when the server has answered (or the user said no), 1 when it failed."""
    terminal = session.terminal
    if terminal.json_mode:
        raise UsageError(
            message('"up" talks to people and prints no JSON.'),
            message('Use "twinrig doctor", "start", "status" and "watch" with --json.'),
        )
    async with AsyncExitStack() as stack:
        bench = await stack.enter_async_context(session.bench())
        cards = await _look_round(terminal, bench)
        if await _needs_demo(session, bench, cards):
            if terminal.can_ask and not terminal.ask(
                message("Show everything on the demo rig instead?"), default=True
            ):
                return FINDINGS
            bench = await stack.enter_async_context(session.bench("demo"))
            await _look_round(terminal, bench)
        return await _Job(session, bench).run()


async def _look_round(terminal: Terminal, bench: Workbench) -> tuple[GpuInfo, ...]:
    terminal.say(message("Target: {label}", label=Message(bench.label)), "bold")
    try:
        cards = await cards_of(bench)
    except GpuUnavailableError as error:
        terminal.paragraph(error.text, "  ", "warn")
        return ()
    for card in cards:
        terminal.line(f"  {card.index}: {card.name}, {gib(card.memory_total_bytes)}")
    return cards


async def _needs_demo(session: Session, bench: Workbench, cards: Sequence[GpuInfo]) -> bool:
    """No card, nothing running, nothing prepared, and no target was asked for."""
    if bench.demo or cards or session.target != "auto" or session.args.profile:
        return False
    if await bench.controller.active() is not None or profiles_of(bench):
        return False
    session.terminal.say(
        message("There is no NVIDIA card and no server here. The demo rig shows how it works."),
        "warn",
    )
    return True


@dataclass(frozen=True)
class _Job:
    """The steps on one target."""

    session: Session
    bench: Workbench

    async def run(self) -> int:
        terminal, bench = self.session.terminal, self.bench
        await cut_off.put_back(terminal, bench)
        active = await bench.controller.active()
        if active is not None and active.supervisor_alive:
            server.show_status(terminal, active, bench.clock.now())
            terminal.say(message("It runs already; this is the live view."))
            await self._view()
            return FINE
        profile = await self._profile()
        if not await self._preflight(profile):
            return FINDINGS
        profile = bench.profiles.load(profile.id)
        self._plan(profile)
        question = message("Start the server now?")
        if terminal.can_ask and not self._yes and not terminal.ask(question, default=True):
            terminal.say(message("Nothing was started."))
            return FINE
        return await self._serve(profile)

    @property
    def _yes(self) -> bool:
        return bool(self.session.args.yes)

    async def _profile(self) -> Profile:
        terminal, bench, args = self.session.terminal, self.bench, self.session.args
        if args.profile or profiles_of(bench):
            return await self._existing()
        draft = await draft_profile(
            terminal,
            bench,
            engine_id=args.engine,
            environment=args.environment,
            model_path=args.model,
        )
        bench.profiles.save(draft)
        terminal.say(message("Made the profile {id}.", id=draft.id))
        return draft

    async def _existing(self) -> Profile:
        terminal, bench, wanted = self.session.terminal, self.bench, self.session.args.profile
        mine = profiles_of(bench)
        if wanted or len(mine) == 1 or not terminal.can_ask:
            return await pick_profile(bench, wanted)
        chosen = terminal.choose(message("Which profile?"), [f"{p.name} ({p.id})" for p in mine])
        if chosen is None:
            return await pick_profile(bench, None)
        return mine[chosen]

    async def _preflight(self, profile: Profile) -> bool:
        """Run the checks and offer fixes. False when something keeps the server from starting."""
        terminal, bench = self.session.terminal, self.bench
        terminal.line()
        terminal.say(message("Preflight"), "bold")
        results = await doctor.run_checks(bench.preflight, profile, terminal)
        offers = await fix.find_offers(bench, profile, results)
        done = 0
        for offer in fix.first_each(offers):
            if isinstance(offer.way, FixPlan) and not (terminal.can_ask or self._yes):
                terminal.next_step(
                    message(
                        '"twinrig --target {target} fix {id}" shows and applies the fix.',
                        target=bench.target,
                        id=offer.way.fix_id,
                    )
                )
                continue
            outcome = await fix.offer_one(terminal, bench, profile, offer, yes=self._yes)
            done += bool(outcome.get("applied"))
        if done:
            profile = bench.profiles.load(profile.id)
            results = tuple([r async for r in bench.preflight.run(profile)])
        return self._may_start(results)

    def _may_start(self, results: Sequence[CheckResult]) -> bool:
        """On the demo rig a problem is part of the show; on a real machine it ends the job."""
        terminal = self.session.terminal
        blocking = [r for r in results if r.status is Status.FAIL and _blocks(r)]
        if not blocking or self.bench.demo:
            return True
        terminal.say(
            message("Problems that keep the server from starting: {count}", count=len(blocking)),
            "bad",
        )
        return terminal.ask(message("Start it all the same?"))

    def _plan(self, profile: Profile) -> None:
        terminal, bench = self.session.terminal, self.bench
        engine = bench.engines.get(profile.engine.id)
        rows = [
            (terminal.text(message("Profile")), f"{profile.name} ({profile.id})"),
            (
                terminal.text(message("Engine")),
                " ".join(x for x in (engine.name if engine else "", profile.engine.version) if x),
            ),
            (terminal.text(message("Model")), profile.model.path),
        ]
        labels = {o.id: o for o in engine.options()} if engine else {}
        for name, value in profile.settings.items():
            label = terminal.text(labels[name].label) if name in labels else name
            unit = labels[name].unit if name in labels else ""
            rows.append((label, f"{value} {terminal.text(unit)}".rstrip()))
        address = f"http://{profile.network.host}:{profile.network.port}/v1"
        rows.append((terminal.text(message("Base URL")), address))
        terminal.line()
        terminal.say(message("Plan"), "bold")
        terminal.table(rows, "  ")

    async def _serve(self, profile: Profile) -> int:
        terminal, bench = self.session.terminal, self.bench
        terminal.line()
        terminal.say(message("Start"), "bold")
        await bench.controller.start(profile.id, REQUESTED_BY)
        try:
            record = await server.follow_start(terminal, bench, profile.id, LOAD_TIMEOUT_S)
            if record.state is not ServerState.READY:
                return FINDINGS
            if not await first_reply.prove(terminal, bench, profile.id):
                return FINDINGS
            async with demo_client(terminal, bench, record):
                await self._view()
        finally:
            await asyncio.shield(self._leave(profile.id))
        return FINE

    async def _view(self) -> None:
        """Until Ctrl+C, ``--seconds``, or 20 s with nobody there."""
        terminal, seconds = self.session.terminal, self.session.args.seconds
        if seconds is None and not terminal.can_ask:
            seconds = UNATTENDED_VIEW_S
        terminal.line()
        try:
            await watch.view(terminal, self.bench, seconds=seconds)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not terminal.can_ask:
                raise
            task.uncancel()  # Ctrl+C ends the view; what becomes of the server is asked next
            terminal.line()

    async def _leave(self, profile_id: str) -> None:
        """Leave a real server running; stop the demo, unless told to keep it."""
        terminal, bench, args = self.session.terminal, self.bench, self.session.args
        status = await bench.controller.status(profile_id)
        if not status.supervisor_alive:
            return
        if args.keep or not (bench.demo or terminal.can_ask):
            keep = True
        elif terminal.can_ask:
            keep = terminal.ask(message("Leave the server running?"), default=True)
        else:
            keep = False
        if keep:
            terminal.say(
                message(
                    'The server goes on by itself. Stop it with "twinrig --target {target} stop".',
                    target=bench.target,
                )
            )
            if not args.yes:
                await first_reply.ask_logon(terminal, bench, profile_id)
            return
        began_s = bench.clock.now()
        await bench.controller.stop(profile_id, REQUESTED_BY)
        await server.wait_stopped(terminal, bench, profile_id, began_s)


def _blocks(result: CheckResult) -> bool:
    return result.finding is None or result.finding.severity is Severity.BLOCKING
