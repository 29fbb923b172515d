"""Looks for models on a hub and downloads them, from the Linux side and onto it.

The work is done there by a small program of ours on that side's own Python, which lets its
``huggingface_hub`` fetch large files where it is installed. A token travels in a file of mode
0600 that the program removes at once, never on a command line.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import yaml

from twinrig.domain.errors import HostError, TwinrigError, UsageError
from twinrig.domain.ports import Host, Script, SecretStore
from twinrig.engines.base import Engine
from twinrig.messages import message
from twinrig.services.hub_words import TOKEN_NAME, hub_fault
from twinrig.services.installs import EngineFinder

PROGRAM = "hub/hub.py"
TABLE = "hub/hub.yaml"
SEARCH_LIMIT = 30
_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[\w][\w./-]{0,127}")


@dataclass(frozen=True)
class HubTable:
    """Where and what to look for; see ``resources/hub/hub.yaml``."""

    endpoint: str
    folder: str
    filters: Mapping[str, tuple[str, ...]]
    skip: tuple[str, ...]


@dataclass(frozen=True)
class ModelName:
    """``OWNER/NAME`` and a branch, tag or commit."""

    repo: str
    revision: str = "main"

    def __str__(self) -> str:
        return self.repo if self.revision == "main" else f"{self.repo}@{self.revision}"


@dataclass(frozen=True)
class HubModel:
    """One hit of a search; ``gated``: its owner wants the terms to be accepted first."""

    name: ModelName
    downloads: int
    gated: bool
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class HubLook:
    """What a download would bring. ``problem`` says why it could not be looked at; without
    ``weights_bytes`` there is nothing to load, perhaps because sizes lie in ``branches``."""

    name: ModelName
    size_bytes: int = 0
    weights_bytes: int = 0
    config: Mapping[str, Any] | None = None
    branches: tuple[str, ...] = ()
    problem: TwinrigError | None = None


@dataclass(frozen=True)
class DownloadProgress:
    """Bytes of all files together; ``waiting_s`` while the hub asked for patience."""

    done_bytes: int
    total_bytes: int
    file: str = ""
    waiting_s: float = 0.0


def parse_table(text: str) -> HubTable:
    """The table as it is shipped."""
    data = yaml.safe_load(text)
    return HubTable(
        str(data["endpoint"]),
        str(data["folder"]),
        {str(k): tuple(str(t) for t in v) for k, v in data["filters"].items()},
        tuple(str(pattern) for pattern in data["skip"]),
    )


def parse_name(text: str) -> ModelName:
    """``OWNER/NAME`` or ``OWNER/NAME@BRANCH``; a page's address too. Raises UsageError."""
    words = re.sub(r"^https?://[^/]+/", "", text.strip())
    words = re.sub(r"/tree/([^/?#]+).*$", r"@\1", words)
    repo, _, revision = words.partition("@")
    repo = repo.rstrip("/")
    if not _REPO.fullmatch(repo) or (revision and not _REVISION.fullmatch(revision)):
        raise UsageError(
            message("{text} is no name of a model.", text=text),
            message("Names look like OWNER/NAME or OWNER/NAME@BRANCH."),
        )
    return ModelName(repo, revision or "main")


class Hub:
    """``python`` names an interpreter of the target, where there is one with huggingface_hub."""

    def __init__(
        self,
        host: Host,
        secrets_store: SecretStore,
        table: HubTable,
        program: str,
        python: Callable[[], Awaitable[str]],
        endpoint: str = "",
    ) -> None:
        self._host = host
        self._secrets = secrets_store
        self.table = table
        self.endpoint = (endpoint or table.endpoint).rstrip("/")
        self._program = program
        self._python = python

    async def search(self, text: str, engine_id: str = "") -> tuple[HubModel, ...]:
        """Hits by downloads, most first; with an engine those that it can load.

        Raises UsageError, HostError.
        """
        filters = self.table.filters.get(engine_id, ()) if engine_id else ()
        found: dict[str, HubModel] = {}
        for tag in filters or ("",):
            request = {
                "command": "search",
                "text": text,
                "limit": SEARCH_LIMIT,
                "filters": [tag] if tag else ["safetensors"],
            }
            async with aclosing(self._events(request)) as events:
                async for event in events:
                    for row in event.get("models", ()):
                        found.setdefault(row["id"], _model(row))
        hits = (m for m in found.values() if _REPO.fullmatch(m.name.repo))
        return tuple(sorted(hits, key=lambda m: (-m.downloads, m.name.repo))[:SEARCH_LIMIT])

    async def look(self, names: Sequence[ModelName]) -> AsyncGenerator[HubLook, None]:
        """Size and configuration of each, as they come."""
        repos = [{"repo": n.repo, "revision": n.revision} for n in names]
        async with aclosing(self._events({"command": "look", "repos": repos})) as events:
            async for event in events:
                if event["event"] in ("look", "unseen"):
                    yield self._look(event)

    async def download(
        self, name: ModelName, tell: Callable[[DownloadProgress], object], folder: str = ""
    ) -> str:
        """Folder of the whole, verified model. What an earlier try has left is gone on with.

        Raises UsageError, ConflictError, HostError. When cancelled, what is there is kept in
        ``FOLDER.partial``.
        """
        request = {
            "command": "download",
            "repo": name.repo,
            "revision": name.revision,
            "target": await self.target(name, folder),
        }
        last, saved = DownloadProgress(0, 0), ""
        async with aclosing(self._events(request)) as events:
            async for event in events:
                saved = str(event["path"]) if event["event"] == "saved" else saved
                progress = _progress(event, last)
                if progress is not None:
                    last = progress
                    tell(last)
        return saved

    async def target(self, name: ModelName, folder: str = "") -> str:
        """Where a model would lie: ``FOLDER/OWNER/NAME``, the branch behind it."""
        place = (folder.strip() or self.table.folder).rstrip("/")
        if place == "~" or place.startswith("~/"):
            place = (await self._host.home()).rstrip("/") + place[1:]
        if not place.startswith("/"):
            raise UsageError(
                message("{path} is not a full path.", path=place),
                message("Give the full path of a folder of the Linux side."),
            )
        branch = "" if name.revision == "main" else "-" + re.sub(r"[^\w.]", "-", name.revision)
        return f"{place}/{name.repo}{branch}"

    def _look(self, event: Mapping[str, Any]) -> HubLook:
        name = ModelName(str(event["repo"]), str(event["revision"]))
        if event["event"] == "unseen":
            return HubLook(
                name, problem=hub_fault(event["kind"], {"what": str(name)}, self.endpoint)
            )
        config = event.get("config")
        branches = tuple(str(b) for b in event.get("branches") or ())
        problem = None
        if not event["weights"]:
            problem = hub_fault("no-weights", {"what": name.repo, "branches": branches}, "")
        return HubLook(
            name,
            int(event["size"]),
            int(event["weights"]),
            config if isinstance(config, dict) else None,
            branches,
            problem,
        )

    async def _events(self, request: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        if self._host.demo:
            raise UsageError(
                message("The demo rig has no network; its models are there already."),
                message("Use --target local to look for real ones."),
            )
        home = (await self._host.home()).rstrip("/")
        path = f"{home}/.cache/twinrig/hub-{secrets.token_hex(8)}.json"
        asked = {
            **request,
            "endpoint": self.endpoint,
            "skip": list(self.table.skip),
            "token": await self._secrets.get(TOKEN_NAME) or "",
        }
        await self._host.write_file(path, json.dumps(asked).encode(), mode=0o600)
        ended = False
        said: list[str] = []
        try:
            async with aclosing(self._lines(path, said)) as lines:
                async for event in lines:
                    if event["event"] == "failed":
                        raise hub_fault(str(event["kind"]), event, self.endpoint)
                    ended = ended or event["event"] == "done"
                    yield event
        finally:
            await self._host.write_file(path, None)
        if not ended:
            raise HostError(
                message("The search or download ended early: {line}", line=(said or ["-"])[-1]),
                message("Check that Python 3 is installed on the Linux side, then try again."),
            )

    async def _lines(self, path: str, said: list[str]) -> AsyncGenerator[dict[str, Any], None]:
        text = f'exec "$1" -I -u -B - "$2" <<\'TWINRIG_HUB\'\n{self._program}\nTWINRIG_HUB'
        script = Script("hub", text, (await self._python(), path))
        rest = b""
        async with aclosing(self._host.stream(script)) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = _event(line)
                    if event is None:
                        said.append(line.decode("utf-8", "replace").strip())
                    else:
                        yield event


async def engine_python(finder: EngineFinder, engines: Mapping[str, Engine]) -> str:
    """The Python of an installed engine, which brings huggingface_hub; else the system's own."""
    for engine_id in engines:
        for install in await finder.find(engine_id):
            if install.executable:
                return f"{install.environment}/bin/python"
    return "python3"


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def _progress(event: Mapping[str, Any], last: DownloadProgress) -> DownloadProgress | None:
    if event["event"] == "begun":
        return DownloadProgress(int(event["here"]), int(event["total"]))
    if event["event"] == "progress":
        return DownloadProgress(int(event["done"]), int(event["total"]), str(event["file"]))
    if event["event"] == "waiting":
        return replace(last, waiting_s=float(event["seconds"]))
    return None


def _model(row: Mapping[str, Any]) -> HubModel:
    return HubModel(
        ModelName(str(row["id"])),
        int(row.get("downloads") or 0),
        bool(row.get("gated")),
        tuple(str(tag) for tag in row.get("tags") or ()),
    )
