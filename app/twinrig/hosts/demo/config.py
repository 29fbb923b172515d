"""Configuration of the demo server: one JSON object, every field checked, all faults at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from twinrig.domain.errors import FieldError, ProfileError
from twinrig.files import read_small
from twinrig.hosts.demo.models import LARGE, MODELS_FOLDER
from twinrig.messages import message

FAULTS = ("none", "crash", "oom", "hang", "port_taken", "ignore_term")
KEY_VARIABLE = "TWINRIG_DEMO_API_KEY"


@dataclass(frozen=True)
class DemoConfig:
    """Settings of one demo server.

    ``load_scale`` multiplies the load time of about 8 s, ``speed_scale`` the tokens per second.
    ``load_file`` is where the load of the cards is published ("" = nowhere). ``fault`` happens
    ``fault_after_s`` after the server is ready, or during the load where its name says so.
    """

    host: str = "127.0.0.1"
    port: int = 18080
    model_path: str = f"{MODELS_FOLDER}/{LARGE.name}"
    served_name: str = LARGE.name
    context_length: int = 32768
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    kv_cache_dtype: str = "auto"
    gpu_memory_utilization: float = 0.88
    max_num_seqs: int = 8
    load_scale: float = 1.0
    speed_scale: float = 1.0
    fault: str = "none"
    fault_after_s: float = 20.0
    load_file: str = ""
    seed: int = 5070

    @property
    def card_count(self) -> int:
        """Cards that hold a part of the model."""
        return self.tensor_parallel_size * self.pipeline_parallel_size


_RANGES: Mapping[str, tuple[float, float]] = {
    "port": (1, 65535),
    "context_length": (1, 16_777_216),
    "tensor_parallel_size": (1, 2),
    "pipeline_parallel_size": (1, 2),
    "gpu_memory_utilization": (0.05, 1.0),
    "max_num_seqs": (1, 4096),
    "load_scale": (0.0, 100),
    "speed_scale": (0.01, 1000),
    "fault_after_s": (0.0, 86400),
    "seed": (0, 2**31),
}


def load_config(path: str | None) -> DemoConfig:
    """Read the file; None gives a server on both cards. Raises ProfileError or OSError."""
    if path is None:
        return DemoConfig(tensor_parallel_size=2)
    return parse_config(read_small(Path(path)), path)


def parse_config(data: str | bytes, source: str) -> DemoConfig:
    """Raises ProfileError that lists every fault; unknown keys are faults too."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProfileError(source, [FieldError("", message("is not JSON"))]) from error
    if not isinstance(values, dict):
        raise ProfileError(source, [FieldError("", message("is not a JSON object"))])
    errors = [*_field_errors(values), *_choice_errors(values)]
    if errors:
        raise ProfileError(source, errors)
    return DemoConfig(**values)


def _field_errors(values: Mapping[str, Any]) -> list[FieldError]:
    kinds = {f.name: type(getattr(DemoConfig(), f.name)) for f in fields(DemoConfig)}
    errors = []
    for name, value in values.items():
        kind = kinds.get(name)
        if kind is None:
            errors.append(FieldError(name, message("is not known")))
        elif not _fits(kind, value):
            errors.append(FieldError(name, message("has the wrong type: {v}", v=repr(value))))
        elif name in _RANGES and not _RANGES[name][0] <= value <= _RANGES[name][1]:
            low, high = _RANGES[name]
            errors.append(
                FieldError(name, message("must be from {low} to {high}", low=low, high=high))
            )
    return errors


def _choice_errors(values: Mapping[str, Any]) -> list[FieldError]:
    errors = []
    if values.get("fault", "none") not in FAULTS:
        errors.append(
            FieldError("fault", message("must be one of {choices}", choices=", ".join(FAULTS)))
        )
    sizes = [values.get(f"{kind}_parallel_size", 1) for kind in ("tensor", "pipeline")]
    if all(size == 2 for size in sizes):
        errors.append(
            FieldError(
                "pipeline_parallel_size",
                message("tensor and pipeline parallel together need 4 cards; the demo rig has 2"),
            )
        )
    return errors


def _fits(kind: type, value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float)) if kind is float else isinstance(value, kind)
