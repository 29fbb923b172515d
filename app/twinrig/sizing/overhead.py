"""Memory that is neither weights nor cache, for vLLM; the part that a calibration replaces.

Constants are fitted to what start-ups left over (``docs/sizing.md`` lists them), not to one case.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinrig.domain.memory import GIB, SizingSettings
from twinrig.sizing.shape import ModelShape
from twinrig.sizing.vllm_rules import VllmRules

CONTEXT = int(0.3 * GIB)
"""CUDA context, cuBLAS and kernels that are loaded while profiling."""
NCCL = int(0.35 * GIB)
"""Buffers of the collectives, with two cards or more, without direct access."""
FRAGMENTS = int(0.2 * GIB)
ENCODER_PROFILE = int(1.0 * GIB)
"""Trial run of an image encoder at its largest input."""
_GRAPH_BASE = int(0.12 * GIB)
_GRAPH_EACH = int(0.0022 * GIB)
_GRAPH_SEQUENCES = 256
_STATE_GRAPHS = int(0.3 * GIB)
_LOGIT_BYTES = 6


@dataclass(frozen=True)
class Overhead:
    """Bytes on one card."""

    activations: int
    runtime: int
    graphs: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.activations + self.runtime + self.graphs


def vllm_overhead(shape: ModelShape, settings: SizingSettings, rules: VllmRules) -> Overhead:
    """Estimate of one card's overhead."""
    tp = settings.tensor_parallel or 1
    cards = tp * settings.pipeline_parallel
    runtime = CONTEXT + (NCCL if cards > 1 else 0)
    peak = max(_forward(shape, rules.batched_tokens, tp), _sampler(shape, rules))
    if shape.vision is not None and not settings.text_only:
        peak += ENCODER_PROFILE
    graphs = 0 if settings.enforce_eager else _graphs(shape, rules)
    return Overhead(FRAGMENTS + peak, runtime, graphs)


def _forward(shape: ModelShape, tokens: int, tp: int) -> int:
    """Peak of one step: the residual stream and the widest feed-forward part, 16 bits each."""
    widest = 0
    for layer, _ in shape.kinds:
        mlp = layer.mlp
        if mlp is None:
            continue
        active = max(mlp.width, mlp.shared_width) // tp
        widest = max(widest, 2 * active, 2 * mlp.expert_width // tp * _active(shape))
    for state, _ in shape.states:
        widest = max(widest, 2 * state.inner // tp)
    return tokens * (4 * shape.hidden + widest) * 2


def _active(shape: ModelShape) -> int:
    """Experts whose results are held at once for a token."""
    return 8 if shape.moe else 0


def _sampler(shape: ModelShape, rules: VllmRules) -> int:
    """Logits of one step, in 16 bits and, for the sampler, in 32."""
    return min(rules.sequences, rules.batched_tokens) * shape.vocabulary * _LOGIT_BYTES


def _graphs(shape: ModelShape, rules: VllmRules) -> int:
    size = _GRAPH_BASE + _GRAPH_EACH * min(rules.sequences, _GRAPH_SEQUENCES)
    return size + (_STATE_GRAPHS if shape.hybrid else 0)
