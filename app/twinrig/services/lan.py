"""Sharing a server with other devices: the wish as a finding, and what stands open now.

The plan and its commands come from the fixes ``lan-open`` and ``lan-close``, so that they are
previewed, journalled and taken back like every change.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from twinrig.domain.checks import Facts, Finding, Severity
from twinrig.domain.errors import TwinrigError, UsageError
from twinrig.domain.ports import HttpClient
from twinrig.domain.profile import Profile
from twinrig.engines.base import Engine
from twinrig.engines.field_rules import is_loopback
from twinrig.fixes.lan_open import refuse_unguarded
from twinrig.messages import message

_TIMEOUT_S = 4.0
_ASKS_FOR_KEY = frozenset({401, 403})
_ADDRESSES = ("windows_network", "address")


class FactSource(Protocol):
    """What is needed of ``Preflight``."""

    async def facts(self, profile: Profile | None, names: Sequence[str]) -> Facts:
        """Raises HostError."""
        ...


class LanAnswer(StrEnum):
    """What came back under the address that other devices use, asked without the key."""

    GUARDED = "guarded"
    UNGUARDED = "unguarded"
    SILENT = "silent"


@dataclass(frozen=True)
class LanState:
    """``urls`` are what other devices use, empty while it is not shared. ``unguarded`` are paths
    that answer there without the key. ``answer`` None: nobody was asked."""

    shared: bool
    urls: tuple[str, ...] = ()
    unguarded: tuple[str, ...] = ()
    answer: LanAnswer | None = None


class LanSharing:
    """For the servers of one target."""

    def __init__(self, facts: FactSource, http: HttpClient, engines: Mapping[str, Engine]) -> None:
        self._facts = facts
        self._http = http
        self._engines = engines

    def wish(self, profile: Profile, *, share: bool) -> Finding:
        """What the fixer is asked with. Raises UsageError for a server without a key, and for
        the demo rig's."""
        port = ("port", str(profile.network.port))
        if not share:
            return Finding("lan-opened", (port,), Severity.INFO, ("lan-close",))
        engine = self._engines.get(profile.engine.id)
        if engine is not None and engine.simulated:
            raise UsageError(
                message("The server of the demo rig is for this computer only."),
                message("Share the server of a real model."),
            )
        refuse_unguarded(profile)
        paths = ("unguarded", ", ".join(self._unguarded(profile)))
        return Finding("lan-closed", (port, paths), Severity.INFO, ("lan-open",))

    async def state(self, profile: Profile) -> LanState:
        """Asks the first address as another device would: from outside the Linux side, where
        that is a virtual machine. An answer says nothing of a router in between."""
        if is_loopback(profile.network.host):
            return LanState(False)
        addresses = await self._addresses()
        urls = tuple(f"http://{_in_url(a)}:{profile.network.port}/v1" for a in addresses)
        answer = await self._ask(urls[0]) if urls else None
        return LanState(True, urls, self._unguarded(profile), answer)

    def _unguarded(self, profile: Profile) -> tuple[str, ...]:
        engine = self._engines.get(profile.engine.id)
        return () if engine is None else engine.unguarded_paths

    async def _addresses(self) -> tuple[str, ...]:
        """Those of Windows where it lies between; else the machine's own."""
        try:
            facts = await self._facts.facts(None, _ADDRESSES)
        except TwinrigError:
            return ()
        for name in _ADDRESSES:
            lines = facts.probe(name).stdout.splitlines()
            found = [line.removeprefix("address ") for line in lines if line.startswith("address ")]
            good = tuple(address for address in found if _is_address(address))
            if good:
                return good
        return ()

    async def _ask(self, url: str) -> LanAnswer:
        try:
            response = await self._http.get(f"{url}/models", timeout_s=_TIMEOUT_S)
        except TwinrigError:
            return LanAnswer.SILENT
        if response.status in _ASKS_FOR_KEY:
            return LanAnswer.GUARDED
        return LanAnswer.UNGUARDED if response.status == 200 else LanAnswer.SILENT


def _is_address(text: str) -> bool:
    try:
        return not ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address
