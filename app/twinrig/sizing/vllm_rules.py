"""Defaults and definitions of vLLM that changed between versions, and what they decide."""

from __future__ import annotations

from dataclasses import dataclass

from twinrig.domain.memory import GIB, SizingSettings
from twinrig.sizing.versions import NEWEST, Version, version_or_newest

_V1 = (0, 8)
"""Before it the old engine ran: one block table, no chunked prefill."""
_WINDOW_GROUPS = (0, 10)
_CAPACITY_BY_REQUEST = (0, 20)
_GRAPHS_IN_BUDGET = (0, 21)
_PREFIX_CACHED_STATES = (0, 28)
"""From 0.28.0 (vllm-project/vllm#50991) prefix caching is on for hybrids; before, opt-in."""
_CHUNKED_FROM = 32768
"""The old engine read longer contexts in pieces by itself."""
_NULL_BLOCK = (0, 32)
_TWO_BATCHES = (0, 32)
_WHOLE_MODEL_CHECK = ((0, 14), (0, 16))
"""These compare the cache of all pipeline stages with one card's pool (vllm-project/vllm#34076)."""
_LARGE_CARD = 70 * GIB
_LARGEST_CARD = 160 * GIB


@dataclass(frozen=True)
class VllmRules:
    """Rules of one start: version, batch limits and how requests hold blocks.

    Without a stated version the most demanding of the known rules counts everywhere.
    """

    version: Version
    batched_tokens: int
    sequences: int
    aligned: bool
    window_groups: bool
    stated_version: bool

    @property
    def in_flight(self) -> int:
        """Tokens scheduled but not settled: one batch, two with asynchronous scheduling."""
        return self.batched_tokens * (2 if self.version >= _TWO_BATCHES else 1)

    @property
    def null_block(self) -> int:
        """Blocks that are never given to a request."""
        return 1 if self.stated_version and self.version >= _NULL_BLOCK else 0

    @property
    def checks_whole_model(self) -> bool:
        """Whether the need of a request is that of all pipeline stages together."""
        first, fixed = _WHOLE_MODEL_CHECK
        return not self.stated_version or first <= self.version < fixed

    @property
    def counts_requests(self) -> bool:
        """The printed size is concurrency times context; before, blocks over groups."""
        return self.version >= _CAPACITY_BY_REQUEST

    @property
    def graphs_in_budget(self) -> bool:
        """Whether an estimate of the CUDA graphs is taken off the pool."""
        return self.version >= _GRAPHS_IN_BUDGET


def vllm_rules(settings: SizingSettings, context: int | None) -> VllmRules:
    """Rules for these settings; what is not set is the default of version and card."""
    version = version_or_newest(settings.engine_version)
    largest = max((card.total_bytes for card in settings.cards), default=0)
    batched, sequences = _batch_defaults(largest)
    if version < _V1:  # whole prompts are read in one step
        whole = (context or 0) <= _CHUNKED_FROM
        batched, sequences = max(context or 0, 2048) if whole else 2048, 256
    return VllmRules(
        version=version,
        batched_tokens=settings.max_num_batched_tokens or batched,
        sequences=settings.max_num_seqs or sequences,
        aligned=_aligned(settings, version),
        window_groups=version >= _WINDOW_GROUPS and settings.hybrid_manager,
        stated_version=version != NEWEST,
    )


def _batch_defaults(card_bytes: int) -> tuple[int, int]:
    if card_bytes >= _LARGEST_CARD:
        return 16384, 1024
    return (8192, 1024) if card_bytes >= _LARGE_CARD else (2048, 256)


def _aligned(settings: SizingSettings, version: Version) -> bool:
    if settings.mamba_cache_mode in ("none", "align", "all"):
        return settings.mamba_cache_mode != "none"
    if settings.prefix_caching is not None:
        return settings.prefix_caching
    return version >= _PREFIX_CACHED_STATES
