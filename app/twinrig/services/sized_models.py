"""Reads from a model folder what an estimate needs: configuration, file sizes, tensor table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from twinrig.domain.errors import UsageError
from twinrig.domain.ports import FolderEntry, Host
from twinrig.messages import message
from twinrig.sizing.estimate import SizedModel, sized_model
from twinrig.sizing.exl3_weights import TensorTotals, read_tensor_table
from twinrig.sizing.reading import parse_config

_TABLE = "quantization_config.json"
_QUANT = "hf_quant_config.json"
_TABLE_LIMIT_BYTES = 64 * 2**20
_SAFETENSORS = ".safetensors"
_OTHER = (".bin", ".pt", ".pth")
_NOT_WEIGHTS = ("training_args.bin", "optimizer.pt", "scheduler.pt")
_DUPLICATES = ("consolidated",)


async def read_sized_model(host: Host, path: str) -> SizedModel:
    """The model in a folder, or of a single configuration file.

    Raises UsageError when there is none, UnsizableError when it cannot be sized.
    """
    single = path.endswith(".json") and not path.endswith("/config.json")
    folder = path.removesuffix("/config.json").rstrip("/")
    data = await host.read_file(path if single else f"{folder}/config.json", limit_bytes=64 * 2**20)
    if data is None:
        raise UsageError(
            message("There is no model configuration at {path}.", path=path),
            message("Give a folder that holds a config.json, or a config.json."),
        )
    config = parse_config(data)
    if single:
        return sized_model(config)
    entries = await host.list_folder(folder)
    names = {entry.name for entry in entries}
    config = await _with_cache_format(host, folder, names, config)
    tensors = await _tensor_table(host, folder, names, config)
    return sized_model(config, weight_bytes(entries), tensors)


def weight_bytes(entries: Sequence[FolderEntry]) -> int | None:
    """Sum of the weight files, safetensors alone where there are any; None without files."""
    sizes = {e.name: e.size_bytes or 0 for e in entries if not e.is_dir}
    chosen = [n for n in sizes if n.endswith(_SAFETENSORS)]
    plain = [n for n in chosen if not n.startswith(_DUPLICATES)]
    chosen = plain or chosen
    if not chosen:
        chosen = [n for n in sizes if n.endswith(_OTHER) and n not in _NOT_WEIGHTS]
    return sum(sizes[n] for n in chosen) or None


async def _with_cache_format(
    host: Host, folder: str, names: set[str], config: dict[str, Any]
) -> dict[str, Any]:
    """ModelOpt keeps its recipe, the format of the KV cache included, in a file of its own."""
    if _QUANT not in names or config.get("quantization_config"):
        return config
    found = _object(await host.read_file(f"{folder}/{_QUANT}"))
    recipe = found.get("quantization")
    return {**config, "quantization_config": recipe} if isinstance(recipe, Mapping) else config


async def _tensor_table(
    host: Host, folder: str, names: set[str], config: Mapping[str, Any]
) -> TensorTotals | None:
    quantization = config.get("quantization_config")
    method = quantization.get("quant_method") if isinstance(quantization, Mapping) else None
    if _TABLE not in names or method != "exl3":
        return None
    data = await host.read_file(f"{folder}/{_TABLE}", limit_bytes=_TABLE_LIMIT_BYTES)
    found = _object(data)
    return read_tensor_table(found) if found.get("tensor_storage") else None


def _object(data: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(data) if data else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
