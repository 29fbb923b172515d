"""Prompts of a benchmark: each begins differently, so that no cache of prefixes answers it."""

from __future__ import annotations

import random

from twinrig.domain.benchmark import Prompt

SHORT_TOKENS = 60
LONG_TOKENS = 2000
FIRST_GUESS = 4.0
"""Characters of English text per token, until the server has counted."""

_TASK = "Write a long story about it, with many details, in at least two thousand words."
_TEXT = (
    "amber basin candle delta ember fable garden harbor island jungle kettle lantern meadow "
    "needle orchard pebble quarry ribbon saddle timber umber valley willow yonder zephyr anchor "
    "bridge copper dragon engine forest glacier hollow ivory jasper kernel ladder mirror north "
    "ocean paper quiet river silver tunnel under velvet window yellow azure bronze cinder"
)
_WORDS = tuple(_TEXT.split())


class PromptMaker:
    """Prompts of a wanted length for a tokenizer that is learnt from the first replies.

    ``seed`` and the running number make every prompt of a run a new one.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._number = 0
        self._per_token = FIRST_GUESS

    def learn(self, characters: int, tokens: int) -> None:
        """The server counted so many tokens for a prompt of so many characters."""
        if characters > 0 and tokens > 0:
            self._per_token = characters / tokens

    def prompt(self, length: Prompt, context_tokens: int | None, reply_tokens: int) -> str:
        """A new prompt. A long one leaves room for the reply in the context."""
        self._number += 1
        chance = random.Random(f"{self._seed}/{self._number}")
        wanted = int(self.tokens(length, context_tokens, reply_tokens) * self._per_token)
        head = f"{chance.getrandbits(48):012x}: "
        words: list[str] = []
        size = len(head) + len(_TASK) + 2
        while size < wanted:
            word = chance.choice(_WORDS)
            words.append(word)
            size += len(word) + 1
        return f"{head}{' '.join(words)}. {_TASK}"

    def tokens(self, length: Prompt, context_tokens: int | None, reply_tokens: int) -> int:
        """How many tokens such a prompt should have."""
        if length is Prompt.SHORT:
            return SHORT_TOKENS
        if context_tokens is None:
            return LONG_TOKENS
        return max(SHORT_TOKENS, min(LONG_TOKENS, int((context_tokens - reply_tokens) * 0.7)))
