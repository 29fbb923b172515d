"""Steps that write a file, and put back its exact bytes, mode or absence."""

from __future__ import annotations

import base64
import difflib
import hashlib
from typing import Any

from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.fixes import WriteFileStep
from twinrig.domain.ports import Host
from twinrig.domain.windows import FileStore
from twinrig.messages import message
from twinrig.services.fix_steps import StepPreview
from twinrig.services.journal import AppliedStep

_DEFAULT_MODE = 0o644


class HostFiles:
    """``FileStore`` for the files of the Linux side."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def read_file(self, path: str) -> bytes | None:
        """As the host does."""
        return await self._host.read_file(path)

    async def write_file(
        self,
        path: str,
        data: bytes | None,
        *,
        mode: int = _DEFAULT_MODE,
        root: bool = False,
        expected_sha256: str | None = None,
    ) -> None:
        """As the host does."""
        await self._host.write_file(
            path, data, mode=mode, root=root, expected_sha256=expected_sha256
        )

    async def file_mode(self, path: str) -> int | None:
        """As ``stat`` tells it, links followed."""
        result = await self._host.run(("stat", "-L", "-c", "%a", "--", path), timeout_s=10.0)
        text = result.output.strip()
        is_mode = result.returncode == 0 and text.isdecimal() and set(text) <= set("01234567")
        return int(text, 8) if is_mode else None


class NoWindowsFiles:
    """``FileStore`` where Twinrig does not run on Windows: nothing can be read or changed."""

    async def read_file(self, path: str) -> bytes | None:
        """Raises HostError."""
        raise _no_windows(path)

    async def write_file(
        self,
        path: str,
        data: bytes | None,
        *,
        mode: int = _DEFAULT_MODE,
        root: bool = False,
        expected_sha256: str | None = None,
    ) -> None:
        """Raises HostError."""
        raise _no_windows(path)

    async def file_mode(self, path: str) -> int | None:
        """Raises HostError."""
        raise _no_windows(path)


def _no_windows(path: str) -> HostError:
    return HostError(
        message("{path} lies on Windows, and Twinrig does not run on Windows here.", path=path),
        message("Run Twinrig on Windows, or change the file there yourself."),
    )


class FileSteps:
    """Files of one store. ``kind`` is the name under which the journal knows these steps."""

    def __init__(self, store: FileStore, kind: str = "file") -> None:
        self._store = store
        self._kind = kind

    async def preview(self, step: WriteFileStep) -> StepPreview:
        """A unified diff from the present content."""
        present = await self._store.read_file(step.path)
        if step.content is None:
            title = message("Remove {path}", path=step.path)
        elif present is None:
            title = message("Create {path}", path=step.path)
        else:
            title = message("Change {path}", path=step.path)
        text = _diff(step.path, present, step.data(), step.encoding)
        return StepPreview(title, self._kind, text, step.root)

    async def record(self, step: WriteFileStep) -> AppliedStep:
        """Present bytes and mode. Raises ConflictError when they are not those of the plan."""
        present = await self._store.read_file(step.path)
        if step.expected_sha256 is not None and _sha(present) != step.expected_sha256.lower():
            raise ConflictError(
                message("{path} changed after the preview.", path=step.path),
                message("Look at the preview again."),
            )
        wanted = step.data()
        return AppliedStep(
            self._kind,
            _diff(step.path, present, wanted, step.encoding),
            {
                "path": step.path,
                "root": step.root,
                "before": None if present is None else base64.b64encode(present).decode(),
                "before_sha256": _sha(present),
                "before_mode": None if present is None else await self._store.file_mode(step.path),
                "after_sha256": _sha(wanted),
                "after": step.content,
                "encoding": step.encoding,
            },
        )

    async def apply(self, step: WriteFileStep, record: AppliedStep) -> None:
        """Raises ConflictError when the file changed since it was recorded."""
        await self._store.write_file(
            step.path,
            step.data(),
            mode=step.mode,
            root=step.root,
            expected_sha256=str(record.data["before_sha256"]),
        )

    async def check_revert(self, record: AppliedStep) -> None:
        """Raises ConflictError, with what changed, when the file is not as the fix left it."""
        await self._present_sha(record.data)

    async def revert(self, record: AppliedStep) -> None:
        """Exact bytes and mode, or absence."""
        data = record.data
        present_sha = await self._present_sha(data)
        if present_sha == data["before_sha256"]:
            return
        before = data["before"]
        mode = data["before_mode"]
        await self._store.write_file(
            str(data["path"]),
            None if before is None else base64.b64decode(before),
            mode=_DEFAULT_MODE if mode is None else int(mode),
            root=bool(data["root"]),
            expected_sha256=present_sha,
        )

    async def _present_sha(self, data: Any) -> str:
        path = str(data["path"])
        present = await self._store.read_file(path)
        found = _sha(present)
        if found in (data["before_sha256"], data["after_sha256"]):
            return found
        encoding = str(data.get("encoding", "utf-8"))
        after = None if data["after"] is None else str(data["after"]).encode(encoding)
        raise ConflictError(
            message(
                "{path} was changed after the fix; it is left as it is. Changes since:\n{diff}",
                path=path,
                diff=_diff(path, after, present, encoding),
            ),
            message("Take the change back by hand, or restore what the fix wrote and try again."),
        )


def _sha(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def _diff(path: str, before: bytes | None, after: bytes | None, encoding: str = "utf-8") -> str:
    old, new = _lines(before, encoding), _lines(after, encoding)
    if old is None or new is None:
        return f"--- {path} ({len(before or b'')} bytes)\n+++ {path} ({len(after or b'')} bytes)"
    lines = list(
        difflib.unified_diff(
            old,
            new,
            "/dev/null" if before is None else path,
            "/dev/null" if after is None else path,
            lineterm="",
        )
    )
    return "\n".join(lines)


def _lines(content: bytes | None, encoding: str) -> list[str] | None:
    """Lines of a text, None for a file that is no text."""
    if content is None:
        return []
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.splitlines()
