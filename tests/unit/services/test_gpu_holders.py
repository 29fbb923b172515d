"""Who holds a card's memory: what nvidia-smi prints on Linux, under WSL2, and not at all."""

from __future__ import annotations

import pytest

from fixtures.memory_host import MemoryHost
from twinrig.domain.memory import GIB, Card, PartKind
from twinrig.messages import Translator
from twinrig.services.gpu_holders import parse_holders, read_holders
from twinrig.sizing import words

LINUX = """GPU-1, 812, /home/u/venv/bin/python3, 9728
GPU-1, 77, /usr/bin/Xorg, 310
GPU-2, 812, VLLM::Worker_TP1, 9728
"""


def test_programs_by_card_the_largest_first() -> None:
    assert parse_holders(LINUX) == {
        "GPU-1": ("python3 (pid 812, 9.5 GiB)", "Xorg (pid 77, 0.3 GiB)"),
        "GPU-2": ("VLLM::Worker_TP1 (pid 812, 9.5 GiB)",),
    }


@pytest.mark.parametrize(
    "line",
    [
        "",
        "No running processes found",
        "GPU-1, 812, [Not Found], [N/A]",
        "GPU-1, [N/A], python, 12",
        "GPU-1, 812",
        ", 812, python, 12",
        "GPU-1, 812, , 12",
    ],
)
def test_what_is_not_told_is_not_invented(line: str) -> None:
    assert parse_holders(line) == {}


def test_a_name_without_a_size() -> None:
    assert parse_holders("GPU-1, 8, C:\\x, y.exe, [N/A]") == {"GPU-1": ("C:\\x,y.exe (pid 8)",)}


async def test_without_the_program_nothing_is_told() -> None:
    assert await read_holders(MemoryHost()) == {}


def test_the_reserved_part_names_them_or_says_that_it_cannot() -> None:
    english = Translator("en")

    def told(card: Card) -> str:
        return english.text(words.part("vllm", PartKind.RESERVED, card))

    assert "python3 (pid 812, 9.5 GiB), Xorg" in told(
        Card(24 * GIB, 10 * GIB, holders=parse_holders(LINUX)["GPU-1"])
    )
    assert "cannot be told" in told(Card(24 * GIB, 10 * GIB))
    assert "kept free" in told(Card(24 * GIB))
