"""Files of the simulated machine: a folder of ours that stands for its whole file system."""

from __future__ import annotations

import hashlib
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.ports import FolderEntry
from twinrig.files import write_atomic
from twinrig.hosts.demo.models import MODELS, MODELS_FOLDER, told_size_bytes
from twinrig.messages import message

HOME = "/home/demo"
VENV = "/home/demo/venvs/demo"
PTRACE_KEY = "kernel.yama.ptrace_scope"
PTRACE_FILE = "/proc/sys/kernel/yama/ptrace_scope"
PTRACE_AT_FIRST = "1"
RIG_VERSION = "1"
MAX_HEADER_FILE_BYTES = 4 * 1024 * 1024
_OWN_PLACES = (HOME, "/tmp")
_UNUSABLE = re.compile(r'[\x00-\x1f<>:"|?*\\]|[. ]$')


@dataclass(frozen=True)
class RigFiles:
    """``root`` is the folder. Paths are Linux paths of the simulated machine; blocking."""

    root: Path

    def prepare(self) -> None:
        """Lay out the machine if it is not there yet. Settings that were changed stay.

        Raises HostError when the folder cannot be written.
        """
        marker = self.root / ".rig-version"
        try:
            if marker.is_file() and marker.read_text(encoding="utf-8") == RIG_VERSION:
                return
            for model in MODELS.values():
                for name, data in model.files().items():
                    write_atomic(self._real(f"{MODELS_FOLDER}/{model.name}/{name}"), data)
            self._lay(PTRACE_FILE, f"{PTRACE_AT_FIRST}\n".encode())
            self._lay(f"{VENV}/pyvenv.cfg", b"home = /usr/bin\nversion = 3.12.3\n")
            self._lay("/etc/os-release", b'PRETTY_NAME="Ubuntu 24.04.3 LTS"\n')
            (self.root / "tmp").mkdir(exist_ok=True)
            write_atomic(marker, RIG_VERSION.encode())
        except OSError as error:
            raise _unwritable(str(self.root), error) from error

    def read(self, path: str, limit_bytes: int) -> bytes | None:
        """Content, None when there is no such file. Raises HostError when unreadable."""
        real = self._real(path)
        try:
            with real.open("rb") as handle:
                data = handle.read(limit_bytes + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise HostError(
                message(
                    "{path} cannot be read: {reason}.", path=path, reason=error.strerror or "?"
                ),
                message("Check that it is a file, not a folder."),
            ) from error
        if len(data) > limit_bytes:
            raise HostError(
                message("{path} is larger than {limit} bytes.", path=path, limit=limit_bytes),
                message("Check whether this is the right file; it was not read."),
            )
        return data

    def write(
        self, path: str, data: bytes | None, mode: int, root: bool, expected_sha256: str | None
    ) -> None:
        """Atomic replace, None removes; ``expected_sha256`` as in ``Host.write_file``."""
        real = self._real(path)
        if not root and not _below(posixpath.normpath(path), _OWN_PLACES):
            raise HostError(
                message("{path} cannot be written: {reason}.", path=path, reason="not permitted"),
                message("Only root may change this file."),
            )
        present = self.read(path, MAX_HEADER_FILE_BYTES)
        found = "" if present is None else hashlib.sha256(present).hexdigest()
        if expected_sha256 is not None and found != expected_sha256.lower():
            raise ConflictError(
                message("{path} was changed meanwhile; nothing was written.", path=path),
                message("Look at the file, then plan the change again."),
            )
        try:
            if data is None:
                real.unlink(missing_ok=True)
            else:
                write_atomic(real, data, mode=mode)
        except OSError as error:
            raise _unwritable(path, error) from error

    def entries(self, path: str) -> tuple[FolderEntry, ...]:
        """Entries by name; weights have the size that their header tells."""
        real = self._real(path)
        try:
            found = sorted(real.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise HostError(
                message(
                    "{path} cannot be read: {reason}.", path=path, reason=error.strerror or "?"
                ),
                message("Check the permissions of this folder."),
            ) from error
        hidden = real == self.root
        return tuple(
            FolderEntry(entry.name, entry.is_dir(), None if entry.is_dir() else _size_bytes(entry))
            for entry in found
            if not (hidden and entry.name.startswith("."))
        )

    def is_folder(self, path: str) -> bool:
        """Whether the simulated machine has this folder."""
        return self._real(path).is_dir()

    @property
    def ptrace_scope(self) -> str:
        """Present value of the kernel setting; "" when the file is gone or damaged."""
        data = self.read(PTRACE_FILE, 64) or b""
        return data.decode("ascii", "replace").strip()

    def set_ptrace_scope(self, value: str) -> None:
        """As root would by sysctl."""
        self.write(PTRACE_FILE, f"{value}\n".encode(), 0o644, True, None)

    def _lay(self, path: str, data: bytes) -> None:
        real = self._real(path)
        if not real.exists():
            write_atomic(real, data)

    def _real(self, path: str) -> Path:
        """Where a path is kept; nothing leads out of the folder, links neither."""
        expanded = HOME + path[1:] if path == "~" or path.startswith("~/") else path
        normal = posixpath.normpath(expanded)
        parts = [part for part in normal.split("/") if part]
        if not expanded.startswith("/") or any(_UNUSABLE.search(part) for part in parts):
            raise HostError(
                message("{path} is not a path of the demo rig.", path=path),
                message("Use an absolute path such as {example}.", example=MODELS_FOLDER),
            )
        real = self.root.joinpath(*parts)
        if not real.resolve().is_relative_to(self.root.resolve()):
            raise HostError(
                message("{path} leads out of the demo rig.", path=path),
                message("Remove the link from the folder of the demo rig."),
            )
        return real


def _below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(place + "/") for place in places)


def _size_bytes(path: Path) -> int | None:
    try:
        size = path.stat().st_size
        if path.suffix == ".safetensors" and size <= MAX_HEADER_FILE_BYTES:
            return told_size_bytes(path.read_bytes()) or size
        return size
    except OSError:
        return None


def _unwritable(path: str, error: OSError) -> HostError:
    return HostError(
        message("{path} cannot be written: {reason}.", path=path, reason=error.strerror or "?"),
        message("Check the permissions and the free space, then try again."),
    )
