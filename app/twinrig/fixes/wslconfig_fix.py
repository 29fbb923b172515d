"""Make every line of ``.wslconfig`` one that WSL can use.

A size with a wrong suffix is written rightly; any other line is kept as a comment.
"""

from __future__ import annotations

import re

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import FixPlan
from twinrig.domain.ini_text import IniEntry
from twinrig.domain.wsl_config import KEY_KINDS, ConfigFile, size_bytes, unreadable_entries
from twinrig.fixes.wslconfig_edits import config_plan, read_config
from twinrig.messages import N_, message

_SIZE = re.compile(r"(\d+)\s*([kmgt])i?b?", re.IGNORECASE)
MARK = "# WSL could not use this line: "


class WslConfigLines:
    """Changes the lines that count nothing, and only those."""

    id = "wslconfig-fix"
    title = N_("Correct the WSL configuration")
    probes: tuple[str, ...] = ("windows_wslconfig",)

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises NothingToChangeError when every line counts."""
        config = read_config(facts)
        return config_plan(
            self.id,
            message("Correct the WSL configuration"),
            config,
            corrected(config),
            message("A setting that was ignored so far may now take effect."),
        )


def corrected(config: ConfigFile) -> str:
    """The text with each line that counts nothing mended or made a comment."""
    mark = "\ufeff" if config.text.startswith("\ufeff") else ""
    lines = config.text.removeprefix("\ufeff").split("\n")
    ini = config.ini()
    unreadable = {entry.line_no: entry for entry in unreadable_entries(ini)}
    later = {entry.line_no for entry in ini.duplicates()}
    for number in sorted({*unreadable, *ini.broken, *later}):
        entry = unreadable.get(number)
        size = "" if entry is None or number in later else mended_size(entry)
        line = lines[number - 1]
        if size and entry is not None:
            lines[number - 1] = line.replace(entry.value, size, 1)
        else:
            lines[number - 1] = MARK + line
    return mark + "\n".join(lines)


def mended_size(entry: IniEntry) -> str:
    """A size as WSL reads it, "" when it is not clear which one is meant."""
    if KEY_KINDS.get((entry.section.lower(), entry.key.lower())) != "size":
        return ""
    found = _SIZE.fullmatch(entry.value)
    text = f"{found[1]}{found[2].upper()}B" if found else ""
    return text if size_bytes(text) else ""
