from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fixtures.standard_machine import GPU, TABBY_PROFILE, answer, facts, tabby
from twinrig import assets
from twinrig.domain.checks import Finding
from twinrig.domain.fixes import FixPlan, Guidance, ProfileStep
from twinrig.domain.profile import Profile
from twinrig.engines.registry import load_engines
from twinrig.fixes.planning import NotForThisEngineError, NothingToChangeError
from twinrig.fixes.registry import load_fixes
from twinrig.fixes.tabby_memory import AutosplitReserve, CacheQuant, GpuSplit, LowerCache

FIXES = load_fixes(assets.read_text("advice/fixes.yaml"))
OPTIONS = {o.id: o for o in load_engines(assets.read_text)["tabbyapi"].options()}


def profile(**settings: Any) -> Profile:
    return replace(TABBY_PROFILE, settings=settings)


def changes(fix_id: str, *outputs: Any, **settings: Any) -> dict[str, object]:
    way = FIXES[fix_id].plan(Finding("x"), tabby(*outputs, profile=profile(**settings)))
    assert isinstance(way, FixPlan) and way.needs_restart and not way.needs_root
    (step,) = way.steps
    assert isinstance(step, ProfileStep)
    for name, value in step.settings.items():
        assert OPTIONS[name].check(value)[1] is None, f"{name}={value!r}"
    return dict(step.settings)


@pytest.mark.parametrize(
    ("fix_id", "settings", "expected"),
    [
        ("tabby-disable-tp", {"tensor_parallel": True}, {"tensor_parallel": False}),
        ("tabby-backend-nccl", {}, {"tensor_parallel_backend": "nccl"}),
        ("tabby-malloc-async-false", {}, {"cuda_malloc_async": False}),
        ("tabby-lower-batch", {"max_batch_size": 8}, {"max_batch_size": 4}),
        ("tabby-lower-chunk", {}, {"chunk_size": 1024}),
        ("tabby-lower-chunk", {"chunk_size": 768}, {"chunk_size": 256}),
        ("tabby-cache-quant", {}, {"cache_mode": "8,8"}),
        ("tabby-cache-quant", {"cache_mode": "Q8"}, {"cache_mode": "6,6"}),
        ("tabby-cache-quant", {"cache_mode": "6, 6"}, {"cache_mode": "4,4"}),
        (
            "tabby-lower-cache",
            {"context_length": 16384},
            {"cache_tokens": 8192, "context_length": 8192},
        ),
        (
            "tabby-lower-cache",
            {"context_length": 4096, "cache_tokens": 65536},
            {"cache_tokens": 32768},
        ),
        ("tabby-autosplit-reserve", {}, {"autosplit_reserve": ("512", "512")}),
        (
            "tabby-autosplit-reserve",
            {"autosplit_reserve": ("96", "1024")},
            {"autosplit_reserve": ("2048", "2048")},
        ),
        ("cfg-tp-1", {"tensor_parallel": True}, {"tensor_parallel": False}),
        ("cfg-tp-2", {}, {"tensor_parallel": True}),
    ],
)
def test_each_sets_exactly_what_it_says(
    fix_id: str, settings: dict[str, Any], expected: dict[str, object]
) -> None:
    assert changes(fix_id, **settings) == expected


def test_gpu_split_follows_what_is_free_and_switches_the_automatic_one_off() -> None:
    found = changes("tabby-gpu-split", answer("gpu", GPU))
    assert found == {"gpu_split": ("21.7", "22.5"), "gpu_split_auto": False}


def test_gpu_split_without_figures_is_left_to_the_user() -> None:
    silent = answer("gpu", GPU.replace("812", "[N/A]"))
    way = FIXES["tabby-gpu-split"].plan(Finding("x"), tabby(silent, profile=profile()))
    assert isinstance(way, Guidance)


@pytest.mark.parametrize(
    ("fix", "settings"),
    [
        (CacheQuant(), {"cache_mode": "4,4"}),
        (LowerCache(), {"cache_tokens": 2048}),
        (AutosplitReserve(), {"autosplit_reserve": ("2048", "2048")}),
    ],
)
def test_at_the_end_there_is_nothing_to_change(fix: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(NothingToChangeError):
        fix.plan(Finding("x"), tabby(profile=profile(**settings)))


@pytest.mark.parametrize(
    ("fix_id", "settings"),
    [("tabby-cache-quant", {"cache_mode": "5,3"}), ("tabby-lower-cache", {})],
)
def test_values_of_ones_own_are_left_to_the_user(fix_id: str, settings: dict[str, Any]) -> None:
    way = FIXES[fix_id].plan(Finding("x"), tabby(profile=profile(**settings)))
    assert isinstance(way, Guidance)


@pytest.mark.parametrize("fix", [CacheQuant(), LowerCache(), AutosplitReserve(), GpuSplit()])
def test_not_for_vllm(fix: Any) -> None:
    with pytest.raises(NotForThisEngineError):
        fix.plan(Finding("x"), facts())


def test_port_that_the_server_chose_is_taken_over() -> None:
    way = FIXES["use-actual-port"].plan(
        Finding("tabby-port-fallback", (("wanted", "5000"), ("port", "5001"))), tabby()
    )
    assert isinstance(way, FixPlan)
    (step,) = way.steps
    assert isinstance(step, ProfileStep) and step.fields == {"network.port": 5001}
