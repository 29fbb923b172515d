"""What the demo engine answers. It says what it is: nobody may take it for a model's reply."""

from __future__ import annotations

import random
import re

_JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")

_OPENING_EN = (
    "This is the demo engine of Twinrig: no language model is running, and this text is made up "
    "so that you can watch two simulated graphics cards at work."
)
_BODY_EN = (
    "Each word you see stands for one token of a reply.",
    "Under tensor parallel both cards compute every token together.",
    "With a layer split one card waits while the other one works.",
    "More requests at once raise the total speed, but each reply gets slower.",
    "The key-value cache grows with every token of the conversation.",
    "A long prompt is read first, and only then does the reply begin.",
    "Warm cards lower their clocks a little to stay within their limits.",
)
_OPENING_JA = (
    "これは Twinrig のデモエンジンです。",
    "言語モデルは動いておらず、",
    "この文章は動作を見せるために作られたものです。",
)
_BODY_JA = (
    "テンソル並列では、",
    "二枚のカードが同じトークンを一緒に計算します。",
    "レイヤー分割では、",
    "片方が計算している間、もう片方は待ちます。",
    "同時に処理する要求が増えると、",
    "全体の速度は上がります。",
    "会話が長くなるほど、",
    "KV キャッシュも大きくなります。",
)
NATURAL_TOKENS = (120, 240)


def count_tokens(text: str) -> int:
    """Tokens of a prompt: about four letters each, one per Japanese character."""
    japanese = len(_JAPANESE.findall(text))
    return japanese + (len(text) - japanese + 3) // 4


def reply_tokens(prompt: str, seed: int, limit: int, *, ignore_end: bool) -> tuple[list[str], bool]:
    """Tokens of a reply, at most ``limit``, and whether it ended by itself.

    The same prompt and seed give the same reply. With ``ignore_end`` it always reaches the limit.
    No sentence follows itself: by chance that would be a loop, which this engine has none of.
    """
    chance = random.Random(f"{seed}/{prompt}")
    wanted = limit if ignore_end else chance.randint(*NATURAL_TOKENS)
    japanese = _JAPANESE.search(prompt) is not None
    tokens = _pieces("".join(_OPENING_JA)) if japanese else _words(_OPENING_EN)
    body, more = _BODY_JA if japanese else _BODY_EN, ""
    while len(tokens) < min(wanted, limit):
        more = chance.choice([sentence for sentence in body if sentence != more])
        tokens += _pieces(more) if japanese else _words(" " + more)
    ended = not ignore_end and len(tokens) <= limit
    return tokens[:limit], ended


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+", text)


def _pieces(text: str) -> list[str]:
    return re.findall(r"..?", text)
