from __future__ import annotations

import json
from typing import Any

import pytest

from fixtures.standard_machine import (
    MODEL_CONFIG,
    answer,
    facts,
    missing_program,
    profile_with,
    tabby,
    timed_out,
)
from twinrig.checks.parallel_split import CHECK
from twinrig.domain.checks import CheckResult, Status


def judge(how: Any = facts, profile: Any = None, **changes: Any) -> CheckResult:
    text = json.dumps({**json.loads(MODEL_CONFIG), **changes})
    more = {} if profile is None else {"profile": profile}
    return CHECK.judge(how(answer("model_config", text), **more))


def test_heads_and_groups_that_divide_pass_with_both_engines() -> None:
    assert judge().status is Status.PASS
    assert judge(tabby).status is Status.PASS


def test_heads_that_cannot_be_halved() -> None:
    result = judge(num_attention_heads=21, num_key_value_heads=3, head_dim=128)

    assert result.status is Status.FAIL and result.finding is not None
    assert result.finding.id == "tp-not-divisible"
    assert result.finding.fixes == ("cfg-pp-2", "cfg-tp-1")
    assert "attention heads" in str(result.summary) and result.next_step is not None


def test_single_kv_head_is_copied_by_vllm_and_too_few_for_exllamav3() -> None:
    assert judge(num_key_value_heads=1).status is Status.PASS
    result = judge(tabby, num_key_value_heads=1)

    assert result.status is Status.FAIL and result.finding is not None
    assert result.finding.fixes == ("tabby-disable-tp",)


def test_groups_of_a_quantised_matrix_that_are_cut_in_two() -> None:
    result = judge(intermediate_size=25600 + 128)

    assert result.status is Status.FAIL and result.finding is not None
    assert result.finding.id == "quant-tp-shape"
    unquantised = judge(intermediate_size=25600 + 128, quantization_config=None)
    assert unquantised.status is Status.PASS


def test_kind_without_tensor_parallelism_in_exllamav3() -> None:
    changes = {"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"]}
    shape = {"full_attention_interval": 1}
    result = judge(tabby, **changes, **shape)

    assert result.status is Status.FAIL and result.finding is not None
    assert result.finding.id == "exl3-tp-arch-unsupported"


def test_one_card_needs_no_cut() -> None:
    assert judge(profile=profile_with(tensor_parallel_size=1)).status is Status.PASS


def test_model_whose_shape_is_unknown_is_not_called_unfit() -> None:
    assert judge(num_attention_heads=None, num_hidden_layers=None).status is Status.SKIP


@pytest.mark.parametrize("text", ["", "{", "[1]", "<html>"])
def test_garbage_cannot_tell(text: str) -> None:
    assert CHECK.judge(facts(answer("model_config", text))).status is Status.ERROR


@pytest.mark.parametrize("output", [timed_out("model_config"), missing_program("model_config")])
def test_no_answer_cannot_tell(output: object) -> None:
    assert CHECK.judge(facts(output)).status is Status.ERROR  # type: ignore[arg-type]
