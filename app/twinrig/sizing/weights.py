"""Weights on one card for vLLM: file sizes first, the configuration second."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from twinrig.domain.memory import GIB
from twinrig.messages import Message, message
from twinrig.sizing.matrices import Matrix, Role, layer_matrices
from twinrig.sizing.shape import ModelShape

BITS: Mapping[str, float] = MappingProxyType(
    {
        "bf16": 16.0,
        "fp16": 16.0,
        "fp8": 8.004,
        "w8a8-int8": 8.004,
        "awq-int4": 4.156,
        "gptq-int4": 4.156,
        "w4a16-int4": 4.125,
        "nvfp4": 4.5,
        "mxfp4": 4.25,
        "bnb-nf4": 4.13,
    }
)
"""Bits of a weight with its scales: groups of 128 for integers, 16 for NVFP4, 32 for MXFP4."""

BESIDE = int(0.05 * GIB)
"""What "Model loading took" shows beside the matrices (norms, biases, buffers): the median over
the start-ups of ``docs/sizing.md``; it counts for small models only."""
_EXPERTS_ONLY = ("mxfp4",)
_MXFP4_STEPS = (256, 128)
"""Experts in MXFP4 are repacked with hidden size and width rounded up to these."""


def quantization_of(shape: ModelShape, asked: str) -> str:
    """Name in ``BITS``: what was asked for, else what the configuration says."""
    if asked:
        return asked if asked in BITS else "bf16"
    found = shape.quantization
    method = str(found.get("quant_method", "")).lower()
    algorithm = str(found.get("quant_algo", "")).upper()
    if "NVFP4" in algorithm:
        return "nvfp4"
    if method in ("fp8", "fbgemm_fp8") or "FP8" in algorithm:
        return "fp8"
    if method == "compressed-tensors":
        return _compressed(found)
    simple = {"awq": "awq-int4", "mxfp4": "mxfp4", "bitsandbytes": "bnb-nf4"}
    if method in ("gptq", "auto-round", "autoround"):
        return "w8a8-int8" if found.get("bits") == 8 else "gptq-int4"
    return simple.get(method, "bf16")


def _compressed(found: Mapping[str, object]) -> str:
    groups = found.get("config_groups")
    first: object = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        return "bf16"
    bits, kind = weights.get("num_bits"), weights.get("type")
    if bits == 4:
        return "nvfp4" if kind == "float" else "w4a16-int4"
    return ("fp8" if kind == "float" else "w8a8-int8") if bits == 8 else "bf16"


def weights_bytes(
    shape: ModelShape,
    quantization: str,
    tp: int,
    *,
    pp: int = 1,
    vision: bool = True,
    drafting: bool = False,
) -> int | None:
    """Bytes on the fullest card; None when the configuration lacks a key (``shape.unknown``)."""
    if shape.unknown:
        return None
    total = 0.0
    for layer, count in shape.kinds:
        heads = layer.attention.kv_heads if layer.attention is not None else 1
        for matrix in layer_matrices(layer, shape):
            total += count * _on_one_card(matrix, quantization, tp, heads)
    if drafting:
        total += _drafter(shape, quantization, tp)
    total /= pp
    tables = 1 if shape.tied and pp == 1 else 2
    total += tables * shape.vocabulary * shape.hidden * 2 / tp / (1 if pp == 1 else 2)
    beside = shape.per_layer_vocabulary + (shape.hidden if shape.per_layer_width else 0)
    total += beside * shape.per_layer_width * len(shape.layers) * 2 / tp / pp
    if vision and shape.vision is not None:
        total += shape.vision.parameters * 2
    return int(total) + _rotary_table(shape) + BESIDE


def _drafter(shape: ModelShape, quantization: str, tp: int) -> float:
    """Built-in drafting layers: each like the last layer with attention, and a joining matrix."""
    model = next((x for x in reversed(shape.layers) if x.attention is not None), None)
    if model is None or model.attention is None:
        return 0.0
    matrices = [*layer_matrices(model, shape), Matrix(2 * shape.hidden, shape.hidden, Role.LINEAR)]
    heads = model.attention.kv_heads
    return shape.draft_layers * sum(_on_one_card(m, quantization, tp, heads) for m in matrices)


def _rotary_table(shape: ModelShape) -> int:
    """Sines and cosines of every position, once on each card."""
    widths = [a.latent.rope_dim if a.latent else a.head_dim for a, _ in shape.attentions]
    return (shape.max_position or 0) * max(widths, default=0) * 2


def _on_one_card(matrix: Matrix, quantization: str, tp: int, kv_heads: int) -> float:
    if matrix.role is Role.SMALL:
        return matrix.parameters * 2.0
    bits = BITS[quantization]
    if quantization in _EXPERTS_ONLY:
        bits = bits if matrix.role is Role.EXPERT else 16.0
    size = matrix.parameters * bits / 8
    if quantization == "mxfp4" and matrix.role is Role.EXPERT:
        size *= _repacked(matrix)
    if matrix.role is Role.REPLICATED:
        return size
    shards = min(tp, kv_heads) if matrix.role is Role.KV else tp
    return size / shards


def _repacked(matrix: Matrix) -> float:
    small, large = sorted((matrix.rows, matrix.columns))
    grown = 1.0
    for size, step in zip((large, small), _MXFP4_STEPS, strict=True):
        grown *= -(-size // step) * step / size
    return grown


def from_files(shape: ModelShape, size_bytes: int, tp: int, pp: int, *, vision: bool) -> int:
    """Bytes on one card from the size of the weight files; encoders are whole on every card."""
    encoder = shape.vision.parameters * 2 if shape.vision is not None else 0
    encoder = min(encoder, size_bytes // 2)
    return int((size_bytes - encoder) / (tp * pp)) + (encoder if vision else 0)


def note(shape: ModelShape, quantization: str, from_size: bool) -> Message:
    """Where the weights are from."""
    if from_size:
        return message("Weights: size of the weight files, divided over the cards.")
    if quantization == "nvfp4":
        return message(
            "Weights: all linear layers in 4 bits; recipes that leave layers in 16 bits need more."
        )
    return message(
        "Weights: from the configuration, {bits} bits a weight.", bits=BITS[quantization]
    )
