"""Resident weights of exllamav3: trellis bits, scale vectors, and what stays FP16."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twinrig.sizing.exl3_rules import DEFAULT_DRAFT_BITS, Exl3Rules
from twinrig.sizing.matrices import Matrix, Role, layer_matrices
from twinrig.sizing.reading import missing
from twinrig.sizing.shape import Layer, ModelShape

TILE = 128
"""Both sides of a matrix are padded to multiples of it; the average of the bits counts that."""


def padded(size: int) -> int:
    """``size`` rounded up to a whole tile."""
    return -(-size // TILE) * TILE


def matrix_bytes(matrix: Matrix, bits: float) -> int:
    """Bytes of one entry of a layer; small matrices and unquantised models stay FP16."""
    if matrix.role is Role.SMALL or bits >= 16:
        return matrix.parameters * 2
    rows, columns = padded(matrix.rows), padded(matrix.columns)
    return int(matrix.count * (rows * columns * bits / 8 + 2 * (rows + columns)))


def layer_bytes(layer: Layer, shape: ModelShape, bits: float) -> int:
    """Bytes of all matrices of one layer."""
    return sum(matrix_bytes(m, bits) for m in layer_matrices(layer, shape))


def head_bytes(shape: ModelShape, rules: Exl3Rules) -> int:
    """The output matrix: always resident, also where the embedding is tied to it."""
    bits = rules.head_bits if rules.bits < 16 else 16.0
    return matrix_bytes(Matrix(shape.hidden, shape.vocabulary, Role.LINEAR), bits)


def drafter_bytes(shape: ModelShape, rules: Exl3Rules) -> tuple[int, int]:
    """Weights of the built-in drafting layers, and their FP16 cache of one token."""
    model = next((x for x in reversed(shape.layers) if x.attention is not None), None)
    if not rules.drafts or not shape.draft_layers or model is None or model.attention is None:
        return 0, 0
    bits = DEFAULT_DRAFT_BITS if rules.bits < 16 else 16.0
    joining = Matrix(2 * shape.hidden, shape.hidden, Role.LINEAR)
    weights = layer_bytes(model, shape, bits) + matrix_bytes(joining, bits)
    attention = model.attention
    width = (attention.head_dim + attention.value_dim) * 2 * attention.kv_heads
    return weights * shape.draft_layers, width * shape.draft_layers


@dataclass(frozen=True)
class TensorTotals:
    """Bytes by use, summed from the tensor table of an EXL3 folder."""

    decoder: int = 0
    head: int = 0
    embedding: int = 0
    drafter: int = 0
    vision: int = 0


def read_tensor_table(whole: Mapping[str, Any]) -> TensorTotals:
    """Sums of ``quantization_config.json``. Raises UnsizableError when it has no table."""
    table = whole.get("tensor_storage")
    if not isinstance(table, Mapping) or not table:
        raise missing("tensor_storage")
    sums = dict.fromkeys(("decoder", "head", "embedding", "drafter", "vision"), 0)
    for name, entry in table.items():
        sums[_use(str(name))] += _stored(entry)
    return TensorTotals(**sums)


def _stored(entry: object) -> int:
    tensors = entry.get("stored_tensors") if isinstance(entry, Mapping) else None
    if not isinstance(tensors, Mapping):
        return 0
    total = 0
    for tensor in tensors.values():
        size = tensor.get("n_bytes") if isinstance(tensor, Mapping) else None
        total += size if isinstance(size, int) and size > 0 else 0
    return total


def _use(name: str) -> str:
    parts = name.split(".")
    if "mtp" in parts or "nextn" in parts:
        return "drafter"
    if any(p.startswith(("visual", "vision", "multi_modal", "embed_vision")) for p in parts):
        return "vision"
    if "lm_head" in parts:
        return "head"
    return "embedding" if "embed_tokens" in parts else "decoder"
