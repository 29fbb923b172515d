"""The models on the demo rig: real shapes of 4-bit (AWQ) models, whose weights exist as headers.

A file of weights on the rig holds its safetensors header alone; the host reports the size that
the header tells. So a model of 13 GiB needs some 100 KiB of disk and can still be planned with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

GROUP = 128
_BYTES = {"F16": 2, "I32": 4}


@dataclass(frozen=True)
class Tensor:
    """One tensor of a checkpoint; ``dtype`` as safetensors names it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        return math.prod(self.shape) * _BYTES[self.dtype]


@dataclass(frozen=True)
class DemoModel:
    """A dense decoder with grouped-query attention, quantised to 4 bits with groups of 128."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    max_position: int
    shard_count: int

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors in the order of the checkpoint."""
        return tuple(self._all_tensors())

    @cached_property
    def weights_bytes(self) -> int:
        """Sum over all tensors."""
        return sum(tensor.size_bytes for tensor in self.tensors)

    @property
    def kv_bytes_per_token(self) -> int:
        """16-bit keys and values of all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 2

    def files(self) -> Mapping[str, bytes]:
        """Files of the model folder by name; those with weights hold their header only."""
        names = [
            f"model-{n:05}-of-{self.shard_count:05}.safetensors"
            for n in range(1, self.shard_count + 1)
        ]
        shards = dict(zip(names, self._shards(), strict=True))
        index = {
            "metadata": {"total_size": self.weights_bytes},
            "weight_map": {t.name: name for name, shard in shards.items() for t in shard},
        }
        return {
            "config.json": _text(self._config()),
            "generation_config.json": _text({"temperature": 1.0, "top_k": 20, "top_p": 0.95}),
            "tokenizer_config.json": _text({"tokenizer_class": "PreTrainedTokenizerFast"}),
            "tokenizer.json": _text({"version": "1.0", "model": {"type": "BPE", "vocab": {}}}),
            "model.safetensors.index.json": _text(index),
            **{name: header_bytes(shard) for name, shard in shards.items()},
        }

    def _all_tensors(self) -> Iterator[Tensor]:
        attention, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        linears = {
            "self_attn.q_proj": (self.hidden, attention),
            "self_attn.k_proj": (self.hidden, kv),
            "self_attn.v_proj": (self.hidden, kv),
            "self_attn.o_proj": (attention, self.hidden),
            "mlp.gate_proj": (self.hidden, self.intermediate),
            "mlp.up_proj": (self.hidden, self.intermediate),
            "mlp.down_proj": (self.intermediate, self.hidden),
        }
        yield Tensor("model.embed_tokens.weight", "F16", (self.vocabulary, self.hidden))
        for number in range(self.layers):
            layer = f"model.layers.{number}"
            for name, (rows, columns) in linears.items():
                yield from _awq(f"{layer}.{name}", rows, columns)
            for norm in ("input_layernorm", "post_attention_layernorm"):
                yield Tensor(f"{layer}.{norm}.weight", "F16", (self.hidden,))
        yield Tensor("model.norm.weight", "F16", (self.hidden,))
        yield Tensor("lm_head.weight", "F16", (self.vocabulary, self.hidden))

    def _shards(self) -> list[list[Tensor]]:
        """Tensors in order, cut so that the files have about the same size."""
        shards: list[list[Tensor]] = [[] for _ in range(self.shard_count)]
        done = 0
        for tensor in self.tensors:
            place = done * self.shard_count // self.weights_bytes
            shards[min(place, self.shard_count - 1)].append(tensor)
            done += tensor.size_bytes
        return shards

    def _config(self) -> dict[str, object]:
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.intermediate,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.max_position,
            "tie_word_embeddings": False,
            "rms_norm_eps": 1e-05,
            "rope_theta": 1000000.0,
            "torch_dtype": "float16",
            "quantization_config": {
                "quant_method": "awq",
                "bits": 4,
                "group_size": GROUP,
                "version": "gemm",
                "zero_point": True,
            },
        }


LARGE = DemoModel("Demo-24B-AWQ", 5120, 40, 32, 8, 128, 32768, 131072, 131072, 4)
SMALL = DemoModel("Demo-8B-AWQ", 4096, 36, 32, 8, 128, 12288, 151936, 40960, 2)
MODELS: Mapping[str, DemoModel] = MappingProxyType({m.name: m for m in (LARGE, SMALL)})
MODELS_FOLDER = "/home/demo/models"


def model_at(path: str) -> DemoModel | None:
    """The model of a folder on the rig; None when no such model exists."""
    folder, _, name = path.rstrip("/").rpartition("/")
    return MODELS.get(name) if folder == MODELS_FOLDER else None


def header_bytes(tensors: list[Tensor]) -> bytes:
    """Start of a safetensors file: length (8 bytes, little endian), then the JSON header."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        end = offset + tensor.size_bytes
        header[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    data = json.dumps(header, separators=(",", ":")).encode()
    data += b" " * (-len(data) % 8)
    return len(data).to_bytes(8, "little") + data


def told_size_bytes(data: bytes) -> int | None:
    """Size of the whole file that a lone header tells; None when ``data`` is something else."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or len(data) != 8 + length:
        return None
    end = header_end(data)
    return None if end is None else len(data) + end


def header_end(data: bytes) -> int | None:
    """End of the last tensor, counted from the end of the header; None for a damaged header."""
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name[:2] != "__"]
        return max((int(end) for end in ends), default=0)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return None


def _awq(name: str, rows: int, columns: int) -> Iterator[Tensor]:
    yield Tensor(f"{name}.qweight", "I32", (rows, columns // 8))
    yield Tensor(f"{name}.qzeros", "I32", (rows // GROUP, columns // 8))
    yield Tensor(f"{name}.scales", "F16", (rows // GROUP, columns))


def _text(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()
