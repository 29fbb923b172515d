"""Any of our values as plain data for ``--json``: messages become text, None stays null."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

from twinrig.messages import Message, Translator


def plain(value: Any, translator: Translator) -> Any:
    """Dicts, lists, texts, numbers, true, false and null only. NaN becomes null."""
    if isinstance(value, Message):
        return translator.text(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name), translator) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v, translator) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, translator) for item in value]
    if isinstance(value, PurePath):
        return str(value)
    return repr(value)
