"""``twinrig start --prove``: waits, and says whether the server stays by itself."""

from __future__ import annotations

from twinrig.cli.format import duration
from twinrig.cli.terminal import Terminal
from twinrig.messages import message
from twinrig.services.persistence import Proof
from twinrig.services.workbench import Workbench

_TELL_EACH_S = 30


async def prove(terminal: Terminal, bench: Workbench, profile_id: str, wait_s: float) -> Proof:
    """Tells how long it still takes, then the verdict."""
    told: set[int] = set()

    def progress(left_s: float) -> None:
        step = int(left_s) // _TELL_EACH_S
        if step not in told:
            told.add(step)
            text = message("Leaving it alone for {time} more…", time=duration(left_s))
            terminal.say(text, "dim")

    proof = await bench.persistence().run(profile_id, progress, wait_s)
    show_proof(terminal, proof)
    return proof


def show_proof(terminal: Terminal, proof: Proof) -> None:
    """Verdict, what it rests on, and what it does not cover."""
    style = {True: "good", False: "bad", None: "warn"}[proof.kept]
    terminal.paragraph(proof.text, style=style)
    for line in (*proof.shown, *proof.untried):
        terminal.paragraph(line)
    if proof.next_step is not None:
        terminal.next_step(proof.next_step)
