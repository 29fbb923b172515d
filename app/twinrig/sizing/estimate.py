"""One entrance for all engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twinrig.domain.memory import MemoryPlan, SizingRules, SizingSettings
from twinrig.sizing.exl3_plan import plan_exl3
from twinrig.sizing.exl3_weights import TensorTotals
from twinrig.sizing.model import read_model
from twinrig.sizing.shape import ModelShape
from twinrig.sizing.vllm_plan import plan_vllm


@dataclass(frozen=True)
class SizedModel:
    """A model as read from its folder: shape, size of its weight files, EXL3 tensor table.

    ``file_bytes`` and ``tensors`` are None when the folder holds no such files.
    """

    shape: ModelShape
    file_bytes: int | None = None
    tensors: TensorTotals | None = None


def sized_model(
    config: Mapping[str, Any], file_bytes: int | None = None, tensors: TensorTotals | None = None
) -> SizedModel:
    """Read a parsed ``config.json``. Raises UnsizableError that names the key."""
    return SizedModel(read_model(config), file_bytes, tensors)


def estimate(model: SizedModel, settings: SizingSettings) -> MemoryPlan:
    """The plan. Raises UnsizableError, EngineRefusalError or UsageError, each with a sentence."""
    if settings.rules is SizingRules.EXL3:
        return plan_exl3(model.shape, settings, model.tensors)
    return plan_vllm(model.shape, settings, model.file_bytes)
