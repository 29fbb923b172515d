"""Takes secrets out of a stream of output before anything is stored or shown."""

from __future__ import annotations

from collections.abc import Iterable

MASK = b"********"
SHORTEST = 6
"""Shorter values would blot out ordinary text; such a key protects nothing anyway."""


class SecretMask:
    """Replaces each of ``secrets`` wherever it stands, across the borders of chunks too."""

    def __init__(self, secrets: Iterable[str]) -> None:
        values = {secret.encode() for secret in secrets if len(secret) >= SHORTEST}
        self._secrets = sorted(values, key=len, reverse=True)
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """What may be stored by now; a piece that may become a secret is held back."""
        if not self._secrets:
            return chunk
        text = self._held + chunk
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        cut = len(text) - self._open_end(text)
        self._held = text[cut:]
        return text[:cut]

    def finish(self) -> bytes:
        """What was held back: the stream has ended without completing a secret."""
        held, self._held = self._held, b""
        return held

    def _open_end(self, text: bytes) -> int:
        """Length of the longest end of ``text`` with which a secret begins."""
        longest = 0
        for secret in self._secrets:
            for length in range(min(len(secret) - 1, len(text)), longest, -1):
                if text.endswith(secret[:length]):
                    longest = length
                    break
        return longest
