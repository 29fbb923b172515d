"""Translatable text: the core names sentences, the edges (cli, qt) translate them.

A message id *is* the English sentence. ``N_`` and ``message`` mark sentences for extraction;
``Translator`` turns a Message into text with the standard library's gettext.
"""

from __future__ import annotations

import gettext
import io
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from twinrig import assets

LANGUAGES: Mapping[str, str] = MappingProxyType({"en": "English", "ja": "日本語"})
_FIELD = re.compile(r"\{(\w+)[^{}]*\}")


def N_(msgid: str) -> str:
    """Mark a sentence for extraction without translating it."""
    return msgid


@dataclass(frozen=True)
class Message:
    """An English sentence with ``{name}`` fields, and the values of these fields.

    A value may itself be a Message; it is translated first.
    """

    msgid: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return Translator("en").text(self)

    def to_json(self) -> dict[str, Any]:
        """Plain data for state files and ``--json``; nested messages stay nested."""
        params = {k: v.to_json() if isinstance(v, Message) else v for k, v in self.params.items()}
        return {"msgid": self.msgid, "params": params}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Message:
        """Inverse of ``to_json``. Raises KeyError or TypeError on anything else."""
        params = {
            k: cls.from_json(v) if isinstance(v, Mapping) and "msgid" in v else v
            for k, v in dict(data.get("params") or {}).items()
        }
        return cls(str(data["msgid"]), params)


def message(msgid: str, **params: Any) -> Message:
    """Build a Message; the literal first argument is what extraction finds."""
    return Message(msgid, params)


class Translator:
    """Texts of one language. English stands in for an unknown language, a missing entry, and a
    catalogue that is missing or damaged (``language`` is "en" then)."""

    def __init__(self, language: str = "en") -> None:
        self.language = language if language in LANGUAGES else "en"
        self._catalogue: gettext.NullTranslations = gettext.NullTranslations()
        if self.language != "en":
            try:
                data = assets.read_bytes(f"i18n/{self.language}.mo")
                self._catalogue = gettext.GNUTranslations(io.BytesIO(data))
            except (OSError, ValueError, LookupError, struct.error):
                self.language = "en"

    def text(self, msg: Message | str, **params: Any) -> str:
        """Translate a Message, or a marked sentence with its values."""
        if isinstance(msg, Message):
            msgid, values = msg.msgid, dict(msg.params)
        else:
            msgid, values = msg, params
        template = self._catalogue.gettext(msgid) if msgid else ""
        if not values:
            return template
        plain = {k: self.text(v) if isinstance(v, Message) else v for k, v in values.items()}
        for candidate in (template, msgid):
            # A broken translation must not hide the fact it tells.
            try:
                return candidate.format_map(plain)
            except (LookupError, ValueError, AttributeError, TypeError):
                continue
        return _FIELD.sub(lambda found: str(plain.get(found[1], found[0])), msgid)
