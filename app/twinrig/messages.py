"""Translatable text: the core names sentences, the edges (cli, qt) translate them.

A message id *is* the English sentence. ``N_`` and ``message`` mark sentences for extraction;
``Translator`` turns a Message into text with the standard library's gettext.
"""

from __future__ import annotations

import gettext
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from twinrig import assets

LANGUAGES: Mapping[str, str] = MappingProxyType({"en": "English", "ja": "日本語"})


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
    """Texts of one language; unknown languages and missing entries fall back to English."""

    def __init__(self, language: str = "en") -> None:
        self.language = language if language in LANGUAGES else "en"
        self._catalogue: gettext.NullTranslations = gettext.NullTranslations()
        if self.language != "en":
            data = assets.read_bytes(f"i18n/{self.language}.mo")
            self._catalogue = gettext.GNUTranslations(io.BytesIO(data))

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
        try:
            return template.format_map(plain)
        except (KeyError, IndexError, ValueError):
            # A broken translation must not hide the fact it tells.
            return msgid.format_map(_Lenient(plain))


class _Lenient(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "{" + key + "}"
