"""vLLM's ``/metrics`` body as numbers. Names as really served by vLLM 0.32, the same in 0.33."""

from __future__ import annotations

from twinrig.domain.metrics import EngineMetrics
from twinrig.engines import prometheus

_GENERATION = "vllm:generation_tokens_total"
_PROMPT = "vllm:prompt_tokens_total"
_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_KV_USAGE = "vllm:kv_cache_usage_perc"  # 0 to 1 in spite of its name
_PREFIX_QUERIES = "vllm:prefix_cache_queries_total"
_PREFIX_HITS = "vllm:prefix_cache_hits_total"
_PREEMPTIONS = "vllm:num_preemptions_total"
_DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
_FIRST_SUM = "vllm:time_to_first_token_seconds_sum"
_FIRST_COUNT = "vllm:time_to_first_token_seconds_count"
_INTER_SUM = "vllm:inter_token_latency_seconds_sum"
_INTER_COUNT = "vllm:inter_token_latency_seconds_count"
_CACHE_INFO = "vllm:cache_config_info"
_PROCESS_START = "process_start_time_seconds"
_WANTED = frozenset(
    {_GENERATION, _PROMPT, _RUNNING, _WAITING, _KV_USAGE, _PREFIX_QUERIES, _PREFIX_HITS}
    | {_PREEMPTIONS, _PROCESS_START, _DRAFTED, _ACCEPTED, _FIRST_SUM, _FIRST_COUNT}
    | {_INTER_SUM, _INTER_COUNT}
)


def parse_vllm_metrics(text: str) -> EngineMetrics:
    """Counters and gauges of all engines together; what is not served stays None.

    Never raises: damaged lines are skipped. With several engines counters and queue lengths
    are sums, the KV cache usage is the mean.
    """
    values = prometheus.collect(text, _WANTED)
    sums = {name: sum(found) for name, found in values.items()}
    usage = values.get(_KV_USAGE)
    start = values.get(_PROCESS_START)
    return EngineMetrics(
        generation_tokens=sums.get(_GENERATION),
        prompt_tokens=sums.get(_PROMPT),
        requests_running=sums.get(_RUNNING),
        requests_waiting=sums.get(_WAITING),
        kv_cache_usage=sum(usage) / len(usage) if usage else None,
        kv_cache_size_tokens=_cache_size(text),
        prefix_queries=sums.get(_PREFIX_QUERIES),
        prefix_hits=sums.get(_PREFIX_HITS),
        preemptions=sums.get(_PREEMPTIONS),
        process_start_s=start[0] if start else None,
        draft_tokens=sums.get(_DRAFTED),
        accepted_tokens=sums.get(_ACCEPTED),
        first_token_seconds=sums.get(_FIRST_SUM),
        first_tokens=sums.get(_FIRST_COUNT),
        inter_token_seconds=sums.get(_INTER_SUM),
        inter_tokens=sums.get(_INTER_COUNT),
    )


def _cache_size(text: str) -> int | None:
    """Tokens that the sized KV cache holds, from the labels of the information series."""
    total: int | None = None
    position = text.find(f"{_CACHE_INFO}{{")
    while position >= 0:
        end = text.find("\n", position)
        line = text[position:] if end < 0 else text[position:end]
        value = prometheus.label(line, "kv_cache_size_tokens")
        if value is not None and value.isascii() and value.isdigit() and len(value) < 19:
            total = (total or 0) + int(value)
        position = text.find(f"{_CACHE_INFO}{{", position + 1)
    return total
