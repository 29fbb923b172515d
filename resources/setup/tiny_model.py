"""Write a tiny random-weight model folder that a real vLLM can load; standard library only.

    python tiny_model.py OUT [--context 2048] [--layers 2] [--hidden 128] [--shards 2]
        [--head-dim 32] [--dtype bfloat16] [--spare 0]

A Llama of about 0.4 million parameters with a byte-level tokenizer (one token a byte, no merges)
and a chat template. Its text is noise; that it is loaded and replies is what a set-up and tests
need. A ``head_dim`` of 32 is the smallest that vLLM's CPU attention was seen to accept. ``spare``
are further words, so that the vocabulary is a multiple of what an engine wants.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
from pathlib import Path

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
DTYPES = {"bfloat16": "BF16", "float16": "F16"}
Tensor = tuple[str, tuple[int, ...], bytes]


def byte_alphabet() -> list[str]:
    """The printable stand-ins of byte-level BPE: byte value -> character (GPT-2's mapping)."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {value: chr(value) for value in keep}
    spare = 256
    for value in range(256):
        if value not in table:
            table[value] = chr(spare)
            spare += 1
    return [table[value] for value in range(256)]


def tokenizer_files(spare: int = 0) -> dict[str, object]:
    """``tokenizer.json`` and ``tokenizer_config.json`` for the byte-level tokenizer."""
    more = [f"<spare{i}>" for i in range(spare)]
    vocabulary = {text: i for i, text in enumerate([*SPECIALS, *byte_alphabet(), *more])}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    added = [
        {
            "id": i,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, text in enumerate(SPECIALS)
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "use_regex": True},
        "post_processor": {**byte_level, "use_regex": True},
        "decoder": {**byte_level, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIALS[0],
        "pad_token": SPECIALS[0],
        "eos_token": SPECIALS[2],
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    return {"tokenizer.json": tokenizer, "tokenizer_config.json": config}


def model_config(
    context: int, layers: int, hidden: int, head_dim: int, dtype: str, spare: int
) -> dict[str, object]:
    """``config.json``; two KV heads, so tensor parallel size 2 divides them."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": hidden * 2,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden // head_dim,
        "num_key_value_heads": 2,
        "head_dim": head_dim,
        "vocab_size": len(SPECIALS) + 256 + spare,
        "max_position_embeddings": context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "torch_dtype": dtype,
    }


def _random_half(count: int, rng: random.Random, scale: float, dtype: str) -> bytes:
    if dtype == "float16":
        return struct.pack(f"<{count}e", *(rng.gauss(0.0, scale) for _ in range(count)))
    floats = struct.pack(f"<{count}f", *(rng.gauss(0.0, scale) for _ in range(count)))
    upper = bytearray(2 * count)
    upper[0::2], upper[1::2] = floats[2::4], floats[3::4]
    return bytes(upper)


def tensors(config: dict[str, object], seed: int = 7) -> list[Tensor]:
    """Every weight as ``(name, shape, bytes)``."""
    rng = random.Random(seed)
    hidden, inner = int(str(config["hidden_size"])), int(str(config["intermediate_size"]))
    heads, kv_heads = (
        int(str(config["num_attention_heads"])),
        int(str(config["num_key_value_heads"])),
    )
    vocabulary, head_dim = int(str(config["vocab_size"])), int(str(config["head_dim"]))
    dtype = str(config["torch_dtype"])
    one = struct.pack("<H", 0x3C00 if dtype == "float16" else 0x3F80)
    result: list[Tensor] = []

    def add(name: str, *shape: int) -> None:
        count = 1
        for size in shape:
            count *= size
        result.append((name, shape, _random_half(count, rng, 0.05, dtype)))

    add("model.embed_tokens.weight", vocabulary, hidden)
    for layer in range(int(str(config["num_hidden_layers"]))):
        stem = f"model.layers.{layer}."
        add(stem + "self_attn.q_proj.weight", heads * head_dim, hidden)
        add(stem + "self_attn.k_proj.weight", kv_heads * head_dim, hidden)
        add(stem + "self_attn.v_proj.weight", kv_heads * head_dim, hidden)
        add(stem + "self_attn.o_proj.weight", hidden, heads * head_dim)
        add(stem + "mlp.gate_proj.weight", inner, hidden)
        add(stem + "mlp.up_proj.weight", inner, hidden)
        add(stem + "mlp.down_proj.weight", hidden, inner)
        for norm in ("input_layernorm.weight", "post_attention_layernorm.weight"):
            result.append((stem + norm, (hidden,), one * hidden))
    result.append(("model.norm.weight", (hidden,), one * hidden))
    add("lm_head.weight", vocabulary, hidden)
    return result


def safetensors_bytes(items: list[Tensor], dtype: str) -> bytes:
    """One file in the safetensors format: length, JSON header, data."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape, data in items:
        header[name] = {
            "dtype": DTYPES[dtype],
            "shape": list(shape),
            "data_offsets": [offset, offset + len(data)],
        }
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in items)


def write_model(
    folder: Path,
    *,
    context: int = 2048,
    layers: int = 2,
    hidden: int = 128,
    shards: int = 2,
    head_dim: int = 32,
    dtype: str = "bfloat16",
    spare: int = 0,
) -> Path:
    """Write the whole folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = model_config(context, layers, hidden, head_dim, dtype, spare)
    documents: dict[str, object] = {
        "config.json": config,
        "generation_config.json": {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0},
        **tokenizer_files(spare),
    }
    items = tensors(config)
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        part = items[shard::shards]
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        (folder / name).write_bytes(safetensors_bytes(part, dtype))
        weight_map |= {tensor: name for tensor, _, _ in part}
    total = sum(len(data) for _, _, data in items)
    documents["model.safetensors.index.json"] = {
        "metadata": {"total_size": total},
        "weight_map": weight_map,
    }
    for file_name, document in documents.items():
        text = json.dumps(document, ensure_ascii=False, indent=1)
        (folder / file_name).write_text(text, encoding="utf-8")
    return folder


def main() -> None:
    """Command line; see the module's text."""
    parser = argparse.ArgumentParser(description="Write a tiny random-weight model folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--head-dim", type=int, default=32)
    parser.add_argument("--dtype", choices=tuple(DTYPES), default="bfloat16")
    parser.add_argument("--spare", type=int, default=0)
    write_model(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
