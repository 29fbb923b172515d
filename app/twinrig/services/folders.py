"""Looking at the target's folders: wildcards, ``~`` and a memory for one look round."""

from __future__ import annotations

import fnmatch

from twinrig.domain.errors import HostError
from twinrig.domain.ports import FolderEntry, Host


class FolderView:
    """What the folders of ``host`` hold, each asked once. Unreadable ones read as empty."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._seen: dict[str, tuple[FolderEntry, ...]] = {}
        self._home: str | None = None

    async def entries(self, path: str) -> tuple[FolderEntry, ...]:
        """Entries of an absolute folder; empty when missing or unreadable."""
        if path not in self._seen:
            try:
                self._seen[path] = await self._host.list_folder(path)
            except HostError:
                self._seen[path] = ()
        return self._seen[path]

    async def expand(self, path: str) -> str:
        """``path`` with a leading ``~`` replaced by the home folder, without a final slash."""
        if path == "~" or path.startswith("~/"):
            if self._home is None:
                self._home = (await self._host.home()).rstrip("/")
            path = self._home + path[1:]
        return path.rstrip("/") or "/"

    async def matching(self, pattern: str) -> tuple[str, ...]:
        """Folders that match a pattern such as ``~/venvs/*``, by name; hidden only if asked."""
        parts = (await self.expand(pattern)).strip("/").split("/")
        found = [""]
        for part in parts:
            if not any(c in part for c in "*?["):
                found = [f"{folder}/{part}" for folder in found]
                continue
            deeper: list[str] = []
            for folder in found:
                for entry in await self.entries(folder or "/"):
                    hidden = entry.name.startswith(".") and not part.startswith(".")
                    if entry.is_dir and not hidden and fnmatch.fnmatchcase(entry.name, part):
                        deeper.append(f"{folder}/{entry.name}")
            found = deeper
        return tuple(found)

    async def text(self, path: str, *, limit_bytes: int = 4 * 1024 * 1024) -> str | None:
        """Text of a file, None when missing or unreadable; undecodable bytes are replaced."""
        try:
            data = await self._host.read_file(path, limit_bytes=limit_bytes)
        except HostError:
            return None
        return None if data is None else data.decode("utf-8", "replace")
