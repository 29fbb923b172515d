from __future__ import annotations

import json
from pathlib import Path

import pytest

from service_fakes import FolderHost
from twinrig.domain.errors import DamagedFileError, HostError, UsageError
from twinrig.services.models import WINDOWS_FOLDERS, ModelFolder, ModelLibrary


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    (tmp_path / "target").mkdir()
    return FolderHost(tmp_path / "target")


@pytest.fixture
def library(host: FolderHost, tmp_path: Path) -> ModelLibrary:
    return ModelLibrary(host, store=tmp_path / "config" / "model-folders.json")


def model(host: FolderHost, path: str, *, shards: int = 1, config: object | None = None) -> Path:
    real = host.real(path)
    real.mkdir(parents=True, exist_ok=True)
    text = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096}
    (real / "config.json").write_text(json.dumps(config or text))
    (real / "tokenizer.json").write_text("{}")
    if shards == 1:
        (real / "model.safetensors").write_bytes(b"x" * 5000)
        return real
    names = [f"model-{n:05}-of-{shards:05}.safetensors" for n in range(1, shards + 1)]
    for name in names:
        (real / name).write_bytes(b"x" * 2000)
    index = {
        "metadata": {"total_size": 2000 * shards - 50},
        "weight_map": {f"layer.{i}": n for i, n in enumerate(names)},
    }
    (real / "model.safetensors.index.json").write_text(json.dumps(index))
    return real


async def only(library: ModelLibrary) -> ModelFolder:
    (found,) = await library.scan()
    return found


async def test_a_complete_model(host: FolderHost, library: ModelLibrary) -> None:
    model(host, "/home/me/models/tiny")
    assert await only(library) == ModelFolder(
        "/home/me/models/tiny", "tiny", 5000, True, None, "LlamaForCausalLM", 4096
    )


async def test_layouts(host: FolderHost, library: ModelLibrary) -> None:
    model(host, "/home/me/models/zeta")
    model(host, "/home/me/models/Qwen/alpha", shards=3)
    hub = "/home/me/.cache/huggingface/hub/models--meta--Llama-9/snapshots/abc123"
    model(host, hub)
    assert [(m.name, m.path) for m in await library.scan()] == [
        ("meta/Llama-9", hub),
        ("Qwen/alpha", "/home/me/models/Qwen/alpha"),
        ("zeta", "/home/me/models/zeta"),
    ]


async def test_links_into_a_blob_store_are_followed(
    host: FolderHost, library: ModelLibrary
) -> None:
    real = model(host, "/home/me/models/linked")
    (real / "model.safetensors").rename(real.parent / "blob")
    (real / "model.safetensors").symlink_to("../blob")
    assert (await only(library)).size_bytes == 5000


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda p: (p / "model-00002-of-00003.safetensors").unlink(), "1 of 3, first model-00002"),
        (lambda p: (p / "model-00003-of-00003.safetensors").write_bytes(b"v"), "placeholder"),
        (lambda p: (p / "model-00003-of-00003.safetensors").write_bytes(b"v" * 1500), "92 %"),
        (lambda p: (p / "model.safetensors.index.json").write_text("{"), "index.json is damaged"),
        (lambda p: (p / "model.safetensors.index.json").write_text("{}"), "index.json is damaged"),
        (lambda p: (p / "config.json").write_text("[1"), "config.json is damaged"),
        (lambda p: (p / "config.json").write_bytes(b"\xff\x00"), "config.json is damaged"),
        (lambda p: (p / "config.json").write_text(""), "config.json is damaged"),
        (lambda p: (p / "config.json").write_text("[" * 100_000), "config.json is damaged"),
        (lambda p: (p / "tokenizer.json").unlink(), "no tokenizer"),
        (lambda p: [f.unlink() for f in p.glob("*.safetensors*")], "no weight files"),
    ],
)
async def test_incomplete_models_say_why(
    host: FolderHost, library: ModelLibrary, damage, words: str
) -> None:
    real = model(host, "/home/me/models/m", shards=3)
    assert (await only(library)).complete
    damage(real)
    found = await only(library)
    assert not found.complete
    assert words in str(found.problem)


async def test_no_weights_is_unknown_size_not_zero(host: FolderHost, library: ModelLibrary) -> None:
    (model(host, "/home/me/models/m") / "model.safetensors").unlink()
    assert (await only(library)).size_bytes is None


@pytest.mark.parametrize(
    ("config", "context"),
    [
        ({"text_config": {"max_position_embeddings": 8192}}, 8192),
        ({"max_position_embeddings": "many"}, None),
        ({"max_position_embeddings": True}, None),
        ({"architectures": "x"}, None),
    ],
)
async def test_context_length(host: FolderHost, library: ModelLibrary, config, context) -> None:
    model(host, "/home/me/models/m", config=config)
    found = await only(library)
    assert (found.context_length, found.architecture) == (context, "")


async def test_own_folders_are_kept(
    host: FolderHost, library: ModelLibrary, tmp_path: Path
) -> None:
    model(host, "/mnt/disk/llm/a")
    await library.add_folder("/mnt/disk/llm/")
    await library.add_folder("/mnt/disk/llm")
    again = ModelLibrary(host, store=tmp_path / "config" / "model-folders.json")
    assert again.folders[0] == "/mnt/disk/llm"
    assert again.folders.count("/mnt/disk/llm") == 1
    assert [m.path for m in await again.scan()] == ["/mnt/disk/llm/a"]
    await again.remove_folder("/mnt/disk/llm")
    assert await library.scan() == ()
    with pytest.raises(UsageError):
        await again.remove_folder("/mnt/disk/llm")
    for bad in ("/mnt/nowhere", "relative"):
        with pytest.raises(UsageError):
            await library.add_folder(bad)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b"[" * 100_000])
async def test_a_damaged_list_of_folders_is_kept(
    host: FolderHost, library: ModelLibrary, tmp_path: Path, content: bytes
) -> None:
    store = tmp_path / "config" / "model-folders.json"
    store.parent.mkdir()
    store.write_bytes(content)
    host.real("/srv").mkdir()
    for call in (library.scan(), library.add_folder("/srv")):
        with pytest.raises(DamagedFileError):
            await call
    assert store.read_bytes() == content


async def test_without_a_store_the_session_remembers(host: FolderHost) -> None:
    model(host, "/srv/m")
    library = ModelLibrary(host, ())
    await library.add_folder("/srv")
    assert [m.name for m in await library.scan()] == ["m"]


async def test_describe_one_folder(host: FolderHost, library: ModelLibrary) -> None:
    model(host, "/home/me/x")
    found = await library.describe("~/x")
    assert found is not None
    assert (found.name, found.path) == ("x", "/home/me/x")
    assert await library.describe("/home/me") is None


async def test_a_whole_disk_ends_some_time(
    host: FolderHost, library: ModelLibrary, monkeypatch
) -> None:
    monkeypatch.setattr("twinrig.services.models.MAX_FOLDERS", 20)
    for number in range(60):
        (host.real("/home/me/models") / f"d{number:02}").mkdir(parents=True)
    await library.scan()
    assert len(host.listed) <= 25


async def test_hidden_folders_and_loops(host: FolderHost, library: ModelLibrary) -> None:
    model(host, "/home/me/models/.trash/old")
    host.real("/home/me/models/loop").symlink_to(".")
    assert await library.scan() == ()


async def test_unreachable(host: FolderHost, library: ModelLibrary) -> None:
    host.reachable = False
    with pytest.raises(HostError):
        await library.scan()


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        ({}, ""),
        ({"quantization_config": {"quant_method": "exl3", "bits": 4.15}}, "exl3 4.15"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "awq 4"),
        ({"quantization_config": {"quant_method": "awq", "w_bit": 4}}, "awq 4"),
        ({"quantization_config": {"quant_method": "FP8"}}, "fp8"),
        ({"quantization_config": {"quant_method": "gptq", "bits": "many"}}, "gptq"),
        ({"quantization_config": {"quant_method": "gptq", "bits": True}}, "gptq"),
        ({"quantization_config": [1]}, ""),
    ],
)
async def test_quantisation(host: FolderHost, library: ModelLibrary, config, shown: str) -> None:
    model(host, "/home/me/models/a", config={"model_type": "x", **config})
    assert (await only(library)).quantization == shown


async def test_a_download_that_is_not_finished_is_never_shown_as_whole(
    host: FolderHost, library: ModelLibrary
) -> None:
    model(host, "/home/me/models/org/tiny.partial")
    found = await only(library)
    assert not found.complete
    assert "not finished" in str(found.problem)


async def test_folders_of_the_windows_side_are_found_and_told(host: FolderHost) -> None:
    model(host, "/mnt/c/Users/kim/.lmstudio/models/org/tiny")
    library = ModelLibrary(host, WINDOWS_FOLDERS)
    found = await only(library)
    assert (found.name, found.on_windows) == ("org/tiny", True)
    assert not host.real("/mnt/c/Users/kim/models").exists()


async def test_an_added_folder_is_taken_by_the_letter(
    host: FolderHost, library: ModelLibrary
) -> None:
    model(host, "/data/[a]*/tiny")
    model(host, "/data/abc/other")
    await library.add_folder("/data/[a]*")
    assert [m.name for m in await library.scan()] == ["tiny"]
