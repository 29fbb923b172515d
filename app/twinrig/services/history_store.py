"""Minutes and events in one SQLite file per target: bounded, and whole after a crash.

Every call opens and closes the file: one write a minute needs no connection that stays, and the
calls may come from any thread. SQLite's rollback journal makes each write all or nothing.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from twinrig.domain.errors import DamagedFileError, HostError, NewerSchemaError, TwinrigError
from twinrig.messages import message
from twinrig.services.history import CardPoint, Event, Minute, merged

SCHEMA = 1
KEPT_DAYS = 30
DAY_S = 86400.0
BUSY_TIMEOUT_S = 2.0
_TABLES = """
CREATE TABLE IF NOT EXISTS minutes (
    start_s REAL PRIMARY KEY, seconds REAL NOT NULL, generation_tokens REAL,
    prompt_tokens REAL, kv_cache_usage REAL);
CREATE TABLE IF NOT EXISTS cards (
    start_s REAL NOT NULL, uuid TEXT NOT NULL, load REAL, memory_bytes REAL, power_w REAL,
    temperature_c REAL, PRIMARY KEY (start_s, uuid)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    at_s REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (at_s, kind, text))
    WITHOUT ROWID;
"""


class HistoryStore:
    """``path`` is the file; it is made when first written. All calls block."""

    def __init__(self, path: Path, kept_days: float = KEPT_DAYS) -> None:
        self.path = path
        self._kept_s = kept_days * DAY_S

    def write(self, minutes: Sequence[Minute], events: Sequence[Event]) -> None:
        """Add all or nothing; what is older than the limit leaves.

        A damaged file is moved aside, and a new one begun: DamagedFileError is raised after that,
        with everything written. NewerSchemaError and HostError: nothing was written or changed.
        """
        if not minutes and not events:
            return
        try:
            self._write(minutes, events)
        except NewerSchemaError:  # is a damage to those who cannot read it, but not damaged
            raise
        except DamagedFileError:
            aside = self._move_aside()
            self._write(minutes, events)
            raise DamagedFileError(
                message("The history was damaged; a new one was begun."),
                message("The old file was kept as {path}.", path=str(aside)),
            ) from None

    def minutes(self, since_s: float, until_s: float = 1e18) -> tuple[Minute, ...]:
        """Stored minutes in order of time; empty when there is no file. Raises as ``write``."""
        with self._opened() as base:
            if base is None:
                return ()
            return tuple(_load(base, since_s, until_s))

    def events(self, since_s: float) -> tuple[Event, ...]:
        """Stored events in order of time. Raises as ``write``."""
        with self._opened() as base:
            if base is None:
                return ()
            rows = base.execute(
                "SELECT at_s, kind, text FROM events WHERE at_s >= ? ORDER BY at_s", (since_s,)
            )
            return tuple(Event(float(at), str(kind), str(text)) for at, kind, text in rows)

    def _write(self, minutes: Sequence[Minute], events: Sequence[Event]) -> None:
        self._make_folder()
        with self._opened(create=True) as base:
            if base is None:  # cannot be: it was just made
                return
            with base:
                for minute in minutes:
                    _store(base, minute)
                base.executemany(
                    "INSERT OR IGNORE INTO events VALUES (?, ?, ?)",
                    [(event.at_s, event.kind, event.text) for event in events],
                )
                newest_s = max([m.start_s for m in minutes] + [e.at_s for e in events])
                for table, column in (("minutes", "start_s"), ("cards", "start_s")):
                    base.execute(
                        f"DELETE FROM {table} WHERE {column} < ?", (newest_s - self._kept_s,)
                    )
                base.execute("DELETE FROM events WHERE at_s < ?", (newest_s - self._kept_s,))

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(self.path, error.strerror or "") from error

    @contextlib.contextmanager
    def _opened(self, *, create: bool = False) -> Iterator[sqlite3.Connection | None]:
        if not create and not self.path.exists():
            yield None
            return
        try:
            with contextlib.closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S)) as base:
                self._check_version(base)
                yield base
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def _check_version(self, base: sqlite3.Connection) -> None:
        version = int(base.execute("PRAGMA user_version").fetchone()[0])
        if version > SCHEMA:
            raise NewerSchemaError(
                message("{path} was written by a newer Twinrig.", path=str(self.path)),
                message("Update Twinrig, or move the file away; it was not changed."),
            )
        if version < SCHEMA:
            with base:
                for statement in _TABLES.split(";"):
                    base.execute(statement)
                base.execute(f"PRAGMA user_version = {SCHEMA}")

    def _translated(self, error: sqlite3.Error) -> TwinrigError:
        code = getattr(error, "sqlite_errorcode", None)
        damaged = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        foreign = isinstance(error, sqlite3.OperationalError) and "no such" in str(error)
        if damaged or foreign:
            return DamagedFileError(
                message("{path} is damaged and cannot be read.", path=str(self.path)),
                message("Move the file away to start afresh; it was not changed."),
            )
        return _unusable(self.path, str(error))

    def _move_aside(self) -> Path:
        """Give the damaged file a free name beside its old one."""
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        try:
            self.path.replace(aside)
        except OSError as error:
            raise _unusable(self.path, error.strerror or "") from error
        return aside


def _store(base: sqlite3.Connection, minute: Minute) -> None:
    before = list(_load(base, minute.start_s, minute.start_s))
    whole = merged(before[0], minute) if before else minute
    base.execute(
        "INSERT OR REPLACE INTO minutes VALUES (?, ?, ?, ?, ?)",
        (
            whole.start_s,
            whole.seconds,
            whole.generation_tokens,
            whole.prompt_tokens,
            whole.kv_cache_usage,
        ),
    )
    base.executemany(
        "INSERT OR REPLACE INTO cards VALUES (?, ?, ?, ?, ?, ?)",
        [
            (whole.start_s, c.uuid, c.load, c.memory_bytes, c.power_w, c.temperature_c)
            for c in whole.cards
        ],
    )


def _load(base: sqlite3.Connection, since_s: float, until_s: float) -> Iterator[Minute]:
    span = (since_s, until_s)
    cards: dict[float, list[CardPoint]] = {}
    for start_s, *values in base.execute(
        "SELECT * FROM cards WHERE start_s BETWEEN ? AND ? ORDER BY start_s", span
    ):
        cards.setdefault(start_s, []).append(CardPoint(*values))
    for start_s, seconds, generation, prompt, usage in base.execute(
        "SELECT * FROM minutes WHERE start_s BETWEEN ? AND ? ORDER BY start_s", span
    ).fetchall():
        yield Minute(start_s, seconds, tuple(cards.get(start_s, ())), generation, prompt, usage)


def _unusable(path: Path, reason: str) -> HostError:
    return HostError(
        message("The history {path} cannot be used: {reason}.", path=str(path), reason=reason),
        message("Check free space and the permissions of the folder; the panel works without it."),
    )
