"""Weights and states against published totals and the sizes that engines print."""

from __future__ import annotations

import copy

import pytest

from fixtures.sizing_models import (
    ALL,
    DENSE_8B,
    GPT_OSS_20B,
    GRANITE_HYBRID,
    HYBRID_27B,
    JAMBA,
    KIMI_LINEAR,
    LATENT_1T,
    NEMOTRON_H,
    PARALLEL_HYBRID_3B,
    SHORT_CONV,
    SLIDING_26B,
)
from twinrig.domain.memory import GIB, MIB
from twinrig.sizing.model import read_model
from twinrig.sizing.states import exl3_state_bytes, vllm_state_bytes
from twinrig.sizing.weights import BITS, from_files, quantization_of, weights_bytes


def gib(config, name="bf16", tp=1, **options) -> float:
    found = weights_bytes(read_model(config), name, tp, **options)
    assert found is not None
    return found / GIB


@pytest.mark.parametrize(
    ("config", "name", "tp", "printed", "limit"),
    [
        (DENSE_8B, "bf16", 1, 14.99, 0.005),  # "Model loading took 14.99 GiB"
        (HYBRID_27B, "fp8", 1, 28.51, 0.01),
        (GPT_OSS_20B, "mxfp4", 1, 13.72, 0.01),
        (SLIDING_26B, "bf16", 1, 48.07, 0.02),  # size of the published files
        (LATENT_1T, "fp8", 1, 959.0, 0.02),  # about 1.03e12 parameters
        (JAMBA, "bf16", 1, 96.0, 0.02),  # 51.6e9 parameters
        (GRANITE_HYBRID, "bf16", 1, 13.0, 0.07),  # about 7e9 parameters
        (SHORT_CONV, "bf16", 1, 2.2, 0.05),  # 1.17e9 parameters
        (NEMOTRON_H, "bf16", 1, 16.56, 0.03),
        (KIMI_LINEAR, "bf16", 1, 91.5, 0.03),  # about 49e9 parameters
    ],
)
def test_weights(config, name, tp, printed, limit) -> None:
    assert gib(config, name, tp) == pytest.approx(printed, rel=limit)


@pytest.mark.parametrize("name", ALL)
def test_more_cards_never_hold_more_each(name) -> None:
    shape = read_model(ALL[name])
    sizes = [weights_bytes(shape, "bf16", tp) or 0 for tp in (1, 2, 4, 8, 16)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] < 2.01 * sizes[1]


def test_fewer_bits_are_smaller() -> None:
    sizes = {name: gib(DENSE_8B, name) for name in BITS}
    assert sizes["bf16"] > sizes["fp8"] > sizes["nvfp4"] > sizes["awq-int4"] > sizes["bnb-nf4"]


def test_copied_heads_are_not_divided() -> None:
    shape = read_model(DENSE_8B)
    at_8, at_16 = (weights_bytes(shape, "bf16", tp) or 0 for tp in (8, 16))
    kv = 32 * 2 * 4096 * 8 * 128 * 2
    rest = (weights_bytes(shape, "bf16", 1) or 0) - kv - 131072 * 128 * 2
    assert at_8 - at_16 == pytest.approx(rest / 16, rel=0.01)


def test_an_encoder_is_on_every_card_and_can_be_left_out() -> None:
    whole, text = gib(HYBRID_27B), gib(HYBRID_27B, vision=False)
    assert whole - text == pytest.approx(0.85, abs=0.1)
    assert gib(HYBRID_27B, tp=2) - gib(HYBRID_27B, tp=2, vision=False) == pytest.approx(
        whole - text
    )
    assert "assumed" in str(read_model(SLIDING_26B).notes[0])


def test_drafting_layers_are_loaded_only_when_used() -> None:
    assert 0.3 < gib(HYBRID_27B, drafting=True) - gib(HYBRID_27B) < 1.0
    assert gib(DENSE_8B, drafting=True) == gib(DENSE_8B)


def test_unknown_width_means_unknown_weights() -> None:
    config = {k: v for k, v in DENSE_8B.items() if k != "intermediate_size"}
    assert weights_bytes(read_model(config), "bf16", 1) is None


def test_files_are_divided_but_for_the_encoder() -> None:
    shape = read_model(HYBRID_27B)
    encoder = shape.vision.parameters * 2
    assert from_files(shape, 30 * GIB, 2, 1, vision=True) == pytest.approx(
        (30 * GIB - encoder) / 2 + encoder, abs=2
    )
    assert from_files(shape, 30 * GIB, 2, 1, vision=False) == pytest.approx(
        (30 * GIB - encoder) / 2, abs=2
    )
    assert from_files(read_model(DENSE_8B), 16 * GIB, 2, 2, vision=True) == 4 * GIB


@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        ({"quant_method": "awq", "bits": 4}, "awq-int4"),
        ({"quant_method": "gptq", "bits": 4}, "gptq-int4"),
        ({"quant_method": "gptq", "bits": 8}, "w8a8-int8"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "bitsandbytes"}, "bnb-nf4"),
        ({"quant_method": "auto-round"}, "gptq-int4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int"}}},
            },
            "w4a16-int4",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
        ),
        ({"quant_method": "compressed-tensors", "config_groups": "x"}, "bf16"),
        ({"quant_method": "telepathy"}, "bf16"),
        ({}, "bf16"),
    ],
)
def test_the_configuration_names_the_quantisation(recipe, name) -> None:
    shape = read_model({**DENSE_8B, "quantization_config": recipe})
    assert quantization_of(shape, "") == name
    assert quantization_of(shape, "fp8") == "fp8"


@pytest.mark.parametrize(
    ("config", "tp", "drafts", "size"),
    [
        (HYBRID_27B, 1, 0, 61_440 + 3_145_728),
        (HYBRID_27B, 2, 0, 30_720 + 1_572_864),
        (HYBRID_27B, 1, 2, 102_400 + 3_145_728),
        (PARALLEL_HYBRID_3B, 1, 0, 4608 * 3 * 2 + 32 * 128 * 256 * 2),
        (PARALLEL_HYBRID_3B, 2, 0, (4096 + 2 * 2 * 256) // 2 * 3 * 2 + 16 * 128 * 256 * 2),
        (JAMBA, 1, 3, 8192 * 3 * 2 + 8192 * 16 * 2),  # drafts do not widen this convolution
        (SHORT_CONV, 2, 0, 1024 * 2 * 2),
        (NEMOTRON_H, 1, 0, (10240 + 2 * 8 * 128) * 3 * 2 + 128 * 80 * 128 * 4),
        (KIMI_LINEAR, 1, 0, 12288 * 3 * 2 + 32 * 128 * 128 * 4),
    ],
)
def test_states_of_vllm(config, tp, drafts, size) -> None:
    state = read_model(config).states[0][0]
    assert vllm_state_bytes(state, tp, drafts) == size


@pytest.mark.parametrize(
    ("version", "drafts", "mib"),
    [
        ((0, 0, 43), 0, 147.75),
        ((0, 0, 43), 4, 727.5),
        ((1, 6, 0), 4, 727.5),
        ((1, 6, 1), 0, 292.74),
        ((1, 6, 1), 4, 300.25),
        ((1, 6, 2), 0, 148.7),
        ((1, 6, 2), 4, 156.25),
    ],
)
def test_states_of_exllamav3_by_version(version, drafts, mib) -> None:
    """Sizes of a 27B hybrid: 148 and 727 MB were measured with 0.0.43."""
    state, count = read_model(HYBRID_27B).states[0]
    size = exl3_state_bytes(state, version, drafts) * count
    assert size / MIB == pytest.approx(mib, abs=0.06)


def test_mamba_2_keeps_32_bits_in_exllamav3() -> None:
    state = read_model(NEMOTRON_H).states[0][0]
    old, new = (exl3_state_bytes(state, v, 0) for v in ((1, 6, 1), (1, 6, 2)))
    assert old == new


def test_a_copy_of_a_configuration_gives_the_same_weights() -> None:
    assert gib(copy.deepcopy(HYBRID_27B)) == gib(HYBRID_27B)
