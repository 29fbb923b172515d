"""Which lines of a block hold which phrases, asked of the *shapes* of lines that are new.

The shape of a line is the line with every digit as a nought and without characters that are not
ASCII (progress bars). A server says the same again and again with other figures, so that nearly all
shapes were seen before, and the phrases that a line of that shape may hold are remembered.
Memory is bounded: a log of ever new shapes makes it forget. A phrase of a few figures and nothing
else would be looked for in nearly every line; rules have better ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from itertools import chain

from twinrig.diagnosis.vocabulary import Vocabulary

MAX_SHAPES = 20_000
MAX_SHAPE_BYTES = 400
MAX_HITS_A_BLOCK = 64
_NOUGHTS = bytes.maketrans(b"123456789", b"000000000")


def _shape(text: str) -> bytes:
    return text.encode("ascii", "ignore").translate(_NOUGHTS)


class Shapes:
    """Remembers the shapes of the lines of one log."""

    def __init__(self, phrases: Sequence[str]) -> None:
        self._shaped: dict[str, list[str]] = {}
        for phrase in phrases:
            self._shaped.setdefault(_shape(phrase).decode(), []).append(phrase)
        self._vocabulary = Vocabulary(list(self._shaped))
        self._known: dict[bytes, tuple[str, ...]] = {}

    def find(self, texts: Sequence[str], unwanted: Container[str] = ()) -> dict[int, list[str]]:
        """Index of each line that holds phrases, but for unwanted ones -> these, both in order.

        No more than ``MAX_HITS_A_BLOCK`` lines are told of one phrase.
        """
        shapes = _shape("\n".join(texts)).split(b"\n")
        told: list[tuple[str, ...] | None] = list(map(self._known.get, shapes))
        if None in told:
            new = {s for s, phrases in zip(shapes, told, strict=True) if phrases is None}
            learned = self._learn(new)
            told = [learned.get(s, p) for s, p in zip(shapes, told, strict=True)]
        found: dict[int, list[str]] = {}
        for index, phrases in enumerate(told):
            if phrases:
                text = texts[index]
                held = [p for p in phrases if p not in unwanted and p in text]
                if held:
                    found[index] = held
        return _limited(found)

    def _learn(self, new: set[bytes]) -> dict[bytes, tuple[str, ...]]:
        """The phrases that lines of these shapes may hold."""
        if len(self._known) + len(new) > MAX_SHAPES:
            self._known.clear()
        shapes = list(new)
        found = self._vocabulary.find([shape.decode() for shape in shapes])
        learned = {
            shape: tuple(sorted(p for text in found.get(index, ()) for p in self._shaped[text]))
            for index, shape in enumerate(shapes)
        }
        self._known.update(
            (shape, phrases) for shape, phrases in learned.items() if len(shape) <= MAX_SHAPE_BYTES
        )
        return learned


def _limited(found: dict[int, list[str]]) -> dict[int, list[str]]:
    counts = Counter(chain.from_iterable(found.values()))
    left = {p: MAX_HITS_A_BLOCK for p, times in counts.items() if times > MAX_HITS_A_BLOCK}
    if not left:
        return found
    result: dict[int, list[str]] = {}
    for index, phrases in found.items():
        for phrase in left.keys() & phrases:
            left[phrase] -= 1
        if kept := [phrase for phrase in phrases if left.get(phrase, 0) >= 0]:
            result[index] = kept
    return result
