"""The table of vLLM itself: what people see, and which versions know what."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet

from twinrig.domain.options import OptionKind
from twinrig.engines.vllm import VllmEngine

NEUTRAL_IDS = {
    "context_length",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "kv_cache_dtype",
    "gpu_memory_utilization",
    "max_num_seqs",
    "max_num_batched_tokens",
    "enforce_eager",
    "disable_custom_all_reduce",
    "trust_remote_code",
    "speculative_config",
    "dtype",
    "quantization",
}


def test_ids_that_other_code_names_are_there(engine: VllmEngine) -> None:
    assert {option.id for option in engine.options()} >= NEUTRAL_IDS


def test_nothing_that_twinrig_must_own_is_offered(engine: VllmEngine) -> None:
    keys = {option.engine_key for option in engine.options()}
    assert not keys & {"host", "port", "api-key", "disable-log-stats", "model", "config", "uds"}


def test_removed_options_are_not_offered(engine: VllmEngine) -> None:
    keys = {option.engine_key for option in engine.options()}
    assert not keys & {"swap-space", "calculate-kv-scales", "max-num-partial-prefills"}


def test_texts_are_whole_sentences(engine: VllmEngine) -> None:
    for option in engine.options():
        assert option.help.endswith("."), option.id
        assert not option.label.endswith("."), option.id
        assert option.label[0].isupper(), option.id
        assert "{" not in option.label
        assert len(option.help) <= 130, option.id


def test_dangerous_options_say_so(engine: VllmEngine) -> None:
    risky = {option.id for option in engine.options() if option.risk}
    assert risky >= {"trust_remote_code", "cpu_offload_gb", "kv_cache_dtype", "enable_log_requests"}


def test_lower_bounds_are_plain_versions(engine: VllmEngine) -> None:
    for option in engine.options():
        for specifier in SpecifierSet(option.versions):
            assert specifier.operator == ">=", option.id


@pytest.mark.parametrize(
    ("version", "absent"),
    [
        ("0.11.0", {"performance_mode", "kv_offloading_size", "attention_backend"}),
        ("0.27.1", {"max_num_queued_reqs", "sse_keep_alive_interval"}),
    ],
)
def test_old_versions_lack_new_options(engine: VllmEngine, version: str, absent: set[str]) -> None:
    known = {option.id for option in engine.options(version)}
    assert not known & absent
    assert "context_length" in known
    assert {o.id for o in engine.options("0.32.0")} >= absent


def test_numbers_have_limits(engine: VllmEngine) -> None:
    for option in engine.options():
        if option.kind in (OptionKind.INT, OptionKind.FLOAT):
            assert option.minimum is not None, option.id


def test_simple_mode_shows_few_options(engine: VllmEngine) -> None:
    simple = [option.id for option in engine.options() if not option.expert]
    assert 5 <= len(simple) <= 12
    assert "context_length" in simple and "compilation_config" not in simple


def test_every_option_that_matters_on_one_machine_has_a_row(engine: VllmEngine) -> None:
    keys = {option.engine_key for option in engine.options()}
    wanted = (
        "tensor-parallel-size pipeline-parallel-size enable-expert-parallel gpu-memory-utilization"
        " kv-cache-memory-bytes kv-cache-dtype kv-cache-dtype-skip-layers max-model-len"
        " max-num-seqs max-num-batched-tokens block-size enforce-eager optimization-level"
        " performance-mode"
        " compilation-config cudagraph-capture-sizes max-cudagraph-capture-size"
        " disable-custom-all-reduce device-ids distributed-executor-backend"
        " distributed-timeout-seconds dtype quantization load-format"
        " safetensors-load-strategy speculative-config attention-backend"
        " moe-backend linear-backend cpu-offload-gb offload-backend offload-group-size"
        " kv-offloading-size enable-sleep-mode enable-prefix-caching enable-chunked-prefill"
        " async-scheduling stream-interval chat-template default-chat-template-kwargs"
        " generation-config override-generation-config reasoning-parser enable-auto-tool-choice"
        " tool-call-parser trust-remote-code language-model-only limit-mm-per-prompt hf-overrides"
        " max-num-queued-reqs shutdown-timeout enable-log-requests disable-uvicorn-access-log"
        " uvicorn-log-level sse-keep-alive-interval disable-fastapi-docs"
    )
    assert set(wanted.split()) - keys == set()
