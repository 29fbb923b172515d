"""Files of the Windows user that a fix may change: replaced at once, never half written."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.wsl_config import ConfigFile
from twinrig.files import FileTooLargeError, NotAFileError, read_small, write_atomic
from twinrig.messages import message


class WindowsUserFiles:
    """``FileStore`` for files below ``home`` and nowhere else."""

    def __init__(self, home: Path) -> None:
        self._home = home

    @property
    def config_path(self) -> Path:
        """Where WSL looks for ``.wslconfig``."""
        return self._home / ".wslconfig"

    def read_config(self) -> ConfigFile:
        """``.wslconfig`` as it is. Raises HostError when it cannot be read."""
        return ConfigFile.of(str(self.config_path), _read(self.config_path))

    async def read_file(self, path: str) -> bytes | None:
        """Content, None when there is no such file."""
        return await asyncio.to_thread(_read, self._checked(path))

    async def write_file(
        self,
        path: str,
        data: bytes | None,
        *,
        mode: int = 0o644,
        root: bool = False,
        expected_sha256: str | None = None,
    ) -> None:
        """Replace or remove. ``mode`` and ``root`` mean nothing here."""
        await asyncio.to_thread(_write, self._checked(path), data, expected_sha256)

    async def file_mode(self, path: str) -> int | None:
        """Windows has none."""
        return None

    def _checked(self, path: str) -> Path:
        wanted = Path(path)
        if wanted.parent != self._home or ".." in wanted.parts:
            raise HostError(
                message("{path} does not lie in your Windows user folder.", path=path),
                message("Please report this: no fix should ask for it."),
            )
        return wanted


def _read(path: Path) -> bytes | None:
    try:
        return read_small(path)
    except FileNotFoundError:
        return None
    except (FileTooLargeError, NotAFileError, OSError) as error:
        raise HostError(
            message("{path} cannot be read: {reason}.", path=str(path), reason=_reason(error)),
            message("Look at the file and its permissions."),
        ) from error


def _write(path: Path, data: bytes | None, expected_sha256: str | None) -> None:
    if expected_sha256 is not None:
        present = _read(path)
        found = "" if present is None else hashlib.sha256(present).hexdigest()
        if found != expected_sha256.lower():
            raise ConflictError(
                message("{path} changed meanwhile; it is left as it is.", path=str(path)),
                message("Look at the preview again."),
            )
    try:
        if data is None:
            path.unlink(missing_ok=True)
        else:
            write_atomic(path, data)
    except OSError as error:
        raise HostError(
            message("{path} cannot be written: {reason}.", path=str(path), reason=_reason(error)),
            message("Close programs that have the file open, then try again."),
        ) from error


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
