"""Model folders as they lie on disk: files, recipes of their own, EXL3 tables, junk."""

from __future__ import annotations

import json

import pytest

from fixtures.memory_host import MemoryHost
from fixtures.sizing_models import DENSE_8B, HYBRID_27B
from twinrig.domain.errors import UsageError
from twinrig.domain.memory import GIB, UnsizableError
from twinrig.domain.ports import FolderEntry
from twinrig.services.sized_models import read_sized_model, weight_bytes
from twinrig.sizing.exl3_weights import TensorTotals


class ModelHost(MemoryHost):
    """Files with the sizes they would have."""

    def __init__(self, files: dict[str, object], sizes: dict[str, int] | None = None) -> None:
        super().__init__()
        self.files = {f"/m/{n}": json.dumps(v).encode() for n, v in files.items()}
        self.sizes = sizes or {}

    async def list_folder(self, path: str) -> tuple[FolderEntry, ...]:
        names = [FolderEntry(n.removeprefix("/m/"), False, len(d)) for n, d in self.files.items()]
        return (*names, *(FolderEntry(n, False, s) for n, s in self.sizes.items()))


async def test_a_folder_with_weights() -> None:
    sizes = {"model-1.safetensors": 9 * GIB, "model-2.safetensors": 7 * GIB, "old.bin": GIB}
    found = await read_sized_model(ModelHost({"config.json": DENSE_8B}, sizes), "/m")
    assert found.file_bytes == 16 * GIB
    assert found.shape.architecture == "LlamaForCausalLM"
    same = await read_sized_model(ModelHost({"config.json": DENSE_8B}, sizes), "/m/config.json")
    assert same.file_bytes == 16 * GIB


async def test_a_configuration_alone() -> None:
    host = ModelHost({"Model.json": DENSE_8B}, {"x.safetensors": GIB})
    found = await read_sized_model(host, "/m/Model.json")
    assert found.file_bytes is None
    bare = await read_sized_model(ModelHost({"config.json": DENSE_8B}), "/m/")
    assert bare.file_bytes is None


@pytest.mark.parametrize(
    ("sizes", "total"),
    [
        ({"a.safetensors": 5, "consolidated.safetensors": 5}, 5),
        ({"consolidated.safetensors": 5}, 5),
        ({"a.bin": 3, "training_args.bin": 9}, 3),
        ({"a.gguf": 3}, None),
        ({"a.safetensors": None}, None),
        ({}, None),
    ],
)
def test_which_files_are_weights(sizes, total) -> None:
    assert weight_bytes([FolderEntry(n, False, s) for n, s in sizes.items()]) == total


async def test_a_recipe_in_a_file_of_its_own() -> None:
    recipe = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    host = ModelHost({"config.json": DENSE_8B, "hf_quant_config.json": recipe})
    found = await read_sized_model(host, "/m")
    assert found.shape.quantization["kv_cache_quant_algo"] == "FP8"
    host.files["/m/hf_quant_config.json"] = b"junk"
    assert (await read_sized_model(host, "/m")).shape.quantization == {}


async def test_the_table_of_an_exl3_folder() -> None:
    config = {**HYBRID_27B, "quantization_config": {"quant_method": "exl3", "bits": 4.15}}
    entry = {"stored_tensors": {"trellis": {"n_bytes": 77}}}
    table = {"tensor_storage": {"model.layers.0.mlp.up_proj": entry}}
    host = ModelHost({"config.json": config, "quantization_config.json": table})
    assert (await read_sized_model(host, "/m")).tensors == TensorTotals(decoder=77)
    host.files["/m/quantization_config.json"] = b"{}"
    assert (await read_sized_model(host, "/m")).tensors is None


async def test_nothing_there_and_nonsense_there() -> None:
    with pytest.raises(UsageError) as caught:
        await read_sized_model(ModelHost({}), "/m")
    assert "no model configuration" in str(caught.value.text)
    with pytest.raises(UnsizableError):
        await read_sized_model(ModelHost({"config.json": [1, 2]}), "/m")
