"""Why a look at the hub or a download failed, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinrig.domain.errors import ConflictError, HostError, TwinrigError, UsageError
from twinrig.domain.quantities import gib
from twinrig.messages import Message, message

TOKEN_NAME = "hf-token"
"""Name of the hub's token in the secret store."""


def hub_fault(kind: str, facts: Mapping[str, Any], endpoint: str) -> TwinrigError:
    """The error for what the program on the target told."""
    what = str(facts.get("what") or facts.get("path") or "")
    if kind in _TOKEN:
        return _token_fault(kind, what, endpoint)
    if kind == "no-weights":
        return _no_weights(what, [str(b) for b in facts.get("branches") or ()])
    if kind == "no-room":
        return UsageError(
            message(
                "The download needs {needed} GiB more, and {free} GiB are free for {path}.",
                needed=gib(float(facts.get("needed") or 0)),
                free=gib(float(facts.get("free") or 0)),
                path=what,
            ),
            message("Free some space, or choose another folder with --folder."),
            finding_id="disk-full",
        )
    if kind == "exists":
        return ConflictError(
            message("{path} is there already; nothing was downloaded.", path=what),
            message("Use it, or move it away and download again."),
        )
    text, next_step = _OTHERS.get(kind, _OTHERS["connection"])
    reason = str(facts.get("reason") or facts.get("code") or kind)
    return HostError(
        Message(text.msgid, {"what": what, "reason": reason, "endpoint": endpoint}), next_step
    )


_TOKEN = frozenset({"needs-token", "bad-token", "not-allowed", "not-found"})
_OTHERS: Mapping[str, tuple[Message, Message]] = {
    "connection": (
        message("{what}: the connection to {endpoint} was lost ({reason})."),
        message("Check the network, then try again; a download goes on where it stopped."),
    ),
    "checksum": (
        message("{what} is not what {endpoint} promised, twice; the copy was dropped."),
        message("Try again later; a proxy in between may change files."),
    ),
    "disk-full": (
        message("The disk is full: {what}"),
        message("Free some space, then go on with the same download."),
    ),
    "windows-drive": (
        message("{what} lies on a Windows drive, from which models load 10 to 50 times slower."),
        message("Choose a folder of the Linux side, such as ~/models."),
    ),
    "garbled": (
        message("{endpoint} answered with something that cannot be read ({what})."),
        message("Try again later."),
    ),
    "refused": (
        message("{endpoint} refuses {what} ({reason})."),
        message("Try again later, or look at the page of the model."),
    ),
    "system": (
        message("{what} cannot be written: {reason}."),
        message("Check the permissions of the folder, or choose another one."),
    ),
}


def _token_fault(kind: str, what: str, endpoint: str) -> TwinrigError:
    page = f"{endpoint}/{what.partition('@')[0]}"
    if kind == "needs-token":
        return UsageError(
            message(
                "{model} is only for people who are signed in, or it does not exist.", model=what
            ),
            message(
                "Accept the terms on {page}, make a token with read access in your settings "
                'there, and store it with "twinrig models token". Then try again.',
                page=page,
            ),
            finding_id=TOKEN_NAME,
        )
    if kind == "bad-token":
        return UsageError(
            message("The stored token is not accepted."),
            message('Make a new one in your settings there; "twinrig models token" stores it.'),
            finding_id=TOKEN_NAME,
        )
    if kind == "not-allowed":
        return UsageError(
            message("Your account may not download {model} yet.", model=what),
            message(
                "Open {page}, accept the terms, and wait for the owner where that is asked. "
                "The token needs read access to such models.",
                page=page,
            ),
        )
    return UsageError(
        message("There is no {model}, or not for your account.", model=what),
        message('Check the spelling; "twinrig models search TEXT" looks for it.'),
    )


def _no_weights(what: str, branches: list[str]) -> TwinrigError:
    others = [name for name in branches if name != "main"]
    if others:
        return UsageError(
            message("{model} keeps its sizes in branches.", model=what),
            message(
                "Add one with @, such as {model}@{branch}. Branches: {names}",
                model=what,
                branch=others[0],
                names=", ".join(others),
            ),
        )
    return UsageError(
        message("{model} holds no weights that vLLM or tabbyAPI can load.", model=what),
        message("Look for a version in the safetensors format; GGUF files are for others."),
    )
