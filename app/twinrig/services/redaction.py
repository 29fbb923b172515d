"""Masks what a report must not tell: keys, tokens, names of people, folders and machines.

tabbyAPI prints its keys in clear at every start (failure catalogue 1.9), also folded over two
lines. The same name gets the same mask, so that a report can still be followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

KEY = "<key>"
_WORD = r"[A-Za-z0-9._~+/=-]"

_KEYS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(Your (?:API|admin) key is:\s{0,200})\S+", re.IGNORECASE), rf"\1{KEY}"),
    (re.compile(rf"\b((?:Bearer|Basic)\s+){_WORD}{{6,}}", re.IGNORECASE), rf"\1{KEY}"),
    (re.compile(r"\bhf_[A-Za-z0-9]{8,}"), KEY),
    (re.compile(r"\b(?:sk|pk|ghp|gho|github_pat|glpat|xox[bp])[-_][A-Za-z0-9_-]{8,}"), KEY),
    (
        re.compile(
            r"((?:api|admin|access|secret|auth|hub|hf)[-_ ]?(?:key|token)s?['\"]?\s{0,3}[:=]\s{0,3}"
            r"|(?:--api-key|--hf-token)[= ]"
            r"|\b(?:password|passwd|secret|token)['\"]?\s{0,2}[:=]\s{0,2}"
            r"|x-(?:api|admin)-key:\s{0,3})(['\"\[]{0,2})(?![<{])[^\s'\",\]}]{4,}",
            re.IGNORECASE,
        ),
        rf"\1\2{KEY}",
    ),
    (re.compile(r"(?m)\b[0-9a-f]{32}\b(?=\s*$)"), KEY),
    (re.compile(r"(https?://)[^\s/@:]+:[^\s/@]+@"), rf"\1{KEY}@"),
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL), KEY),
)
_MAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+\b")
_HOME = re.compile(
    r"(?P<before>(?:/home/|/Users/|[A-Za-z]:[\\/]{1,2}Users[\\/]{1,2}|[\\/]home[\\/]))"
    r"(?P<name>[^\\/\s'\":;,)\]]+)"
)
_PROMPT = re.compile(r"\b(?P<name>[a-z_][\w-]{0,31})@(?P<host>[\w-]{2,63})(?=[:~ ])")
_PROMPT_NAME = re.compile(r"\b(?P<name>[a-z_][\w-]{0,31})@(?=<host\d)")
_NCCL_HOST = re.compile(r"(?m)(?P<before>^|[ |)\]])(?P<host>[A-Za-z][\w-]{1,62}):\d+:\d+ \[\d+\]")
_JOURNAL_HOST = re.compile(
    r"(?m)(?P<before>^(?:[A-Z][a-z]{2} [ \d]\d |\d{4}-\d\d-\d\dT)\d\d:\d\d:\d\d[^\s]* )"
    r"(?P<host>[\w.-]+)(?= [\w.@-]+(?:\[\d+\])?: )"
)
_WINDOWS_ACCOUNT = re.compile(
    r"(?m)(?P<before>^(?:HostName|Author|Run As User|Account|User):\s+)(?P<host>\S.*?)\s*$"
)
_ADDRESS = re.compile(r"(?<![\w.])(?P<host>\d{1,3}(?:\.\d{1,3}){3})(?![\w.]*\d)")
_UUID = re.compile(
    r"(?P<host>\b(?:GPU-|MIG-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)"
)
_SAFE_ADDRESSES = ("127.", "0.0.0.0", "255.")
_SAFE_NAMES = frozenset({"user", "root", "runner", "public", "default"})


class Redactor:
    """Masks texts of one report. ``secrets`` and ``names`` are masked wherever they stand."""

    def __init__(self, secrets: Iterable[str] = (), names: Iterable[str] = ()) -> None:
        self._secrets = sorted({s for s in secrets if len(s) >= 4}, key=len, reverse=True)
        self._masks: dict[tuple[str, str], str] = {}
        self._words = {n for n in names if len(n) >= 3 and n.lower() not in _SAFE_NAMES}

    def redact(self, text: str) -> str:
        """``text`` without what identifies a person, a machine or an account."""
        for secret in self._secrets:
            text = text.replace(secret, KEY)
        for pattern, mask in _KEYS:
            text = pattern.sub(mask, text)
        text = _MAIL.sub(lambda m: self._mask("mail", m[0]), text)
        text = self._replace(_HOME, "name", "user", text)
        for pattern in (_PROMPT, _NCCL_HOST, _JOURNAL_HOST, _WINDOWS_ACCOUNT):
            text = self._replace(pattern, "host", "host", text)
        text = self._replace(_PROMPT_NAME, "name", "user", text)
        text = self._replace(_ADDRESS, "host", "address", text)
        text = self._replace(_UUID, "host", "id", text)
        return self._words_of(text)

    def _replace(self, pattern: re.Pattern[str], group: str, kind: str, text: str) -> str:
        return pattern.sub(self._mask_group(group, kind), text)

    def _mask_group(self, group: str, kind: str) -> Callable[[re.Match[str]], str]:
        def masked(found: re.Match[str]) -> str:
            value = found[group]
            if value.startswith("<") or self._is_safe(kind, value):
                return found[0]
            start, end = found.span(group)
            offset = found.start()
            mask = self._mask(kind, value)
            return found[0][: start - offset] + mask + found[0][end - offset :]

        return masked

    def _is_safe(self, kind: str, value: str) -> bool:
        if kind == "address":
            return value.startswith(_SAFE_ADDRESSES)
        return value.lower() in _SAFE_NAMES

    def _mask(self, kind: str, value: str) -> str:
        if kind in ("user", "host") and len(value) >= 3:
            self._words.add(value)
        key = (kind, value.lower())
        if key not in self._masks:
            number = sum(known == kind for known, _ in self._masks) + 1
            self._masks[key] = f"<{kind}{number}>"
        return self._masks[key]

    def _words_of(self, text: str) -> str:
        """Names found once are masked wherever they stand as words."""
        for word in sorted(self._words, key=len, reverse=True):
            known = [
                k for k in (("user", word.lower()), ("host", word.lower())) if k in self._masks
            ]
            mask = self._masks[known[0]] if known else self._mask("name", word)
            text = re.sub(rf"(?<![\w<]){re.escape(word)}(?![\w>])", mask, text)
        return text
