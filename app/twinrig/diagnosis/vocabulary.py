"""Which phrases occur in a block of lines, asked of the words that are new.

Logs repeat themselves: nearly all words of a block were seen before, and what phrases they can
belong to is remembered. Memory is bounded: a log of ever new words makes it forget.
"""

from __future__ import annotations

from collections.abc import Sequence

from twinrig.diagnosis.index import Needle

MAX_WORDS = 60_000
MAX_WORD_CHARS = 400
MAX_NEW_WORDS = 64


class Vocabulary:
    """Remembers words over the blocks of one log."""

    def __init__(self, needles: Sequence[Needle]) -> None:
        self._by_key: dict[str, list[Needle]] = {}
        for needle in needles:
            self._by_key.setdefault(needle.key, []).append(needle)
        self._known: set[str] = set()
        self._telling: dict[str, list[str]] = {}
        self._always: set[str] = set()

    def present(self, joined: str) -> dict[str, int]:
        """Phrases that occur in the text of a block, in a fixed order, and where first.

        A phrase that is one whole word needs no search: -1, it is somewhere.
        """
        words = set(joined.split())
        new = words - self._known
        if new:
            self._learn(new)
        keys = {key for word in words & self._telling.keys() for key in self._telling[word]}
        keys |= self._always
        found: dict[str, int] = {}
        for key in keys:
            sure = key not in self._always
            for needle in self._by_key[key]:
                if needle.text == key and sure:
                    found[key] = -1
                elif needle.inner <= words:
                    position = joined.find(needle.text)
                    if position >= 0:
                        found[needle.text] = position
        return dict(sorted(found.items()))

    def _learn(self, new: set[str]) -> None:
        if len(self._known) + len(new) > MAX_WORDS:
            self._known.clear()
            self._telling.clear()
        text = "\n".join(new)
        for key in self._by_key:
            if key not in self._always and key in text:
                self._find(key, text)
        self._known.update(word for word in new if len(word) <= MAX_WORD_CHARS)

    def _find(self, key: str, text: str) -> None:
        """Remember the words that hold a key; a key that ever new words hold is always asked."""
        position, times = text.find(key), 0
        while position >= 0:
            end = text.find("\n", position)
            end = len(text) if end < 0 else end
            word = text[text.rfind("\n", 0, position) + 1 : end]
            self._telling.setdefault(word, []).append(key)
            times += 1
            if times > MAX_NEW_WORDS:
                self._always.add(key)
                return
            position = text.find(key, end)
