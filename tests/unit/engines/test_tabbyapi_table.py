"""The table of tabbyAPI: complete, and in step with the real schema where there is one."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter

import pytest

from twinrig import assets
from twinrig.domain.options import Option, OptionKind, SettingValue
from twinrig.engines.tabbyapi import TabbyApiEngine
from twinrig.engines.tabbyapi_config import NUMBER_LISTS, SAMPLERS, engine_value
from twinrig.engines.tabbyapi_edit import edit_sections
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


_VALIDATE = """
import json, sys
from ruamel.yaml import YAML
from common.config_models import TabbyConfigModel as M
count = 0
for key, text in json.load(sys.stdin):
    data = YAML(typ=["rt", "safe"]).load(text)
    section, name = key.split(".")
    found = M.model_validate(data).model_dump()[section][name]
    asked = data[section][name]
    assert found == asked or str(found).lower() == str(asked).lower(), (key, asked, found)
    count += 1
print(count)
"""


def samples(option: Option) -> list[SettingValue]:
    """Values at the ends of a row, each choice, and free texts that the row names."""
    kind = option.kind
    if kind is OptionKind.BOOL:
        return [True, False]
    if kind is OptionKind.CHOICE:
        return list(option.choices)
    if kind is OptionKind.JSON:
        return [
            '[{"name": "mine", "scaling": 0.5}]'
            if option.id == "loras"
            else '{"enable_thinking": false}'
        ]
    if kind is OptionKind.LIST:
        numbers = option.id in NUMBER_LISTS
        return [("10.5", "11")] if numbers else [("OAI",) if option.id == "api_servers" else ("x",)]
    if kind is OptionKind.TEXT:
        return ["auto", "2.5"] if option.id == "rope_alpha" else ["some text"]
    ends = [option.minimum or 0, option.maximum or 1]
    return [int(end) if kind is OptionKind.INT else float(end) for end in ends]


@pytest.mark.skipif("TABBYAPI_DIR" not in os.environ, reason="TABBYAPI_DIR names no checkout")
def test_the_real_models_take_every_value_of_every_row(tabby: TabbyApiEngine) -> None:
    """Whatever a profile may hold is accepted, with the meaning that was asked."""
    texts = []
    for option in tabby.options():
        if option.engine_key.startswith(f"{SAMPLERS}.") or option.engine_key in NEWER:
            continue
        section, _, key = option.engine_key.partition(".")
        for value in samples(option):
            wanted = {section: {key: engine_value(option, value)}}
            texts.append((option.engine_key, edit_sections("", wanted, "config.yml")))
    python = os.environ.get("TABBYAPI_PYTHON", "python3")
    env = {**os.environ, "PYTHONPATH": os.environ["TABBYAPI_DIR"]}
    done = subprocess.run(
        [python, "-c", _VALIDATE], env=env, input=json.dumps(texts), text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(texts) > 100
