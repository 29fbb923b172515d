"""Which language to speak: asked for, else chosen in the panel, else the system's."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

from twinrig.hosts.windows.ui_language import ui_language
from twinrig.messages import LANGUAGES


def choose_language(config: Path, environ: Mapping[str, str]) -> str:
    """A code of ``LANGUAGES``; "en" when nothing else fits."""
    chosen = _of_panel(config / "panel.ini")
    return chosen if chosen in LANGUAGES else _of_system(environ)


def _of_panel(path: Path) -> str:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(path, encoding="utf-8")
        return parser.get("General", "language", fallback="").strip('"')
    except (configparser.Error, UnicodeDecodeError, OSError):
        return ""


def _of_system(environ: Mapping[str, str]) -> str:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = environ.get(name, "")
        if value:
            code = value.partition(".")[0].partition("_")[0].lower()
            return code if code in LANGUAGES else "en"
    return ui_language() or "en"  # Windows sets none of these variables
