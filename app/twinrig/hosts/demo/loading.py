"""The load of the demo engine: phases, memory that fills up, and faults that end it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from twinrig import __version__
from twinrig.domain.server import Phase
from twinrig.hosts.demo.config import DemoConfig
from twinrig.hosts.demo.log import DemoLog
from twinrig.hosts.demo.models import LARGE, MODELS, model_at
from twinrig.hosts.demo.physics import (
    CARD_TOTAL_BYTES,
    GIB,
    IDLE_USED_BYTES,
    Memory,
    kv_bytes_per_token,
    memory_of,
)

SHARDS = 8
PHASE_SECONDS = {
    Phase.IMPORT: 0.8,
    Phase.CONFIG: 0.3,
    Phase.WORKERS: 0.9,
    Phase.WEIGHTS: 3.2,
    Phase.COMPILE: 1.2,
    Phase.MEMORY: 0.6,
    Phase.GRAPHS: 0.8,
    Phase.LISTEN: 0.2,
}
"""About 8 s in all, at a load scale of 1."""


class LoadFault(Exception):
    """The load ends here; the text is the line that a real engine would log."""


@dataclass
class Rig:
    """What is on the cards now; the publisher reads it while the load changes it."""

    used_bytes: tuple[int, int] = IDLE_USED_BYTES
    loading_percent: float = 0.0

    def occupy(self, weights: tuple[int, int], rest: tuple[int, int] = (0, 0)) -> None:
        """Bytes of the engine come on top of what is used anyway."""
        first, second = IDLE_USED_BYTES
        self.used_bytes = (first + weights[0] + rest[0], second + weights[1] + rest[1])

    def occupy_all(self, memory: Memory) -> None:
        """What a loaded engine holds."""
        self.occupy(memory.weights_bytes, _sum(memory.kv_bytes, memory.runtime_bytes))


class Loader:
    """Runs the phases in order. ``sleep`` gets seconds that are scaled already."""

    def __init__(
        self,
        config: DemoConfig,
        log: DemoLog,
        rig: Rig,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._config = config
        self._log = log
        self._rig = rig
        self._sleep = sleep
        self._model = model_at(config.model_path) or LARGE
        self._memory = memory_of(
            self._model,
            config.card_count,
            config.gpu_memory_utilization,
            config.kv_cache_dtype,
        )

    async def load(self) -> Memory:
        """All phases up to, and without, listening. Raises LoadFault."""
        await self._phase(Phase.IMPORT, f"Demo engine of Twinrig {__version__}, no model is run")
        await self._phase(Phase.CONFIG, f"Using max model len {self._config.context_length}")
        check_model(self._config)
        for rank in range(self._config.card_count):
            self._log.phase(
                Phase.WORKERS,
                f"world_size={self._config.card_count} rank={rank} backend=simulated",
            )
        await self._pause(Phase.WORKERS)
        check_free_memory(self._config.gpu_memory_utilization, self._config.card_count)
        await self._weights()
        self._rig.loading_percent = 35.0
        await self._phase(Phase.COMPILE, "Compiling a graph for compile range (1, 2048)")
        self._rig.loading_percent = 90.0
        await self._kv_cache()
        await self._phase(Phase.GRAPHS, "Capturing CUDA graphs (simulated)", 0)
        self._log.phase(Phase.GRAPHS, "Capturing CUDA graphs (simulated)", 100)
        self._rig.loading_percent = 0.0
        return self._memory

    async def _weights(self) -> None:
        self._rig.loading_percent = 12.0
        fits = self._config.fault != "oom" and _fits(self._memory)
        first, second = self._memory.weights_bytes
        self._log.phase(Phase.WEIGHTS, f"Starting to load model {self._config.model_path}", 0)
        for shard in range(1, SHARDS + 1):
            await self._pause(Phase.WEIGHTS, SHARDS)
            if not fits and shard == SHARDS - 2:
                raise LoadFault(
                    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 340.00 MiB. "
                    f"GPU 0 has a total capacity of {CARD_TOTAL_BYTES / GIB:.2f} GiB of which "
                    "112.00 MiB is free."
                )
            self._rig.occupy((first * shard // SHARDS, second * shard // SHARDS))
            self._log.phase(
                Phase.WEIGHTS,
                f"Loading safetensors checkpoint shards: Completed | {shard}/{SHARDS}",
                100 * shard // SHARDS,
            )

    async def _kv_cache(self) -> None:
        self._log.phase(Phase.MEMORY, "Profiling memory for the KV cache")
        await self._pause(Phase.MEMORY)
        memory, length = self._memory, self._config.context_length
        available_gib = memory.kv_bytes[0] / GIB
        self._log.phase(Phase.MEMORY, f"Available KV cache memory: {available_gib:.2f} GiB")
        if memory.kv_tokens < 16:
            raise LoadFault("ValueError: No available memory for the cache blocks.")
        if memory.kv_tokens < length:
            per_token = kv_bytes_per_token(self._model, self._config.kv_cache_dtype)
            needed_gib = length * per_token / self._config.card_count / GIB
            raise LoadFault(
                "ValueError: To serve at least one request with the model's max seq len "
                f"({length}), ({needed_gib:.2f} GiB KV cache is needed, which is larger than the "
                f"available KV cache memory ({available_gib:.2f} GiB). Based on the available "
                f"memory, the estimated maximum model length is {memory.kv_tokens}."
            )
        self._rig.occupy_all(memory)
        self._log.phase(
            Phase.MEMORY,
            f"GPU KV cache size: {memory.kv_tokens:,} tokens, Maximum concurrency for "
            f"{length:,} tokens per request: {memory.kv_tokens / length:.2f}x",
        )

    async def _phase(self, phase: Phase, text: str, percent: int | None = None) -> None:
        self._log.phase(phase, text, percent)
        await self._pause(phase)

    async def _pause(self, phase: Phase, parts: int = 1) -> None:
        await self._sleep(PHASE_SECONDS[phase] / parts * self._config.load_scale)


def check_model(config: DemoConfig) -> None:
    """The folder must be one of the rig's, and know so long a context. Raises LoadFault."""
    model = model_at(config.model_path)
    if model is None:
        raise LoadFault(
            "ValueError: Invalid repository ID or local directory specified: "
            f"'{config.model_path}'. The demo rig has: {', '.join(MODELS)}"
        )
    if config.context_length > model.max_position:
        raise LoadFault(
            f"ValueError: User-specified max_model_len ({config.context_length}) is greater than "
            f"the derived max_model_len (max_position_embeddings={model.max_position})."
        )


def check_free_memory(gpu_memory_utilization: float, cards: int) -> None:
    """The share must be free before the load; the desktop holds a part of the first card.

    Raises LoadFault with the words of vLLM.
    """
    wanted = CARD_TOTAL_BYTES * gpu_memory_utilization
    for index in range(cards):
        free = CARD_TOTAL_BYTES - IDLE_USED_BYTES[index]
        if wanted > free:
            raise LoadFault(
                f"ValueError: Free memory on device cuda:{index} ({free / GIB:.2f}/"
                f"{CARD_TOTAL_BYTES / GIB:.2f} GiB) on startup is less than desired GPU memory "
                f"utilization ({gpu_memory_utilization}, {wanted / GIB:.2f} GiB). Decrease GPU "
                "memory utilization or reduce GPU memory used by other processes."
            )


def _fits(memory: Memory) -> bool:
    used = zip(memory.weights_bytes, IDLE_USED_BYTES, strict=True)
    return all(weights + idle < CARD_TOTAL_BYTES for weights, idle in used)


def _sum(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    return first[0] + second[0], first[1] + second[1]
