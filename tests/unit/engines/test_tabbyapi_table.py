"""The table of tabbyAPI: complete, and in step with the real schema where there is one."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter

import pytest

from twinrig import assets
from twinrig.domain.options import OptionKind
from twinrig.engines.tabbyapi import TabbyApiEngine
from twinrig.engines.tabbyapi_validation import OWN_KEYS, SECRET_KEYS

SIZES = {
    "network": 7,
    "logging": 4,
    "model": 36,
    "draft_model": 10,
    "lora": 2,
    "embeddings": 3,
    "sampling": 1,
    "memory": 3,
    "developer": 6,
}
"""Keys of each section of tabbyAPI e632af4 (2026-08-13)."""

NEWER = {
    "model.cpu_moe_split_experts",
    "model.cpu_moe_threads",
    "model.ngram_ram",
    "model.vision_offload",
}


@pytest.fixture(scope="module")
def tabby() -> TabbyApiEngine:
    return TabbyApiEngine(assets.read_text("engines/tabbyapi.yaml"))


def test_every_key_has_a_row_or_an_owner(tabby: TabbyApiEngine) -> None:
    keys = [option.engine_key for option in tabby.options()]
    assert len(set(keys)) == len(keys)
    config = {key for key in keys if not key.startswith("sampler_overrides.")}
    assert config >= NEWER and not config & (OWN_KEYS | SECRET_KEYS)
    counted = Counter(k.partition(".")[0] for k in (config - NEWER) | OWN_KEYS | SECRET_KEYS)
    assert dict(counted) == SIZES
    assert sum(SIZES.values()) == 72


def test_texts_are_whole_sentences(tabby: TabbyApiEngine) -> None:
    for option in tabby.options():
        assert option.help.endswith("."), option.id
        assert option.label[0].isupper() and not option.label.endswith("."), option.id
        assert len(option.help) <= 130, option.id


def test_numbers_have_limits(tabby: TabbyApiEngine) -> None:
    for option in tabby.options():
        if option.kind in (OptionKind.INT, OptionKind.FLOAT):
            assert option.minimum is not None and option.maximum is not None, option.id


def test_simple_mode_shows_few_options(tabby: TabbyApiEngine) -> None:
    simple = {option.id for option in tabby.options() if not option.expert}
    assert 5 <= len(simple) <= 12 and "context_length" in simple


@pytest.mark.parametrize(
    ("version", "key", "known"),
    [
        ("0.0.40", "draft_mode", False),
        ("0.0.43+cu128.torch2.9.0", "draft_mode", True),
        ("0.0.28", "cuda_malloc_async", False),
        ("0.0.43", "cuda_malloc_async", True),
        ("1.0.0", "sse_ping_interval", True),
        ("0.0.43", "sse_ping_interval", False),
        ("1.4.1", "reasoning_budget_tokens", False),
        ("1.4.2", "cpu_moe_split_experts", False),
        ("", "cpu_moe_split_experts", True),
    ],
)
def test_versions_know_what_they_know(
    tabby: TabbyApiEngine, version: str, key: str, known: bool
) -> None:
    assert (key in {option.id for option in tabby.options(version)}) is known


_ASK = """
import json, sys
from common.config_models import TabbyConfigModel as M
m = M()
print(json.dumps({f"{s}.{k}": getattr(getattr(m, s), k) for s in M.model_fields if s != "config"
                  for k in type(getattr(m, s)).model_fields}))
"""
DIFFERS = {"draft_model.draft_mode", "memory.cuda_malloc_async"}
"""Defaults that changed between versions, so the table leaves them to the engine."""


@pytest.mark.skipif("TABBYAPI_DIR" not in os.environ, reason="TABBYAPI_DIR names no checkout")
def test_the_real_schema_agrees(tabby: TabbyApiEngine) -> None:
    """``TABBYAPI_PYTHON`` is a Python with pydantic, ruamel.yaml and loguru."""
    python = os.environ.get("TABBYAPI_PYTHON", "python3")
    env = {**os.environ, "PYTHONPATH": os.environ["TABBYAPI_DIR"]}
    output = subprocess.run([python, "-c", _ASK], env=env, capture_output=True, check=True).stdout
    real = json.loads(output)
    rows = {option.engine_key: option for option in tabby.options()}
    assert set(real) <= set(rows) | OWN_KEYS | SECRET_KEYS
    for key, default in real.items():
        if key in rows and key not in DIFFERS and default not in (None, [], {}, ""):
            ours = rows[key].default
            shown = [float(v) for v in ours] if key.endswith("reserve") else ours
            shown = list(shown) if isinstance(shown, tuple) else shown
            assert shown == default, key
