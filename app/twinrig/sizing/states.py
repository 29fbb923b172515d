"""Reads layers with a recurrent state, and their size by the rules of each engine.

Sources: vLLM 0.32 as installed (shapes of the state caches by layer kind), and the sizes that
exllamav3 packages from 0.0.29 to 1.6.5 compute.
"""

from __future__ import annotations

from twinrig.sizing.kinds import CONV, LINEAR
from twinrig.sizing.reading import Config, missing
from twinrig.sizing.shape import State, StateKind
from twinrig.sizing.versions import Version

_STORAGE = {"float32": 4, "bfloat16": 2, "float16": 2}


def read_state(config: Config, word: str) -> State:
    """State of a layer of the kind ``word``. Raises UnsizableError for a missing key."""
    if word == CONV:
        width = config.integer("conv_dim") or config.need("hidden_size")
        return State(StateKind.SHORT_CONV, 0, 1, 0, width, config.need("conv_L_cache"))
    if word == LINEAR:
        return _linear(config)
    if config.has("mamba_dt_rank", "time_step_rank") and not _heads(config):
        return _mamba1(config)
    return _mamba2(config)


def _linear(config: Config) -> State:
    if config.has("linear_num_value_heads"):
        return State(
            StateKind.GATED_DELTA,
            config.need("linear_num_key_heads"),
            config.need("linear_num_value_heads"),
            config.need("linear_key_head_dim"),
            config.need("linear_value_head_dim"),
            config.integer("linear_conv_kernel_dim") or 4,
            _STORAGE.get(config.text("mamba_ssm_dtype"), 2),
        )
    part = config.part("linear_attn_config")
    if config.has("linear_num_heads"):
        part = {
            "num_heads": config.need("linear_num_heads"),
            "head_dim": config.need("linear_head_dim"),
            "short_conv_kernel_size": config.integer("linear_conv_kernel_dim"),
        }
    heads, width = part.get("num_heads"), part.get("head_dim")
    if isinstance(heads, int) and isinstance(width, int):
        kernel = part.get("short_conv_kernel_size")
        kernel = kernel if isinstance(kernel, int) else 4
        return State(StateKind.KIMI_DELTA, heads, heads, width, width, kernel, 4)
    if config.has("attn_type_list", "linear_attn_alpha_factor"):
        heads = config.need("num_attention_heads")
        width = config.integer("head_dim") or config.need("hidden_size") // heads
        return State(StateKind.LIGHTNING, heads, heads, width, width, 1, 4)
    raise missing("linear_num_value_heads")


def _heads(config: Config) -> int | None:
    return config.integer("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads")


def _mamba1(config: Config) -> State:
    hidden = config.need("hidden_size")
    inner = config.integer("intermediate_size") if config.has("time_step_rank") else None
    inner = inner or (config.integer("mamba_expand", "expand") or 2) * hidden
    return State(
        StateKind.MAMBA1,
        0,
        inner,
        config.need("mamba_d_state", "state_size"),
        1,
        config.integer("mamba_d_conv", "conv_kernel") or 4,
    )


def _mamba2(config: Config) -> State:
    heads = _heads(config)
    if not heads:
        raise missing("mamba_n_heads")
    width = config.integer("mamba_d_head", "mamba_head_dim", "mamba_headdim", "head_dim")
    if not width:
        inner = config.integer("mamba_d_ssm") or (
            (config.integer("mamba_expand", "expand") or 2) * config.need("hidden_size")
        )
        width = inner // heads
    stored = config.text("mamba_ssm_cache_dtype") or config.text("mamba_ssm_dtype")
    default = 4 if config.has("hybrid_override_pattern") else 2
    return State(
        StateKind.MAMBA2,
        config.integer("mamba_n_groups", "mamba_ngroups", "n_groups") or 1,
        heads,
        config.need("mamba_d_state", "ssm_state_size", "state_size"),
        width,
        config.integer("mamba_d_conv", "conv_kernel") or 4,
        _STORAGE.get(stored, default),
    )


def conv_width(state: State, tp: int = 1) -> int:
    """Columns of the convolution over all cards."""
    if state.kind is StateKind.SHORT_CONV:
        return state.value_dim
    if state.kind is StateKind.MAMBA1:
        return state.inner
    if state.kind is StateKind.MAMBA2:
        groups = state.key_heads
        groups += 0 if groups % tp == 0 else tp - groups  # each card holds the groups of its heads
        return state.inner + 2 * max(groups, 0) * state.key_dim
    return 2 * state.key_heads * state.key_dim + state.inner


def vllm_state_bytes(state: State, tp: int, drafts: int) -> int:
    """Bytes of one state of one layer on one card."""
    if state.kind is StateKind.LIGHTNING:
        return state.value_heads // tp * state.value_dim * state.key_dim * state.state_bytes
    extra = 0 if state.kind is StateKind.MAMBA1 else drafts
    conv = conv_width(state, tp) // tp * (state.kernel - 1 + extra) * 2
    if state.kind is StateKind.SHORT_CONV:
        return conv
    return conv + state.inner // tp * state.key_dim * state.state_bytes


def exl3_state_bytes(state: State, version: Version, drafts: int) -> int:
    """Bytes of one slot of one layer over all cards, in exllamav3.

    Up to 1.6.0 one 32-bit state for each draft token more; 1.6.1 two rows instead; from 1.6.2
    these rows hold 16 bits, except for Mamba-2.
    """
    values = state.inner * state.key_dim
    width = conv_width(state)
    if state.kind is StateKind.SHORT_CONV:
        return 2 * width * (state.kernel + drafts)
    conv = 2 * width * (state.kernel + drafts)
    if version < (1, 6, 1):
        return 4 * values * (1 + drafts) + conv
    stored = 2 if version >= (1, 6, 2) and state.kind is not StateKind.MAMBA2 else 4
    return 2 * values * stored + conv + (1 + drafts) * (2 * width + 6 * state.value_heads)
