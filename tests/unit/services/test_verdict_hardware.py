"""The verdict over loads that two real cards showed (docs/hardware.md): the two splits differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.pictures import LAYER, NOW_S, TENSOR, picture
from twinrig.domain.metrics import ServerSetup, Snapshot
from twinrig.services.recording import decode
from twinrig.services.situation import situation
from twinrig.services.verdict import verdict

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "hardware"


def recorded(name: str, setup: ServerSetup | None) -> list[Snapshot]:
    """The cards as recorded; one request at the speed that the load itself printed."""
    data = json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))
    pictures = []
    for second, cards in enumerate(data["readings"]):
        changes = [dict(zip(data["columns"], card, strict=True)) for card in cards]
        loads = [card["utilisation_percent"] for card in changes]
        at_s = NOW_S + second
        pictures.append(picture(loads, tps=99.5, setup=setup, cards=changes, at_s=at_s))
    return pictures


@pytest.mark.parametrize(
    ("name", "setup", "expected", "sure"),
    [
        ("tensor", TENSOR, "together", True),
        ("tensor", None, "together", True),
        ("layers", LAYER, "layer-split", True),
        ("layers", None, "layer-split", False),
        ("layers", TENSOR, "waiting-cards", False),
    ],
)
def test_what_two_real_cards_showed(name, setup, expected, sure) -> None:
    told = verdict(recorded(name, setup))
    assert (told.id, told.sure) == (expected, sure)


def test_the_sums_lie_far_from_the_limit_between_them() -> None:
    sums = {
        name: sum(card.load or 0 for card in situation(recorded(name, None)).cards)
        for name in ("tensor", "layers")
    }
    assert sums["tensor"] == pytest.approx(198, abs=2)
    assert sums["layers"] == pytest.approx(100, abs=3)


def stretch_of(name: str, first: int, last: int) -> list[Snapshot]:
    """Readings of a real vLLM 0.24 on two H200, as ``watch --record`` wrote them."""
    lines = (RECORDINGS / f"{name}.jsonl").read_text("utf-8").splitlines()[1:]
    return [decode(line) for line in lines[first:last]]


def test_a_real_vllm_in_tensor_parallel() -> None:
    told = verdict(stretch_of("vllm-tensor", 2, 6))
    assert (told.id, told.sure) == ("together", True)


def test_a_real_vllm_in_stages_reads_full_on_both_cards_and_is_told_by_its_setting() -> None:
    seconds = stretch_of("vllm-pipeline", 3, 8)
    cards = situation(seconds).cards
    assert [card.load for card in cards] == [100, 100]
    assert all((card.power_share or 1.0) < 0.5 for card in cards)
    told = verdict(seconds)
    assert (told.id, told.sure) == ("layer-split", True)
    assert "counts as busy" in told.text.msgid
