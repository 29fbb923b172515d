"""Every row of vLLM's option table, as a file of ours, read by vLLM's own command line.

Several released versions: TWINRIG_VLLM_VERSIONS names them as ``VERSION=FOLDER``, separated by
``:``; a folder holds that version's packages and goes before those of TWINRIG_REAL_VLLM. An empty
folder is the version that is installed there.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from service_fakes import profile
from twinrig import assets
from twinrig.domain.options import Option, OptionKind, SettingValue
from twinrig.domain.profile import EngineRef, ModelRef, Profile
from twinrig.engines.registry import load_engines
from twinrig.engines.vllm_launch import config_text

ENVIRONMENT = os.environ.get("TWINRIG_REAL_VLLM", "")
VERSIONS = dict(
    entry.split("=", 1) for entry in os.environ.get("TWINRIG_VLLM_VERSIONS", "").split(":") if entry
)
pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (ENVIRONMENT and VERSIONS), reason="TWINRIG_VLLM_VERSIONS names no versions"
    ),
]
SCRIPT = Path(__file__).with_name("parsed_by_vllm.py")
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "vocab_size": 100,
}
NEEDS = {"enable_auto_tool_choice": {"tool_call_parser": "hermes"}}
"""What a setting cannot be without; validation of the profile asks for it too."""


def samples(option: Option) -> list[SettingValue]:
    kind = option.kind
    if kind is OptionKind.BOOL:
        return [True, False]
    if kind is OptionKind.INT:
        step = option.multiple_of or 1
        low = max(step, int(option.minimum or 1))
        return [low, low + step]
    if kind is OptionKind.FLOAT:
        return [max(0.5, option.minimum or 0.0)]
    if kind is OptionKind.CHOICE:
        return list(option.choices)
    if kind is OptionKind.LIST:
        return [("1",), ("1", "2")]
    if kind is OptionKind.JSON:
        return ["{}"]
    texts = {"chat_template": "{{ messages }}", "device_ids": "0,1"}
    return [texts.get(option.id, "sample")]


def same(option: Option, asked: SettingValue, understood: object) -> bool:
    """vLLM gives numbers and objects their own types."""
    if option.kind is OptionKind.JSON:
        return understood is not None
    if isinstance(asked, tuple):
        return isinstance(understood, list) and [str(part) for part in understood] == list(asked)
    if isinstance(asked, bool):
        return understood is asked
    if isinstance(understood, list):
        understood = ",".join(map(str, understood))
    return str(understood) == str(asked)


def profile_of(version: str, model: Path, option: Option, value: SettingValue) -> Profile:
    return replace(
        profile(),
        engine=EngineRef("vllm", "", version),
        model=ModelRef(str(model)),
        settings={option.id: value, **NEEDS.get(option.id, {})},
        extra={},
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", list(VERSIONS) or ["none"])
def test_vllm_understands_every_row_as_it_was_meant(version: str, tmp_path: Path) -> None:
    engine = load_engines(assets.read_text)["vllm"]
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(MODEL))
    rows = {option.id: option for option in engine.options(version)}
    asked = [(option, value) for option in rows.values() for value in samples(option)]
    paths = []
    for number, (option, value) in enumerate(asked):
        made = profile_of(version, model, option, value)
        path = tmp_path / f"{number}.yaml"
        path.write_text(config_text(made, rows, version))
        paths.append(str(path))
    done = subprocess.run(
        [f"{ENVIRONMENT}/bin/python", str(SCRIPT), *paths],
        env={**os.environ, "PYTHONPATH": VERSIONS[version]},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert "ANSWERS " in done.stdout, done.stderr[-3000:]
    answers = json.loads(done.stdout.split("ANSWERS ")[1])
    assert len(answers) == len(asked) > 150
    wrong = []
    for (option, value), answer in zip(asked, answers, strict=True):
        understood = answer.get(option.engine_key.replace("-", "_"))
        if "refused" in answer or not same(option, value, understood):
            wrong.append((option.engine_key, value, answer.get("refused", understood)))
    assert wrong == []
    print(f"vLLM {version}: {len(rows)} rows, {len(asked)} files understood")
