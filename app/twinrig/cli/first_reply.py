"""The end of the main job: a first reply as its proof, and the question about the logon."""

from __future__ import annotations

from twinrig.cli.chat import figures_text, show_reply
from twinrig.cli.terminal import Terminal
from twinrig.domain.errors import TwinrigError
from twinrig.messages import message
from twinrig.services.endpoints import find_serving
from twinrig.services.first_reply import QUESTION, first_turn, wordless
from twinrig.services.workbench import Workbench


async def prove(terminal: Terminal, bench: Workbench, profile_id: str) -> bool:
    """Ask the server something and show its reply. False when there is none; why is told."""
    terminal.line()
    terminal.say(message("First reply"), "bold")
    question = terminal.text(QUESTION)
    terminal.line(terminal.style(question, "dim"))
    try:
        turn = await first_turn(bench, await find_serving(bench, profile_id), question)
        reply, thoughts = await show_reply(terminal, turn)
        terminal.line()
        if not (reply + thoughts).strip():
            raise wordless()
    except TwinrigError as error:
        terminal.paragraph(error.text, style="bad")
        terminal.next_step(error.next_step)
        return False
    terminal.say(figures_text(turn.figures()), "dim")
    terminal.say(message("It has answered: everything works."), "good")
    return True


async def ask_logon(terminal: Terminal, bench: Workbench, profile_id: str) -> None:
    """Offer to start the server at logon; no is the default, and nobody is asked in a script."""
    if not terminal.can_ask or bench.demo:
        return
    status = await bench.controller.status(profile_id)
    if status.autostart is not False:  # it does already, or this machine cannot
        return
    if not terminal.ask(message("Start the server when you log on, too?")):
        return
    try:
        await bench.controller.set_autostart(profile_id, True)
    except TwinrigError as error:
        terminal.paragraph(error.text, style="bad")
        terminal.next_step(error.next_step)
        return
    terminal.say(message("It starts when you log on."), "good")
