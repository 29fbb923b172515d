"""Looking at the target's folders: wildcards, ``~`` and a memory for one look round."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass

from twinrig.domain.errors import HostError
from twinrig.domain.ports import FolderEntry, Host


class FolderView:
    """What the folders of ``host`` hold, each asked once. Unreadable ones read as empty."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._seen: dict[str, tuple[FolderEntry, ...]] = {}
        self._files: dict[str, bytes | None] = {}
        self._asked_folders: list[_Pattern] = []
        self._asked_files: list[_Pattern] = []
        self._home: str | None = None

    async def prefetch(self, folders: Sequence[str], files: Sequence[str] = ()) -> None:
        """Ask for all of these patterns at once, where every question is dear: what they do not
        show is not asked for again. Raises HostError when the target is unreachable."""
        seen = await self._host.glance(
            [_for_shell(pattern) for pattern in folders], [_for_shell(pattern) for pattern in files]
        )
        if seen is None:
            return
        self._home = seen.home.rstrip("/")
        self._seen.update(seen.folders)
        self._files.update(seen.files)
        self._asked_folders += [await self._pattern(pattern) for pattern in folders]
        self._asked_files += [await self._pattern(pattern) for pattern in files]

    async def entries(self, path: str) -> tuple[FolderEntry, ...]:
        """Entries of an absolute folder; empty when missing or unreadable."""
        if path not in self._seen:
            if any(pattern.covers(path) for pattern in self._asked_folders):
                return ()
            try:
                self._seen[path] = await self._host.list_folder(path)
            except HostError:
                self._seen[path] = ()
        return self._seen[path]

    async def home(self) -> str:
        """Without a final slash. Raises HostError when the target is unreachable."""
        if self._home is None:
            self._home = (await self._host.home()).rstrip("/")
        return self._home

    async def expand(self, path: str) -> str:
        """``path`` with a leading ``~`` replaced by the home folder, without a final slash."""
        if path == "~" or path.startswith("~/"):
            path = await self.home() + path[1:]
        return path.rstrip("/") or "/"

    async def matching(self, pattern: str) -> tuple[str, ...]:
        """Folders that match a pattern such as ``~/venvs/*``, by name; hidden only if asked."""
        wanted = await self._pattern(pattern)
        if not wanted.parts:
            return (wanted.base or "/",)
        found = [wanted.base]
        for part in wanted.parts:
            if not _is_wild(part):
                found = [f"{folder}/{part}" for folder in found]
                continue
            deeper: list[str] = []
            for folder in found:
                for entry in await self.entries(folder or "/"):
                    if entry.is_dir and _matches([entry.name], [part]):
                        deeper.append(f"{folder}/{entry.name}")
            found = deeper
        return tuple(found)

    async def _pattern(self, text: str) -> _Pattern:
        base, parts = "", text.strip("/")
        if text == "~" or text.startswith("~/"):
            base, parts = await self.home(), text[1:].strip("/")
        return _Pattern(base, tuple(parts.split("/")) if parts else ())

    async def text(self, path: str, *, limit_bytes: int = 4 * 1024 * 1024) -> str | None:
        """Text of a file, None when missing or unreadable; undecodable bytes are replaced."""
        data = self._files.get(path)
        if data is None:
            known = path not in self._files
            if known and any(pattern.covers(path) for pattern in self._asked_files):
                return None
            try:
                data = await self._host.read_file(path, limit_bytes=limit_bytes)
            except HostError:
                return None
        too_large = data is not None and len(data) > limit_bytes
        return None if data is None or too_large else data.decode("utf-8", "replace")


@dataclass(frozen=True)
class _Pattern:
    """``base`` is taken as it is: a home may look like a pattern itself."""

    base: str
    parts: tuple[str, ...]

    def covers(self, path: str) -> bool:
        """Whether the pattern shows this path, if it is there."""
        if not path.startswith(self.base):
            return False
        names = path.removeprefix(self.base).strip("/")
        return _matches(names.split("/") if names else [], self.parts)


def parents(pattern: str) -> list[str]:
    """The folders that ``matching`` looks into for a pattern."""
    parts = pattern.split("/")
    return ["/".join(parts[:at]) or "/" for at, part in enumerate(parts) if _is_wild(part)]


def _is_wild(part: str) -> bool:
    return any(c in part for c in "*?[")


def _matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Part by part; a leading dot is matched by a dot only."""
    return len(names) == len(parts) and all(
        fnmatch.fnmatchcase(name, part) and (name[:1] != "." or part[:1] == ".")
        for name, part in zip(names, parts, strict=True)
    )


def _for_shell(pattern: str) -> str:
    """A backslash is a letter of a name, not a sign for the shell."""
    return re.sub(r"\\", r"[\\\\]", pattern)
