"""The files that panel and supervisor share, as the panel's side reads and writes them."""

from __future__ import annotations

from pathlib import Path

from twinrig.domain.errors import DamagedFileError, HostError
from twinrig.domain.server import ACTIVE_STATES, ServerState
from twinrig.domain.supervision import DesiredState, ServerRecord, StateLayout
from twinrig.files import FileTooLargeError, read_small, write_atomic
from twinrig.messages import message


class ServerFiles:
    """Records and wishes of one target. An unchanged record is parsed only once."""

    def __init__(self, layout: StateLayout) -> None:
        self._layout = layout
        self._parsed: dict[Path, tuple[tuple[int, int, int], ServerRecord]] = {}

    def record(self, profile_id: str) -> ServerRecord | None:
        """What the supervisor wrote last; None = never ran. Raises DamagedFileError."""
        path = self._layout.state(profile_id)
        try:
            info = path.stat()
            stamp = (info.st_mtime_ns, info.st_size, info.st_ino)
            known = self._parsed.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            record = ServerRecord.from_json(read_small(path), str(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(path, error) from error
        self._parsed[path] = (stamp, record)
        return record

    def desired(self, profile_id: str) -> DesiredState | None:
        """What was asked for last; None = nothing yet. Raises DamagedFileError."""
        path = self._layout.desired(profile_id)
        try:
            return DesiredState.from_json(read_small(path), str(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(path, error) from error

    def request(self, profile_id: str, desired: DesiredState) -> None:
        """Ask for a state; a damaged earlier wish is replaced. Raises HostError."""
        path = self._layout.desired(profile_id)
        try:
            write_atomic(path, desired.to_json().encode())
        except OSError as error:
            raise HostError(
                message(
                    "{path} cannot be written: {reason}.",
                    path=str(path),
                    reason=error.strerror or "",
                ),
                message("Check free space and the permissions of the folder."),
            ) from error

    def latest(self, *, active: bool) -> ServerRecord | None:
        """The newest record in an active state, or else the newest of all that is FAILED."""
        wanted = ACTIVE_STATES if active else frozenset({ServerState.FAILED})
        found = [r for r in self._records() if r.state in wanted]
        return max(found, key=lambda r: r.updated_at_s, default=None)

    def profile_ids(self) -> tuple[str, ...]:
        """Profiles whose server was ever started here, those deleted since too."""
        try:
            return tuple(sorted(p.name for p in (self._layout.root / "servers").iterdir()))
        except OSError:
            return ()

    def _records(self) -> list[ServerRecord]:
        records = []
        for name in self.profile_ids():
            try:
                record = self.record(name)
            except DamagedFileError:
                continue  # told by the status of that profile
            if record is not None:
                records.append(record)
        return records


def _unreadable(path: Path, error: OSError) -> DamagedFileError:
    if isinstance(error, FileTooLargeError):
        return DamagedFileError(
            message("{path} is far too large and was not read.", path=str(path)),
            message("Move the file away to start afresh; it was not changed."),
        )
    return DamagedFileError(
        message("{path} cannot be read: {reason}.", path=str(path), reason=error.strerror or ""),
        message("Check the permissions of the file and its folder."),
    )
