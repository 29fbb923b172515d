"""Text of the systemd user unit that owns a supervisor; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

STOP_TIMEOUT_S = 45
"""The supervisor needs up to 30 s to end a server; systemd must not cut in before."""

_FINAL_CODES = "1 2 3"


def unit_name(target: str, profile_id: str) -> str:
    """Name of the unit; characters that systemd does not take become ``_``."""
    return f"twinrig-{re.sub(r'[^A-Za-z0-9_.-]', '_', target)}-{profile_id}.service"


def unit_text(
    target: str, profile_id: str, command: Sequence[str], environment: Mapping[str, str]
) -> str:
    """The unit file.

    KillMode=mixed: TERM goes to the supervisor alone, which ends the server gently; KILL at the
    end to all of the group. It is started again after a crash of its own (signal, code 70), not
    after it said FAILED, wrong usage or that it could not. Output goes to its own log files.
    """
    variables = "".join(
        f"Environment={_quoted(f'{name}={value}', dollar='$')}\n"
        for name, value in sorted(environment.items())
    )
    exec_start = " ".join(_quoted(word, dollar="$$") for word in command)
    return (
        "[Unit]\n"
        f"Description=Twinrig supervisor of {profile_id} on {target.replace('%', '%%')}\n"
        "StartLimitIntervalSec=300\n"
        "StartLimitBurst=5\n"
        "\n"
        "[Service]\n"
        "Type=exec\n"
        f"ExecStart={exec_start}\n"
        f"{variables}"
        "Restart=on-failure\n"
        "RestartSec=5\n"
        f"RestartPreventExitStatus={_FINAL_CODES}\n"
        "KillMode=mixed\n"
        f"TimeoutStopSec={STOP_TIMEOUT_S}\n"
        "StandardInput=null\n"
        "\n"
        "[Install]\n"
        "WantedBy=default.target\n"
    )


def _quoted(word: str, dollar: str) -> str:
    """One word in systemd's quoting: C escapes, ``%`` doubled; ``$`` doubled only in commands."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("%", "%%").replace("$", dollar) + '"'
