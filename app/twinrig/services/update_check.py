"""Is there a newer version? Asked only when the user has switched it on; nothing is downloaded."""

from __future__ import annotations

import json
from dataclasses import dataclass

import yaml
from packaging.version import InvalidVersion, Version

from twinrig.domain.errors import TwinrigError
from twinrig.domain.ports import HttpClient
from twinrig.messages import Message, message

TABLE = "update.yaml"
TIMEOUT_S = 10.0


@dataclass(frozen=True)
class UpdateAnswer:
    """``newer`` is the version that is out, "" when there is none or it is not known.

    ``known`` False: nobody could tell; ``text`` says why.
    """

    text: Message
    newer: str = ""
    known: bool = True


def release_address(table: str, override: str = "") -> str:
    """The address to ask: ``override`` (a variable), else that of the shipped table; "" = none."""
    if override.strip():
        return override.strip()
    data = yaml.safe_load(table)
    found = data.get("address") if isinstance(data, dict) else ""
    return found if isinstance(found, str) else ""


async def check_for_update(http: HttpClient, address: str, own: str) -> UpdateAnswer:
    """One request that carries nothing but the address. Never raises for what the net does."""
    if not address:
        return _unknown(message("This copy of Twinrig does not know where its releases are."))
    try:
        reply = await http.get(address, timeout_s=TIMEOUT_S)
    except TwinrigError as error:
        return _unknown(error.text)
    if reply.status != 200:
        return _unknown(message("The address answered with status {status}.", status=reply.status))
    version = _version_in(reply.body)
    if version is None:
        return _unknown(message("The answer names no version."))
    if version > Version(own) and not version.is_prerelease:
        return UpdateAnswer(
            message(
                "Version {new} is out; this is {own}. Nothing is downloaded by itself.",
                new=str(version),
                own=own,
            ),
            str(version),
        )
    return UpdateAnswer(message("This is the newest version: {own}.", own=own))


def _unknown(reason: Message) -> UpdateAnswer:
    text = message("Whether there is a newer version is not known: {reason}", reason=reason)
    return UpdateAnswer(text, known=False)


def _version_in(body: bytes) -> Version | None:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    for name in ("tag_name", "version"):
        text = data.get(name)
        if isinstance(text, str):
            try:
                return Version(text.strip())
            except InvalidVersion:
                continue
    return None
