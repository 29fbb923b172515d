"""Results of benchmarks, kept per target in one file and given out as JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinrig.domain.benchmark import (
    FIGURES,
    BenchmarkResult,
    CardUse,
    Figure,
    Load,
    LoadResult,
    Prompt,
    Sampling,
)
from twinrig.files import read_small, write_atomic
from twinrig.messages import Message, message

SCHEMA_VERSION = 1
KEPT = 100
"""Results kept; one takes about 10 KB."""


class BenchmarkStore:
    """Results in one JSON file. A damaged one is left alone and told by ``problem``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._problem: Message | None = None

    def problem(self) -> Message | None:
        """Why the file cannot be used, after the last call; None when it can."""
        return self._problem

    def all(self) -> tuple[BenchmarkResult, ...]:
        """Oldest first; empty when there is no file, or one that cannot be used."""
        self._problem = None
        try:
            document = json.loads(read_small(self._path))
            version, entries = document["schema_version"], document["results"]
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            self._problem = message("The results in {path} are damaged.", path=str(self._path))
            return ()
        if version != SCHEMA_VERSION or not isinstance(entries, list):
            self._problem = message(
                "{path} was written by another version of Twinrig.", path=str(self._path)
            )
            return ()
        found = [result_from_json(entry) for entry in entries]
        return tuple(result for result in found if result is not None)

    def add(self, results: Sequence[BenchmarkResult]) -> bool:
        """Keep results beside the earlier ones. False when they cannot be written."""
        kept = self.all()
        if self._problem is not None:
            return False
        entries = [result_to_json(result) for result in (*kept, *results)][-KEPT:]
        document = {"schema_version": SCHEMA_VERSION, "results": entries}
        try:
            write_atomic(
                self._path,
                json.dumps(document, ensure_ascii=False).encode(),
                keep_previous=True,
            )
        except OSError as error:
            self._problem = message(
                "{path} cannot be written: {reason}.",
                path=str(self._path),
                reason=error.strerror or "",
            )
            return False
        return True


def last_like(results: Sequence[BenchmarkResult], new: BenchmarkResult) -> BenchmarkResult | None:
    """The newest earlier result of the same profile or model on the same machine; the same
    profile comes first."""
    earlier = [
        r
        for r in results
        if r.id != new.id and r.machine == new.machine and r.taken_at_s <= new.taken_at_s
    ]
    same = [r for r in earlier if r.profile_id == new.profile_id and r.group != new.group]
    other = [r for r in earlier if r.model == new.model and r.group != new.group]
    found = same or other
    return found[-1] if found else None


def difference(
    one: BenchmarkResult, other: BenchmarkResult
) -> tuple[tuple[str, object, object], ...]:
    """What differs between two results' setups: name, value of one, of the other (None = not
    set). Engine, version and model stand first."""
    heads = [
        ("engine", one.engine_id, other.engine_id),
        ("engine.version", one.engine_version, other.engine_version),
        ("model.path", one.model, other.model),
    ]
    names = sorted({*one.settings, *other.settings})
    rows = [(n, one.settings.get(n), other.settings.get(n)) for n in names]
    return tuple(row for row in (*heads, *rows) if row[1] != row[2])


def result_to_json(result: BenchmarkResult) -> dict[str, Any]:
    """Plain data, as stored and as given out."""
    data = asdict(result)
    for entry, load in zip(data["loads"], result.loads, strict=True):
        entry["load"] = {
            "streams": load.load.streams,
            "prompt": load.load.prompt.value,
            "sampling": load.load.sampling.value,
        }
        entry["fault"] = None if load.fault is None else load.fault.to_json()
    return data


def result_from_json(data: Any) -> BenchmarkResult | None:
    """Inverse of ``result_to_json``; None for what is none of ours."""
    try:
        texts = {name: str(data[name]) for name in _TEXTS}
        state = data.get("state_bytes_per_slot")
        return BenchmarkResult(
            **texts,
            taken_at_s=_number(data["taken_at_s"]),
            settings=dict(data["settings"]),
            loads=tuple(_load(entry) for entry in data["loads"]),
            visits=int(data.get("visits", 1)),
            demo=bool(data.get("demo")),
            state_bytes_per_slot=None if state is None else int(state),
            card_names=tuple(str(name) for name in data.get("card_names", ())),
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return None


_TEXTS = (
    "id",
    "group",
    "profile_id",
    "profile_name",
    "engine_id",
    "engine_version",
    "model",
    "machine",
    "twinrig_version",
)


def _load(entry: Mapping[str, Any]) -> LoadResult:
    load = entry["load"]
    fault, counted = entry.get("fault"), entry.get("server_generation_tokens")
    return LoadResult(
        Load(int(load["streams"]), Prompt(load["prompt"]), Sampling(load["sampling"])),
        {
            str(name): Figure(
                _number(f["median"]), _number(f["low"]), _number(f["high"]), int(f["count"])
            )
            for name, f in entry["figures"].items()
        },
        requests=int(entry["requests"]),
        failures=int(entry["failures"]),
        loops=int(entry["loops"]),
        disturbed=int(entry["disturbed"]),
        prompt_tokens=int(entry["prompt_tokens"]),
        generation_tokens=int(entry.get("generation_tokens", 0)),
        server_generation_tokens=None if counted is None else int(counted),
        cards=tuple(
            CardUse(
                str(card["name"]),
                _optional(card.get("load")),
                _optional(card.get("power_w")),
                _optional(card.get("memory_bytes")),
            )
            for card in entry.get("cards", ())
        ),
        fault=None if fault is None else Message.from_json(fault),
    )


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("not a finite number")
    return number


def _optional(value: Any) -> float | None:
    return None if value is None else _number(value)


def csv_of(results: Sequence[BenchmarkResult]) -> str:
    """One line per result and load, for spreadsheets: UTC, a point as decimal sign, empty = not
    known. Each figure has its spread beside it; settings stand in one column as JSON."""
    cards = max((len(r.card_names) for r in results), default=0)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    figures = [column for name in FIGURES for column in (name, f"{name}_spread")]
    uses = [
        f"gpu{index}_{name}"
        for index in range(cards)
        for name in ("load_percent", "power_w", "memory_bytes")
    ]
    head = ["time_utc", "profile", "engine", "version", "model", "machine", "demo"]
    load = ["streams", "prompt", "sampling", "prompt_tokens"]
    written = ["generation_tokens", "server_generation_tokens"]
    counts = ["requests", "failures", "loops", "disturbed_rounds"]
    writer.writerow([*head, *load, *written, *figures, *counts, *uses, "settings"])
    for result in results:
        for found in result.loads:
            writer.writerow(_csv_row(result, found, cards))
    return out.getvalue()


def _csv_row(result: BenchmarkResult, found: LoadResult, cards: int) -> list[str]:
    moment = datetime.fromtimestamp(result.taken_at_s, UTC).isoformat(timespec="seconds")
    figures: list[float | None] = []
    for name in FIGURES:
        figure = found.figure(name)
        figures += [None, None] if figure is None else [figure.median, figure.spread]
    uses: list[float | None] = []
    for index in range(cards):
        card = found.cards[index] if index < len(found.cards) else CardUse("")
        uses += [card.load, card.power_w, card.memory_bytes]
    return [
        moment,
        result.profile_id,
        result.engine_id,
        result.engine_version,
        result.model,
        result.machine,
        "1" if result.demo else "0",
        str(found.load.streams),
        found.load.prompt.value,
        found.load.sampling.value,
        str(found.prompt_tokens),
        str(found.generation_tokens),
        _text(found.server_generation_tokens),
        *map(_text, figures),
        *(str(n) for n in (found.requests, found.failures, found.loops, found.disturbed)),
        *map(_text, uses),
        json.dumps(result.settings, ensure_ascii=False, sort_keys=True),
    ]


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")
