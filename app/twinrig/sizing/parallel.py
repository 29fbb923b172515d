"""What the engines say about cards and heads that do not go together."""

from __future__ import annotations

from twinrig.domain.memory import EngineRefusalError
from twinrig.messages import message
from twinrig.sizing.shape import ModelShape


def check_vllm_parallel(shape: ModelShape, tp: int, pp: int) -> None:
    """Raises EngineRefusalError with vLLM's own sentence when heads cannot be divided."""
    for attention, _ in shape.attentions:
        if attention.heads % tp:
            raise EngineRefusalError(
                message(
                    "Total number of attention heads ({heads}) must be divisible by "
                    "tensor parallel size ({tp}).",
                    heads=attention.heads,
                    tp=tp,
                ),
                message(
                    "Set the tensor parallel size to one of: {sizes}.",
                    sizes=_divisors(attention.heads),
                ),
            )
        kv = attention.kv_heads
        if attention.latent is None and kv % tp and tp % kv:
            raise EngineRefusalError(
                message(
                    "{heads} KV heads can neither be divided over {tp} cards nor copied evenly.",
                    heads=kv,
                    tp=tp,
                ),
                message("Set the tensor parallel size to one of: {sizes}.", sizes=_divisors(kv)),
            )
    for state, _ in shape.states:
        if state.value_heads > 1 and state.value_heads % tp:
            raise EngineRefusalError(
                message("{count} is not divisible by {tp}.", count=state.value_heads, tp=tp),
                message(
                    "Set the tensor parallel size to one of: {sizes}.",
                    sizes=_divisors(state.value_heads),
                ),
            )
    if pp > len(shape.layers):
        raise EngineRefusalError(
            message(
                "There are more pipeline stages ({pp}) than layers ({layers}).",
                pp=pp,
                layers=len(shape.layers),
            ),
            message("Lower the pipeline parallel size."),
        )


def _divisors(number: int) -> str:
    return ", ".join(str(n) for n in range(1, min(number, 64) + 1) if number % n == 0)
