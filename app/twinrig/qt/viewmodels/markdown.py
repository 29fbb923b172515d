"""Makes a model's Markdown harmless before it is shown: nothing is loaded, nothing is HTML."""

from __future__ import annotations

import re

MAX_PLAIN = 40_000
"""Characters; longer texts get a box of their own that lays out only what is seen."""
MAX_RENDERED = 16_000
"""Up to here Markdown is laid out at the end: beyond, that would stall the window."""
LIVE_RENDERED = 6_000
"""Up to here a reply is laid out anew while it comes."""

_IMAGE = re.compile(r"!\[([^\]\n]{0,500})\]\(([^)\s]{0,2000})[^)\n]{0,500}\)")
_REFERENCE_IMAGE = re.compile(r"!\[([^\]\n]{0,500})\]\[([^\]\n]{0,200})\]")
_BLEND = re.compile(r"!(?=\[)")
_SAFE_SCHEMES = ("http://", "https://", "mailto:")


def harmless(text: str) -> str:
    """Markdown in which pictures are links to them; what looks like HTML is shown as text."""
    text = _IMAGE.sub(lambda found: f"[{found[1] or found[2]}]({found[2]})", text)
    text = _REFERENCE_IMAGE.sub(lambda found: f"[{found[1] or found[2]}][{found[2]}]", text)
    text = _BLEND.sub("\\!", text)
    return _escape_tags(text)


def may_open(address: str) -> bool:
    """Whether a link leads to where a browser or a mail program is the right one to open it."""
    return address.lower().startswith(_SAFE_SCHEMES) and "\n" not in address


def _escape_tags(text: str) -> str:
    """A tag outside of code is shown, not swallowed; in code it is shown anyway."""
    lines = []
    fenced = ""
    for line in text.split("\n"):
        start = line.lstrip()
        mark = start[:3] if start[:3] in ("```", "~~~") else ""
        if mark and (not fenced or mark == fenced):
            fenced = "" if fenced else mark
        elif not fenced:
            line = _outside_code(line)
        lines.append(line)
    return "\n".join(lines)


def _outside_code(line: str) -> str:
    parts = line.split("`")
    return "`".join(
        part if index % 2 else re.sub(r"<(?=[A-Za-z/!?])", r"\\<", part)
        for index, part in enumerate(parts)
    )
