"""Which layer is of which kind: every way in which configurations say so.

The words are those of ``layer_types``; other forms are translated into them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twinrig.domain.memory import UnsizableError
from twinrig.messages import Message, message
from twinrig.sizing.reading import Config

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
LINEAR, MAMBA, CONV, BOTH, MLP_ONLY = "linear_attention", "mamba", "conv", "both", "mlp"
MOE_ONLY = "moe"
_WORDS = {
    FULL: FULL,
    "attention": FULL,
    "attn": FULL,
    "full": FULL,
    "global": FULL,
    "global_attention": FULL,
    "sparse_attention": FULL,
    "indexed_attention": FULL,
    SLIDING: SLIDING,
    "sliding": SLIDING,
    "local": SLIDING,
    "local_attention": SLIDING,
    "sliding_window_attention": SLIDING,
    CHUNKED: CHUNKED,
    LINEAR: LINEAR,
    "linear": LINEAR,
    "gated_deltanet": LINEAR,
    "kda": LINEAR,
    "recurrent": MAMBA,
    MAMBA: MAMBA,
    "mamba2": MAMBA,
    "ssm": MAMBA,
    CONV: CONV,
    "short_conv": CONV,
    "hybrid": BOTH,
    BOTH: BOTH,
    MLP_ONLY: MLP_ONLY,
    MOE_ONLY: MOE_ONLY,
}
_PARTS = (
    ("sliding", SLIDING),
    ("window", SLIDING),
    ("local", SLIDING),
    ("chunk", CHUNKED),
    ("linear", LINEAR),
    ("delta", LINEAR),
    ("mamba", MAMBA),
    ("conv", CONV),
    ("attention", FULL),
    ("attn", FULL),
)
"""For words that are not known, in this order."""
_LETTERS = {"M": MAMBA, "*": FULL, "-": MLP_ONLY, "E": MOE_ONLY}
_LISTS = ("layer_types", "layers_block_type")
_LINEAR_KEYS = (
    "linear_num_value_heads",
    "linear_num_heads",
    "linear_attn_config",
    "attn_type_list",
)
_MAMBA_KEYS = ("mamba_d_state", "mamba_d_ssm", "ssm_state_size", "state_size")

Finder = Callable[[Config, int], tuple[str, ...] | None]


def layer_kinds(config: Config, count: int) -> tuple[tuple[str, ...], Message | None]:
    """One word for each of the ``count`` layers, and a note where the choice is a fallback.

    Raises UnsizableError when a list is shorter than the model or holds an unknown word.
    """
    for finder in _FINDERS:
        found = finder(config, count)
        if found is not None:
            return _meant(config, found), _guess_note(config, found)
    if config.has(*_MAMBA_KEYS):
        if not config.has("num_attention_heads"):
            return (MAMBA,) * count, None
        return (BOTH,) * count, message(
            "The configuration does not say which layers are which; "
            "attention and state are counted in every layer."
        )
    if _slides(config):
        return (SLIDING,) * count, None
    return (FULL,) * count, None


def counted(config: Config) -> int | None:
    """Number of layers that a list of them names, where the configuration gives no number."""
    for name in (*_LISTS, "hybrid_override_pattern"):
        value = config.get(name)
        if isinstance(value, (list, str)) and value:
            return len(value)
    return None


def _meant(config: Config, words: tuple[str, ...]) -> tuple[str, ...]:
    """Newer configurations call every layer with a state a linear one, and some call a layer
    hybrid that has none; the keys tell which."""
    if not config.has(*_MAMBA_KEYS):
        return tuple(FULL if word == BOTH else word for word in words)
    if not config.has(*_LINEAR_KEYS):
        return tuple(MAMBA if word == LINEAR else word for word in words)
    return words


def _listed(config: Config, count: int) -> tuple[str, ...] | None:
    for name in (*_LISTS, "block_types"):
        words = config.words(name)
        if words:
            if name == "block_types":  # a pattern that repeats
                words = tuple(words[i % len(words)] for i in range(count))
            return tuple(_known(name, word) for word in _exact(name, words, count))
    return None


def _exact(name: str, words: Sequence[str], count: int) -> Sequence[str]:
    if len(words) < count:
        raise UnsizableError(
            message(
                "{key} names {named} layers, but the model has {count}.",
                key=name,
                named=len(words),
                count=count,
            ),
            message("Use the config.json that belongs to the weights."),
        )
    return words[:count]


def _known(name: str, word: str) -> str:
    kind = _WORDS.get(word) or _guessed(word)
    if kind is None:
        raise UnsizableError(
            message(
                "{key} names a kind of layer that is not known: {word}.", key=name, word=word[:40]
            ),
            message("A newer Twinrig may know it."),
        )
    return kind


def _guessed(word: str) -> str | None:
    """Kind of a word that is not known but says what it is."""
    return next((kind for part, kind in _PARTS if part in word), None)


def _guess_note(config: Config, found: tuple[str, ...]) -> Message | None:
    words = {w for name in _LISTS for w in config.words(name) or () if w not in _WORDS}
    if BOTH in found and not config.has(*_MAMBA_KEYS):
        words |= {w for name in _LISTS for w in config.words(name) or () if _WORDS.get(w) == BOTH}
    if not words:
        return None
    return message(
        "Layers of a kind that is not known, {word}, are counted as what their name says.",
        word=", ".join(sorted(words))[:80],
    )


def _override_pattern(config: Config, count: int) -> tuple[str, ...] | None:
    pattern = config.text("hybrid_override_pattern")
    if not pattern:
        return None
    letters = _exact("hybrid_override_pattern", list(pattern), count)
    unknown = next((letter for letter in letters if letter not in _LETTERS), None)
    if unknown is not None:
        _known("hybrid_override_pattern", unknown)
    return tuple(_LETTERS[letter] for letter in letters)


def _linear_config(config: Config, count: int) -> tuple[str, ...] | None:
    """Layers are counted from 1 there."""
    part = config.part("linear_attn_config")
    full = part.get("full_attn_layers")
    if not isinstance(full, list):
        return None
    return tuple(FULL if i + 1 in full else LINEAR for i in range(count))


def _interval(config: Config, count: int) -> tuple[str, ...] | None:
    step = config.integer("full_attention_interval")
    if not step:
        return None
    return tuple(FULL if (i + 1) % step == 0 else LINEAR for i in range(count))


def _type_list(config: Config, count: int) -> tuple[str, ...] | None:
    numbers = config.numbers("attn_type_list")
    if not numbers:
        return None
    return tuple(FULL if n == 1 else LINEAR for n in _padded("attn_type_list", numbers, count))


def _padded(name: str, numbers: Sequence[int], count: int) -> Sequence[int]:
    _exact(name, [str(n) for n in numbers], count)
    return numbers[:count]


def _indices(config: Config, count: int) -> tuple[str, ...] | None:
    for name in ("attn_layer_indices", "full_attn_idxs"):
        chosen = config.numbers(name)
        if chosen is not None:
            rest = CONV if config.has("conv_L_cache") else MAMBA
            return tuple(FULL if i in chosen else rest for i in range(count))
    return None


def _period(config: Config, count: int) -> tuple[str, ...] | None:
    step = config.integer("attn_layer_period")
    if not step:
        return None
    offset = config.integer("attn_layer_offset") or 0
    return tuple(FULL if i % step == offset % step else MAMBA for i in range(count))


def _chunks(config: Config, count: int) -> tuple[str, ...] | None:
    """Layers with rotary positions look back within chunks, the others everywhere."""
    if not config.integer("attention_chunk_size"):
        return None
    rope = config.numbers("no_rope_layers")
    if rope:
        return tuple(CHUNKED if n else FULL for n in _padded("no_rope_layers", rope, count))
    step = config.integer("no_rope_layer_interval") or 4
    return tuple(FULL if (i + 1) % step == 0 else CHUNKED for i in range(count))


def _window_pattern(config: Config, count: int) -> tuple[str, ...] | None:
    if not config.integer("sliding_window"):
        return None
    pattern = config.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:
        return tuple(
            SLIDING if pattern[i % len(pattern)].upper() == "L" else FULL for i in range(count)
        )
    step = config.integer("sliding_window_pattern", "_sliding_window_pattern", "window_pattern")
    if not step:
        return None
    return tuple(FULL if (i + 1) % step == 0 else SLIDING for i in range(count))


def _alternating(config: Config, count: int) -> tuple[str, ...] | None:
    """Without a list, soft-capped attention scores mean: every other layer slides."""
    if not (config.integer("sliding_window") and config.has("attn_logit_softcapping")):
        return None
    return tuple(FULL if i % 2 else SLIDING for i in range(count))


def _late_windows(config: Config, count: int) -> tuple[str, ...] | None:
    """Only layers from a number on slide, where windows are switched on at all."""
    first = config.integer("max_window_layers")
    if first is None or not config.flag("use_sliding_window") or not _slides(config):
        return None
    return tuple(FULL if i < first else SLIDING for i in range(count))


def _slides(config: Config) -> bool:
    return bool(config.integer("sliding_window")) and config.flag("use_sliding_window", True)


_FINDERS: tuple[Finder, ...] = (
    _listed,
    _override_pattern,
    _linear_config,
    _interval,
    _type_list,
    _indices,
    _period,
    _chunks,
    _window_pattern,
    _late_windows,
    _alternating,
)
