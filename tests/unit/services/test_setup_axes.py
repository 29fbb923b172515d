"""What two measured setups differ in: every kind of change that is worth a comparison."""

from __future__ import annotations

import json

import pytest

from fixtures.bench_results import TP, result
from twinrig import assets
from twinrig.engines.registry import load_engines
from twinrig.services.setup_axes import _AXES, Axis, axis_of, change_between, drafting

LOADS = {1: (24, 25, 26)}


def test_every_axis_names_settings_that_an_engine_has() -> None:
    known = {o.id for e in load_engines(assets.read_text).values() for o in e.options()}
    assert {name.partition(".")[2] for name in _AXES} <= known
    assert {axis_of(name) for name in _AXES} == set(Axis) - {Axis.OTHER}


@pytest.mark.parametrize(
    ("name", "off", "on", "axis", "words"),
    [
        ("max_num_seqs", 1, 8, Axis.BATCH, "max_num_seqs = 8"),
        ("max_batch_size", 2, 4, Axis.BATCH, "max_batch_size = 4"),
        ("max_num_batched_tokens", None, 4096, Axis.BATCH, "max_num_batched_tokens = 4096"),
        ("kv_cache_dtype", None, "fp8", Axis.KV, "kv_cache_dtype = fp8"),
        ("cache_mode", "8,8", "4,4", Axis.KV, "cache_mode = 4,4"),
        ("tensor_parallel_size", 1, 2, Axis.SPLIT, "Tensor parallel"),
        ("draft_mode", "disabled", "ngram", Axis.DRAFT, "Speculative decoding (n-gram)"),
        (
            "speculative_config",
            None,
            json.dumps({"method": "qwen3_next_mtp"}),
            Axis.DRAFT,
            "Speculative decoding (MTP)",
        ),
    ],
)
def test_one_change_is_named(name: str, off: object, on: object, axis: Axis, words: str) -> None:
    base = {} if off is None else {f"settings.{name}": off}
    before = result("A", base, LOADS)
    after = result("B", {f"settings.{name}": on}, LOADS)
    for pair in ((before, after), (after, before)):
        change = change_between(*pair)
        assert change is not None
        assert change.axis is axis
        if off is None or axis in (Axis.SPLIT, Axis.DRAFT):
            assert str(change.what) == words
            assert (change.on.profile_name, change.off.profile_name) == ("B", "A")
    assert str(change_between(before, after).what) == words


def test_two_changes_at_once_are_none() -> None:
    one = result("A", {**TP, "settings.max_batch_size": 2}, LOADS)
    other = result("B", {**TP, "settings.max_batch_size": 4, "settings.cache_mode": "4,4"}, LOADS)
    assert change_between(one, other) is None
    assert change_between(one, one) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "7"])
def test_a_draft_that_cannot_be_read_is_none(text: str) -> None:
    assert drafting({"settings.speculative_config": text}) == ""
