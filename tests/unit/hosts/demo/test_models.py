"""The rig's models: whole for every reader, tiny on disk."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.hosts.demo.models import (
    LARGE,
    MODELS,
    MODELS_FOLDER,
    SMALL,
    DemoModel,
    header_end,
    model_at,
    told_size_bytes,
)

GIB = 1024**3


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_index_headers_and_total_agree(model: DemoModel) -> None:
    files = model.files()
    index = json.loads(files["model.safetensors.index.json"])
    total, seen = 0, {}
    for name, data in files.items():
        if not name.endswith(".safetensors"):
            continue
        length = int.from_bytes(data[:8], "little")
        assert len(data) == 8 + length
        assert length % 8 == 0
        header = json.loads(data[8:])
        header.pop("__metadata__")
        offset = 0
        for tensor, entry in header.items():
            start, end = entry["data_offsets"]
            assert start == offset
            size = {"F16": 2, "I32": 4}[entry["dtype"]]
            assert end - start == math.prod(entry["shape"]) * size
            offset = end
            seen[tensor] = name
        assert header_end(data) == offset
        assert told_size_bytes(data) == len(data) + offset
        total += offset
    assert index["weight_map"] == seen
    assert index["metadata"]["total_size"] == total == model.weights_bytes
    assert len(set(seen.values())) == model.shard_count


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_config_tells_the_shapes(model: DemoModel) -> None:
    config = json.loads(model.files()["config.json"])
    assert config["num_attention_heads"] % 2 == 0
    assert config["num_hidden_layers"] == model.layers
    assert config["quantization_config"]["bits"] == 4
    assert config["max_position_embeddings"] == model.max_position


def test_sizes_are_those_of_such_models_and_disk_use_is_not() -> None:
    assert LARGE.weights_bytes / GIB == pytest.approx(13.26, abs=0.01)
    assert SMALL.weights_bytes / GIB == pytest.approx(5.68, abs=0.01)
    assert LARGE.kv_bytes_per_token == 160 * 1024
    for model in MODELS.values():
        assert sum(map(len, model.files().values())) < 300_000


def test_files_are_the_same_each_time() -> None:
    assert LARGE.files() == LARGE.files()


@pytest.mark.parametrize(
    ("path", "model"),
    [
        (f"{MODELS_FOLDER}/Demo-24B-AWQ", LARGE),
        (f"{MODELS_FOLDER}/Demo-8B-AWQ/", SMALL),
        ("/elsewhere/Demo-8B-AWQ", None),
        (f"{MODELS_FOLDER}/Other", None),
        ("", None),
    ],
)
def test_model_at(path: str, model: DemoModel | None) -> None:
    assert model_at(path) is model


@given(st.binary(max_size=200))
def test_damaged_headers_never_raise(data: bytes) -> None:
    end, size = header_end(data), told_size_bytes(data)
    assert end is None or end >= 8
    assert size is None or size >= 0


@pytest.mark.parametrize(
    "header",
    [b"[]", b'{"a": 1}', b'{"a": {"data_offsets": []}}', b'{"a": {"data_offsets": [0, "x"]}}'],
)
def test_headers_of_the_wrong_form_are_damaged(header: bytes) -> None:
    data = len(header).to_bytes(8, "little") + header
    assert header_end(data) is None
    assert told_size_bytes(data) is None


def test_a_real_file_with_weights_is_not_a_lone_header() -> None:
    data = SMALL.files()["model-00001-of-00002.safetensors"]
    assert told_size_bytes(data + b"weights") is None
