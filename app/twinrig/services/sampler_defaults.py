"""Sampling values that a model's makers recommend, from its ``generation_config.json``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from twinrig.domain.errors import TwinrigError
from twinrig.domain.ports import Host
from twinrig.messages import N_

FILE = "generation_config.json"
MAX_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Sampler:
    """One sampling value. ``key`` is the name in requests and in the file; ``neutral`` changes
    nothing. ``label`` and ``help`` are marked sentences."""

    key: str
    label: str
    help: str
    minimum: float
    maximum: float
    neutral: float
    whole: bool = False


SAMPLERS: tuple[Sampler, ...] = (
    Sampler(
        "temperature",
        N_("Temperature"),
        N_("How freely words are chosen: 0 always takes the likeliest, 1 follows the model."),
        0.0,
        2.0,
        1.0,
    ),
    Sampler(
        "top_k",
        N_("Top-k"),
        N_("Choose among so many of the likeliest words; 0 = all."),
        0,
        1000,
        0,
        whole=True,
    ),
    Sampler(
        "top_p",
        N_("Top-p"),
        N_("Choose among the likeliest words that together have this probability; 1 = all."),
        0.01,
        1.0,
        1.0,
    ),
    Sampler(
        "min_p",
        N_("Min-p"),
        N_("Leave out words that are less likely than this share of the likeliest; 0 = none."),
        0.0,
        1.0,
        0.0,
    ),
    Sampler(
        "repetition_penalty",
        N_("Repetition penalty"),
        N_("Above 1, words that were used already become less likely."),
        0.5,
        2.0,
        1.0,
    ),
)


async def read_samplers(host: Host, model_folder: str) -> Mapping[str, float]:
    """Values by key; empty when the model brings none, or the file cannot be used."""
    folder = model_folder.rstrip("/")
    try:
        if folder == "~" or folder.startswith("~/"):
            folder = (await host.home()).rstrip("/") + folder[1:]
        data = await host.read_file(f"{folder}/{FILE}", limit_bytes=MAX_BYTES)
    except TwinrigError:
        return {}
    return {} if data is None else parse_samplers(data)


def parse_samplers(data: bytes) -> Mapping[str, float]:
    """Values within their range; what is damaged or out of range is left out.

    ``do_sample: false`` is the model's wish for greedy replies: temperature 0.
    """
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(values, dict):
        return {}
    found = {s.key: values[s.key] for s in SAMPLERS if _fits(s, values.get(s.key))}
    if values.get("do_sample") is False:
        found["temperature"] = 0.0
    return found


def request_options(values: Mapping[str, float]) -> dict[str, object]:
    """Values as a request carries them. All are told, those that change nothing too: a server
    would put its own default in the place of one that is missing."""
    return {
        sampler.key: int(values[sampler.key]) if sampler.whole else float(values[sampler.key])
        for sampler in SAMPLERS
        if sampler.key in values
    }


def _fits(sampler: Sampler, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and sampler.minimum <= value <= sampler.maximum
