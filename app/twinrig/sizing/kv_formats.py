"""Bytes of keys and values by number format (vLLM, ``--kv-cache-dtype``)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from twinrig.sizing.shape import Attention, ModelShape

_PACKED_SPARSE = 656
"""512 8-bit values, 16 bytes of scales and a 16-bit rope key of 64: vLLM's ``fp8_ds_mla``."""
_INDEX_SCALE = 4
_SCALE_PER_HEAD = 4
"""``*_per_token_head`` formats keep a 32-bit scale for K and for V of each token and head."""
_HALF = Fraction(1, 2)


def resolve_format(shape: ModelShape, kv_dtype: str) -> str:
    """``auto`` becomes fp8 where the checkpoint asks for it, else the model's own format."""
    if kv_dtype not in ("", "auto"):
        return kv_dtype
    scheme = shape.quantization.get("kv_cache_scheme")
    if isinstance(scheme, Mapping) and scheme.get("num_bits") == 8:
        return "fp8"
    algorithm = shape.quantization.get("kv_cache_quant_algo")
    return "fp8" if algorithm == "FP8" else "auto"


def element_bytes(shape: ModelShape, kv_format: str) -> Fraction:
    """Bytes of one value, without scales per head."""
    if kv_format.startswith(("fp8", "int8")):
        return Fraction(1)
    if kv_format == "turboquant_k8v4":
        return Fraction(3, 4)
    if kv_format.startswith(("int4", "turboquant", "ultraquant")):
        return _HALF
    if kv_format.startswith("nvfp4"):
        return Fraction(9, 16)  # four bits, and an 8-bit scale for 16 values
    if kv_format == "float32":
        return Fraction(4)
    if kv_format in ("bfloat16", "float16", "half"):
        return Fraction(2)
    return Fraction(shape.element_bytes)


def heads_per_gpu(attention: Attention, tp: int) -> int:
    """KV heads on one card: never less than one, so with many cards heads are copied."""
    return max(1, attention.kv_heads // tp)


def token_bytes(attention: Attention, shape: ModelShape, kv_format: str, tp: int) -> int:
    """Bytes of one token in one layer on one card; latent layers are whole on every card."""
    size = element_bytes(shape, kv_format)
    if attention.latent is not None:
        if attention.index_dim and kv_format.startswith("fp8"):
            return _PACKED_SPARSE + attention.index_dim + _INDEX_SCALE
        index = attention.index_dim + _INDEX_SCALE if attention.index_dim else 0
        return int(attention.head_dim * size) + index
    values = attention.head_dim + attention.value_dim
    scales = 2 * _SCALE_PER_HEAD if "per_token_head" in kv_format else 0
    return heads_per_gpu(attention, tp) * (int(values * size) + scales)


def plain_token_bytes(attention: Attention, shape: ModelShape, kv_format: str, tp: int) -> int:
    """Like ``token_bytes`` without scales: what decides how pages are brought to one size."""
    return token_bytes(attention, shape, kv_format.replace("_per_token_head", ""), tp)
