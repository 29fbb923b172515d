"""``twinrig setup``: set up or update an engine in an environment of its own."""

from __future__ import annotations

from twinrig.cli.session import FINDINGS, FINE, Session
from twinrig.cli.terminal import Terminal
from twinrig.domain.quantities import gib
from twinrig.messages import Message, message
from twinrig.services.engine_setup import SetupPlan
from twinrig.services.setup_words import STEP_WORDS, SetupProgress, SetupStep
from twinrig.services.workbench import Workbench


async def run(session: Session) -> int:
    """Exit code 0 when it is set up, 1 when the user said no."""
    terminal, args = session.terminal, session.args
    async with session.bench() as bench:
        if args.discard:
            await bench.setup.discard(args.engine)
            terminal.data({"discarded": args.engine})
            terminal.say(message("What a cut set-up had left is gone."), "good")
            return FINE
        plan = await bench.setup.plan(args.engine, args.version or "", args.cuda)
        show_plan(terminal, plan)
        if not args.yes and not terminal.ask(_question(plan), default=True):
            terminal.data({"plan": plan, "result": None})
            terminal.say(message("Nothing was changed. Add --yes to set it up without a question."))
            return FINDINGS
        follower = _Follower(terminal)
        result = await bench.setup.run(plan, follower, args.profile or "", ask=not args.unproven)
        terminal.data({"plan": plan, "result": result})
        terminal.say(result.text, "good")
        _next(terminal, bench, result.entry_id)
        return FINE


def show_plan(terminal: Terminal, plan: SetupPlan) -> None:
    """What would be done, as a table."""
    terminal.table(
        [
            (terminal.text(message("Engine")), f"{plan.name} {plan.version[:12]}"),
            (terminal.text(message("Wheels for")), f"CUDA {plan.build.cuda}"),
            (terminal.text(message("Python")), f"{plan.python.version} ({plan.python.path})"),
            (terminal.text(message("Folder")), plan.root),
            (
                terminal.text(message("Disk")),
                terminal.text(
                    message(
                        "about {needed} GiB of {free} GiB free",
                        needed=gib(plan.needs_bytes),
                        free=gib(plan.free_bytes),
                    )
                ),
            ),
        ],
        "  ",
    )


def _question(plan: SetupPlan) -> Message:
    if plan.kept_bytes:
        return message(
            "An earlier set-up was cut off; {size} GiB of it are downloaded. Go on with it?",
            size=gib(plan.kept_bytes),
        )
    return message("Set it up now? The version in use stays until the new one is proven.")


def _next(terminal: Terminal, bench: Workbench, entry_id: str) -> None:
    terminal.next_step(
        message(
            '"twinrig --target {target} undo {entry}" goes back to what was in use before.',
            target=bench.target,
            entry=entry_id,
        )
    )


class _Follower:
    """One line a step, and below it what the program at work says."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._step: SetupStep | None = None
        self._tenth = -1

    def __call__(self, progress: SetupProgress) -> None:
        terminal = self._terminal
        if progress.step is not self._step:
            self._step, self._tenth = progress.step, -1
            terminal.say(STEP_WORDS[progress.step], "bold")
        if progress.line:
            self._tenth = -1
            terminal.line(terminal.style(f"  {progress.line}"[: terminal.width], "dim"))
        elif progress.fraction is not None and int(progress.fraction * 10) > self._tenth:
            self._tenth = int(progress.fraction * 10)
            terminal.line(terminal.style(f"  {self._tenth * 10} %", "dim"))
