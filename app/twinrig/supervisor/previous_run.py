"""What an earlier supervisor left behind in ``state.json``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from twinrig.domain.errors import DamagedFileError
from twinrig.domain.supervision import ServerRecord
from twinrig.files import FileTooLargeError, NotAFileError, read_small

SAME_BOOT_S = 60.0
"""A clock that is corrected moves the time of the same boot by less than that."""
_RUN_ID = re.compile(rb'"run_id"\s*:\s*"([A-Za-z0-9_.-]{1,100})"')


@dataclass(frozen=True)
class PreviousRun:
    """Run to sweep ("" = none known), and what had to be moved aside (None = nothing).

    ``request_id`` is the wish that it carried out, ``boot_at_s`` when its computer had started.
    """

    run_id: str = ""
    shared_memory: tuple[str, ...] = ()
    moved_to: Path | None = None
    request_id: str = ""
    boot_at_s: float | None = None

    def back_after_reboot(self, request_id: str, boot_at_s: float | None) -> bool:
        """Whether the computer was restarted since, and nobody has wished anything new."""
        if not self.request_id or request_id != self.request_id:
            return False
        if self.boot_at_s is None or boot_at_s is None:
            return False
        return boot_at_s - self.boot_at_s > SAME_BOOT_S


def load_previous(path: Path, now_s: float) -> PreviousRun:
    """Read the record; one that is damaged, or newer than this program, is kept aside.

    The run id is fished out of a damaged file, since its processes may still hold the cards.
    Raises OSError when the file can neither be read nor moved.
    """
    try:
        record = ServerRecord.from_json(read_small(path), str(path))
        return PreviousRun(
            record.run_id,
            record.shared_memory,
            request_id=record.request_id,
            boot_at_s=record.boot_at_s,
        )
    except FileNotFoundError:
        return PreviousRun()
    except (DamagedFileError, FileTooLargeError, IsADirectoryError, NotAFileError):
        found = _RUN_ID.search(_beginning(path))
        aside = _free_name(path, int(now_s))
        path.rename(aside)
        return PreviousRun(found.group(1).decode() if found else "", (), aside)


def _beginning(path: Path) -> bytes:
    if not path.is_file():
        return b""
    try:
        with path.open("rb") as handle:
            return handle.read(1 << 20)
    except OSError:
        return b""


def _free_name(path: Path, now_s: int) -> Path:
    candidate = path.with_name(f"{path.name}.damaged-{now_s}")
    number = 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}.damaged-{now_s}-{number}")
    return candidate
