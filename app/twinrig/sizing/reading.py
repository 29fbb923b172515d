"""Typed access to a Hugging Face ``config.json``; what is missing or nonsense gets a sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from twinrig.domain.memory import UnsizableError
from twinrig.messages import message

MAX_CONFIG_BYTES = 4 * 2**20
MAX_LAYERS = 4096
_TEXT_PARTS = ("text_config", "language_config", "llm_config", "thinker_config", "text_model")
_LARGEST = 10**9
PER_LAYER = "per_layer_config"
"""What differs in single layers: the number of a layer, as a text, to keys and values."""


def parse_config(data: bytes | str) -> dict[str, Any]:
    """The JSON object of a configuration. Raises UnsizableError for anything else."""
    if len(data) > MAX_CONFIG_BYTES:
        raise _damaged("config.json")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _damaged("config.json") from error
    if not isinstance(found, dict):
        raise _damaged("config.json")
    return found


def _damaged(name: str) -> UnsizableError:
    return UnsizableError(
        message("{name} is no model configuration.", name=name),
        message("Choose the config.json of a Hugging Face model folder."),
    )


class Config:
    """The part of a configuration that describes the language model, and the whole of it."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self.whole = whole
        self._text = language_part(whole)
        self._of_layer = _single_layers(self.part(PER_LAYER))

    def has(self, *names: str) -> bool:
        """Whether one of the keys holds anything but null."""
        return any(self.get(name) is not None for name in names)

    def names(self, *names: str) -> bool:
        """Whether one of the keys is there, be it null: configurations of a class name all."""
        return any(name in self._text or name in self.whole for name in names)

    def get(self, name: str) -> Any:
        """Value of a key, looked up in the language part first; None when missing."""
        value = self._text.get(name)
        return self.whole.get(name) if value is None else value

    def integer(self, *names: str, layer: int | None = None) -> int | None:
        """A whole number >= 0 under the first key that holds one; lists give that of ``layer``,
        as does what is said of that layer alone.

        Raises UnsizableError for a value that is no such number.
        """
        own = self._of_layer.get(layer, {}) if layer is not None else {}
        for name in names:
            value = own.get(name)
            value = self.get(name) if value is None else value
            if isinstance(value, (list, tuple)):
                value = _of_layer(value, layer)
            if value is not None:
                return _whole(name, value)
        return None

    def need(self, *names: str, layer: int | None = None) -> int:
        """Like ``integer``, but at least 1 and never missing."""
        value = self.integer(*names, layer=layer)
        if value is None:
            raise missing(names[0])
        if value < 1:
            raise _wrong(names[0], value)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """A truth value; anything that is none counts as ``default``."""
        value = self.get(name)
        return value if isinstance(value, bool) else default

    def text(self, name: str) -> str:
        """A text, "" when missing."""
        value = self.get(name)
        return value if isinstance(value, str) else ""

    def words(self, name: str) -> tuple[str, ...] | None:
        """A list of texts, None when missing. Raises UnsizableError for other lists."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, Sequence) and all(isinstance(v, str) for v in value):
            return tuple(value)
        raise _wrong(name, value)

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """A list of whole numbers, None when missing or no list of them."""
        value = self.get(name)
        if not isinstance(value, (list, tuple)):
            return None
        return tuple(_whole(name, v) for v in value if v is not None)

    def part(self, name: str) -> Mapping[str, Any]:
        """A nested object, empty when missing."""
        value = self.get(name)
        return value if isinstance(value, Mapping) else {}

    @property
    def architecture(self) -> str:
        """First entry of ``architectures``, "" when missing."""
        names = self.whole.get("architectures")
        return str(names[0]) if isinstance(names, list) and names else ""


def missing(name: str) -> UnsizableError:
    """The key ``name`` is needed and is not there."""
    return UnsizableError(
        message("The model's configuration has no {key}.", key=name),
        message(
            "Use the config.json that belongs to the weights; without {key} no size is known.",
            key=name,
        ),
    )


def _wrong(name: str, value: object) -> UnsizableError:
    return UnsizableError(
        message(
            "{key} in the model's configuration cannot be {value}.",
            key=name,
            value=repr(value)[:60],
        ),
        message("Use the config.json that belongs to the weights."),
    )


def language_part(whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """The section that describes the language model; all of it where there is none."""
    part: Mapping[str, Any] = whole
    for _ in range(3):  # a thinker holds a text_config
        inner = next((part[n] for n in _TEXT_PARTS if isinstance(part.get(n), Mapping)), None)
        if inner is None:
            break
        part = inner
    return part


def _single_layers(part: Mapping[str, Any]) -> Mapping[int, Mapping[str, Any]]:
    return {
        int(number): keys
        for number, keys in part.items()
        if number.isascii() and number.isdecimal() and isinstance(keys, Mapping)
    }


def _of_layer(value: Sequence[Any], layer: int | None) -> Any:
    if not value:
        return None
    return value[min(layer or 0, len(value) - 1)]


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(name, value)
    if not math.isfinite(value) or value != int(value) or not 0 <= value <= _LARGEST:
        raise _wrong(name, value)
    return int(value)
