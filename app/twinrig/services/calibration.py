"""What successful starts showed, kept per machine, engine version and model.

The log of a start tells weights and pool; with the share of the card that vLLM was given, what
is left is the overhead that no formula knows. It is stable to 0.01 GiB for the same flags.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from twinrig.domain.gpu import GpuInfo
from twinrig.domain.memory import Measurement
from twinrig.domain.options import SettingValue
from twinrig.files import read_small, write_atomic
from twinrig.messages import Message, message
from twinrig.sizing.start_log import StartFigures

SCHEMA_VERSION = 1
KEPT = 200
_OVERHEAD_SETTINGS = (
    "max_num_batched_tokens",
    "max_num_seqs",
    "enforce_eager",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "speculative_config",
    "language_model_only",
    "limit_mm_per_prompt",
    "max_cudagraph_capture_size",
    "compilation_config",
    "attention_backend",
    "disable_custom_all_reduce",
)
"""Settings on which the overhead depends; a measurement counts for the same ones only."""


def machine_key(gpus: Sequence[GpuInfo]) -> str:
    """Cards by name and size, in order: the same cards give the same key."""
    return "; ".join(f"{gpu.name} {gpu.memory_total_bytes or 0}" for gpu in gpus)


def settings_key(settings: Mapping[str, SettingValue]) -> str:
    """The settings that decide the overhead, as stable text."""
    chosen = {k: settings[k] for k in _OVERHEAD_SETTINGS if k in settings}
    return json.dumps(chosen, sort_keys=True, default=list)


def make_measurement(
    figures: StartFigures, base: Measurement, budget_bytes: int | None
) -> Measurement | None:
    """``base`` with the figures of a start; None when the log told no pool.

    ``budget_bytes`` is the share of the smallest card; without it the overhead stays unknown.
    """
    if figures.pool_bytes is None:
        return None
    overhead = None
    if budget_bytes is not None and figures.weights_bytes is not None:
        left = budget_bytes - figures.weights_bytes - figures.pool_bytes
        overhead = left if left >= 0 else None
    return Measurement(
        machine=base.machine,
        engine_id=base.engine_id,
        engine_version=base.engine_version,
        model=base.model,
        taken_at_s=base.taken_at_s,
        weights_bytes=figures.weights_bytes,
        kv_pool_bytes=figures.pool_bytes,
        overhead_bytes=overhead,
        capacity_tokens=figures.capacity_tokens,
        used_bytes=base.used_bytes,
        settings_key=base.settings_key,
    )


def match(
    measurements: Sequence[Measurement],
    wanted: Measurement,
) -> Measurement | None:
    """The newest measurement of the same machine, engine, model and settings.

    A version "" matches any. Settings that say what the engine does anyway (off, one card) count
    as not set.
    """
    for found in reversed(measurements):
        same = (
            (found.machine, found.engine_id) == (wanted.machine, wanted.engine_id)
            and wanted.engine_version in ("", found.engine_version)
            and found.model.rstrip("/") == wanted.model.rstrip("/")
            and _decisive(found.settings_key) == _decisive(wanted.settings_key)
        )
        if same:
            return found
    return None


def _decisive(key: str) -> dict[str, Any] | str:
    try:
        chosen = json.loads(key)
    except ValueError:
        return key
    if not isinstance(chosen, dict):
        return key
    sizes = ("tensor_parallel_size", "pipeline_parallel_size")
    return {k: v for k, v in chosen.items() if v and not (k in sizes and v == 1)}


class CalibrationStore:
    """Measurements in one JSON file. A damaged file is left alone and told by ``problem``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._problem: Message | None = None

    def problem(self) -> Message | None:
        """Why the file cannot be used, after the last call; None when it can."""
        return self._problem

    def all(self) -> tuple[Measurement, ...]:
        """Newest last; empty when there is no file, or a damaged one."""
        self._problem = None
        try:
            data = json.loads(read_small(self._path))
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RecursionError):
            self._problem = self._damaged()
            return ()
        if not isinstance(data, dict) or not isinstance(data.get("measurements"), list):
            self._problem = self._damaged()
            return ()
        if data.get("schema_version") != SCHEMA_VERSION:
            self._problem = message(
                "{path} was written by another version of Twinrig.", path=str(self._path)
            )
            return ()
        found = [_measurement(entry) for entry in data["measurements"]]
        return tuple(entry for entry in found if entry is not None)

    def find(
        self, machine: str, engine_id: str, version: str, model: str, key: str
    ) -> Measurement | None:
        """The newest measurement of exactly this combination."""
        wanted = (machine, engine_id, version, model, key)
        return next((m for m in reversed(self.all()) if _key(m) == wanted), None)

    def like(self, base: Measurement) -> Measurement | None:
        """The newest measurement of the combination that ``base`` names."""
        return self.find(*_key(base))

    def add(self, measurement: Measurement) -> bool:
        """Store, replacing the one of the same combination. False when it cannot be written."""
        kept = [m for m in self.all() if _key(m) != _key(measurement)]
        if self._problem is not None:
            return False
        entries = [asdict(m) for m in (*kept, measurement)][-KEPT:]
        document = {"schema_version": SCHEMA_VERSION, "measurements": entries}
        try:
            write_atomic(self._path, json.dumps(document, indent=1).encode())
        except OSError as error:
            self._problem = message(
                "{path} cannot be written: {reason}.",
                path=str(self._path),
                reason=error.strerror or "",
            )
            return False
        return True

    def _damaged(self) -> Message:
        return message("The measurements in {path} are damaged.", path=str(self._path))


def _key(found: Measurement) -> tuple[str, str, str, str, str]:
    return found.machine, found.engine_id, found.engine_version, found.model, found.settings_key


_TEXTS = ("machine", "engine_id", "engine_version", "model", "settings_key")
_SIZES = ("weights_bytes", "kv_pool_bytes", "overhead_bytes", "capacity_tokens")


def _measurement(entry: Any) -> Measurement | None:
    """One entry, None when it is not one of ours."""
    if not isinstance(entry, dict):
        return None
    taken, used = entry.get("taken_at_s"), entry.get("used_bytes") or []
    good = (
        all(isinstance(entry.get(name, ""), str) for name in _TEXTS)
        and all(entry.get(name) is None or _whole(entry[name]) for name in _SIZES)
        and isinstance(taken, (int, float))
        and isinstance(used, list)
        and all(_whole(v) for v in used)
    )
    if not good:
        return None
    known = {name: entry[name] for name in (*_TEXTS, *_SIZES) if name in entry}
    defaults: dict[str, Any] = dict.fromkeys(_TEXTS, "")
    return Measurement(
        taken_at_s=float(taken or 0), used_bytes=tuple(used), **{**defaults, **known}
    )


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
