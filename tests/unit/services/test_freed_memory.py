"""How much came back: told from the cards, never made up."""

from __future__ import annotations

from dataclasses import replace

from fixtures.pictures import GIB, picture, server
from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import ServerState
from twinrig.services.freed_memory import FreedMemory, used_bytes

S = ServerState


def shot(state: ServerState | None, *gib: float | None) -> Snapshot:
    cards = tuple(
        {"memory_used_bytes": None if size is None else round(size * GIB)} for size in gib
    )
    record = server(state) if state is not None else None
    made = picture([0] * len(gib), cards=cards, record=record)
    return made if state is not None else replace(made, server=None)


def freed(*shots: Snapshot) -> int | None:
    memory = FreedMemory()
    for each in shots:
        memory.take(each)
    return memory.freed_bytes


def test_before_against_after() -> None:
    assert freed(shot(S.READY, 10, 11), shot(S.SLEEPING, 1, 0.5)) == round(19.5 * GIB)
    assert freed(shot(S.READY, 10, 11), shot(S.STOPPING, 6, 6), shot(S.STOPPED, 0.5, 0.5))
    assert freed(shot(S.DEGRADED, 10, 11), shot(None, 0, 0)) == 21 * GIB


def test_it_follows_what_is_given_back_later() -> None:
    assert freed(shot(S.READY, 10, 11), shot(S.SLEEPING, 8, 8), shot(S.SLEEPING, 1, 1)) == 19 * GIB


def test_a_new_load_ends_it() -> None:
    history = shot(S.READY, 10, 11), shot(S.SLEEPING, 1, 1), shot(S.LOADING, 4, 4)
    assert freed(*history) is None
    assert freed(*history, shot(S.STOPPED, 0, 0)) is None, "it had not loaded"
    assert freed(*history[:2], shot(S.READY, 10, 11)) is None


def test_nothing_is_said_of_what_is_not_known() -> None:
    assert freed(shot(S.SLEEPING, 1, 1)) is None, "the panel came later"
    assert freed(shot(S.READY, 10, None), shot(S.SLEEPING, 1, 1)) is None
    assert freed(shot(S.READY, 10, 11), shot(S.SLEEPING, 1, None)) is None
    assert freed(shot(S.READY, 10, 11), shot(S.STOPPED, 10, 10.9)) is None, "that is noise"
    assert used_bytes(replace(shot(S.READY, 1, 1), samples=())) is None
