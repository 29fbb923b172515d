"""Sharing a server with other devices: the wish as a finding, and what stands open now.

The plan and its commands come from the fixes ``lan-open`` and ``lan-close``, so that they are
previewed, journalled and taken back like every change.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from twinrig.domain.checks import Facts, Finding, Severity
from twinrig.domain.elevation import AdminAction, AdminTask
from twinrig.domain.errors import TwinrigError, UsageError
from twinrig.domain.ports import HttpClient
from twinrig.domain.profile import Profile
from twinrig.engines.base import Engine
from twinrig.engines.field_rules import is_loopback
from twinrig.fixes.lan_open import refuse_unguarded
from twinrig.messages import message
from twinrig.services.journal import Journal, JournalEntry

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

    def __init__(
        self,
        facts: FactSource,
        http: HttpClient,
        engines: Mapping[str, Engine],
        journal: Journal | None = None,
    ) -> None:
        self._facts = facts
        self._http = http
        self._engines = engines
        self._journal = journal

    def wish(self, profile: Profile, *, share: bool) -> Finding:
        """What the fixer is asked with. Raises UsageError for a server without a key, and for
        the demo rig's."""
        port = ("port", str(profile.network.port))
        before = ("earlier", ",".join(self._earlier_ports(profile)))
        if not share:
            return Finding("lan-opened", (port, before), Severity.INFO, ("lan-close",))
        engine = self._engines.get(profile.engine.id)
        if engine is not None and engine.simulated:
            raise UsageError(
                message("The server of the demo rig is for this computer only."),
                message("Share the server of a real model."),
            )
        refuse_unguarded(profile)
        paths = ("unguarded", ", ".join(self._unguarded(profile)))
        return Finding("lan-closed", (port, before, paths), Severity.INFO, ("lan-open",))

    async def state(self, profile: Profile) -> LanState:
        """Asks the first address as another device would: from outside the Linux side, where
        that is a virtual machine. An answer says nothing of a router in between."""
        if is_loopback(profile.network.host):
            return LanState(False)
        addresses = await self._addresses()
        urls = tuple(f"http://{_in_url(a)}:{profile.network.port}/v1" for a in addresses)
        answer = await self._ask(urls[0]) if urls else None
        return LanState(True, urls, self._unguarded(profile), answer)

    def _earlier_ports(self, profile: Profile) -> tuple[str, ...]:
        """Ports that were opened for this profile, are open still and are not its port now."""
        entries = () if self._journal is None else self._journal.entries()
        opened = opened_ports(entry for entry in entries if entry.can_undo)
        now = str(profile.network.port)
        return tuple(port for port, owner in opened.items() if owner == profile.id and port != now)

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


def opened_ports(entries: Iterable[JournalEntry]) -> dict[str, str]:
    """Id of the profile by port of Windows, from the changes in place, oldest first."""
    opened: dict[str, str] = {}
    for step in (step for entry in entries for step in entry.steps if step.kind == "admin"):
        try:
            action = AdminAction.from_words([str(word) for word in step.data["words"]])
        except (ValueError, KeyError, TypeError):
            continue
        told = dict(action.params)
        if action.task is AdminTask.OPEN_NAT:
            opened[told["port"]] = told["profile"]
        elif action.task is AdminTask.CLOSE_NAT:
            opened.pop(told["port"], None)
    return opened


def _is_address(text: str) -> bool:
    try:
        return not ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address
