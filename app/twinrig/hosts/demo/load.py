"""What the demo server tells the simulated cards: a small file, replaced a few times a second."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

LOAD_FILE = "demo-load.json"
STALE_AFTER_S = 3.0
MAX_BYTES = 16 * 1024


@dataclass(frozen=True)
class DemoLoad:
    """Load of both cards over the last moments. ``busy_percent`` is the mean of each card.

    ``alternating`` marks a layer split; ``busy_s`` is how long the present load has lasted.
    ``pid``, ``run_id`` and ``port`` tell which server it is.
    """

    at_s: float
    pid: int
    used_bytes: tuple[int, int]
    busy_percent: tuple[float, float]
    alternating: bool = False
    busy_s: float = 0.0
    run_id: str = ""
    port: int = 0


def write_load(path: Path, load: DemoLoad) -> None:
    """Replace the file so that readers see a whole one. No fsync: it is worthless tomorrow.

    A reader that holds the file (Windows) or a folder that went away costs this one update.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(asdict(load)), encoding="utf-8")
        temporary.replace(path)


def remove_load(path: Path) -> None:
    """The cards are idle from now on."""
    with contextlib.suppress(OSError):
        path.unlink()


def read_load(path: Path) -> DemoLoad | None:
    """The load, or None for a file that is absent, damaged or too large."""
    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            return None
        values = json.loads(data)
        used, busy = values["used_bytes"], values["busy_percent"]
        return DemoLoad(
            at_s=float(values["at_s"]),
            pid=int(values["pid"]),
            used_bytes=(int(used[0]), int(used[1])),
            busy_percent=(_percent(busy[0]), _percent(busy[1])),
            alternating=bool(values["alternating"]),
            busy_s=float(values["busy_s"]),
            run_id=str(values["run_id"]),
            port=int(values["port"]),
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError):
        return None


def load_files(state_root: Path) -> list[Path]:
    """Load files of all servers of a target, in their folder or in a run folder below it."""
    servers = state_root / "servers"
    return [*servers.glob(f"*/{LOAD_FILE}"), *servers.glob(f"*/*/{LOAD_FILE}")]


def newest_load(paths: Iterable[Path], now_s: float) -> DemoLoad | None:
    """The newest load that is fresh; a clock that ran ahead a little is forgiven."""
    loads = [load for path in paths if (load := read_load(path)) is not None]
    fresh = [load for load in loads if -STALE_AFTER_S <= now_s - load.at_s <= STALE_AFTER_S]
    return max(fresh, key=lambda load: load.at_s, default=None)


def _percent(value: object) -> float:
    if not isinstance(value, (int, float)):
        raise TypeError("not a number")
    return min(100.0, max(0.0, float(value)))
