from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.standard_machine import INSTALL, PROFILE, facts, profile_with
from twinrig.domain.checks import Finding
from twinrig.domain.fixes import FixPlan, ProfileStep
from twinrig.domain.profile import EngineRef, Profile
from twinrig.fixes.edit_table import EDITS
from twinrig.fixes.planning import NotForThisEngineError, NothingToChangeError, UndecidedError
from twinrig.fixes.profile_edits import ProfileEditFix

ROWS = {row.fix_id: row for row in EDITS}
DEMO = replace(PROFILE, engine=EngineRef("tabbyapi"))


def plan(
    fix_id: str, profile: Profile | None = PROFILE, version: str = "", **params: str
) -> FixPlan:
    finding = Finding("x", tuple(params.items()))
    install = replace(INSTALL, version=version) if version else None
    return ProfileEditFix(ROWS[fix_id]).plan(finding, facts(profile=profile, install=install))


def step_of(made: FixPlan) -> ProfileStep:
    (step,) = made.steps
    assert isinstance(step, ProfileStep)
    return step


def test_nccl_fix_sets_exactly_its_variable_with_the_reason() -> None:
    made = plan("env-nccl-cumem-0")
    step = step_of(made)

    assert step.profile_id == "qwen"
    assert step.env == {"NCCL_CUMEM_ENABLE": "0"}
    assert step.settings == {} and step.fields == {}
    assert "WSL2" in step.reason
    assert made.needs_restart and not made.needs_root and made.reversible
    assert made.risk is not None


@pytest.mark.parametrize(
    ("fix_id", "env"),
    [
        ("env-nccl-p2p-disable", {"NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1"}),
        ("env-nccl-socket-lo", {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}),
        ("env-spawn", {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}),
        ("env-device-order", {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        ("model-use-local", {"HF_HUB_OFFLINE": "1"}),
    ],
)
def test_other_variables(fix_id: str, env: dict[str, str]) -> None:
    assert step_of(plan(fix_id)).env == env


@pytest.mark.parametrize(
    ("fix_id", "settings"),
    [
        ("flag-disable-custom-ar", {"disable_custom_all_reduce": True}),
        ("cfg-tp-1", {"tensor_parallel_size": 1, "pipeline_parallel_size": None}),
        ("cfg-pp-2", {"tensor_parallel_size": 1, "pipeline_parallel_size": 2}),
        ("cfg-kv-fp8", {"kv_cache_dtype": "fp8"}),
        ("flag-dtype-half", {"dtype": "half"}),
    ],
)
def test_settings(fix_id: str, settings: dict[str, object]) -> None:
    assert step_of(plan(fix_id)).settings == settings


def test_what_is_set_already_cannot_be_the_way_out() -> None:
    profile = profile_with(env={"NCCL_CUMEM_ENABLE": "0"})

    with pytest.raises(NothingToChangeError):
        plan("env-nccl-cumem-0", profile)
    with pytest.raises(NothingToChangeError):
        plan("cfg-tp-2")
    with pytest.raises(NothingToChangeError):
        plan("flag-no-sleep-mode")


def test_other_value_of_the_same_variable_is_replaced() -> None:
    profile = profile_with(env={"NCCL_CUMEM_ENABLE": "1"})

    assert step_of(plan("env-nccl-cumem-0", profile)).env == {"NCCL_CUMEM_ENABLE": "0"}


def test_a_profile_is_needed() -> None:
    with pytest.raises(UndecidedError):
        plan("env-nccl-cumem-0", None)


@pytest.mark.parametrize("fix_id", ["flag-disable-custom-ar", "env-spawn", "cfg-kv-fp8"])
def test_fixes_of_vllm_are_refused_elsewhere(fix_id: str) -> None:
    with pytest.raises(NotForThisEngineError):
        plan(fix_id, DEMO)


def test_fixes_for_any_engine_are_not() -> None:
    assert step_of(plan("env-nccl-p2p-disable", DEMO)).env["NCCL_P2P_DISABLE"] == "1"


@pytest.mark.parametrize(
    ("version", "known"),
    [("0.23.0", False), ("0.24.0", True), ("0.24.0rc1+cu129", False), ("0.33.0+cu130", True)],
)
def test_versions_that_do_not_know_the_variable_are_refused(version: str, known: bool) -> None:
    if known:
        assert plan("env-vllm-pin-memory", version=version).steps
    else:
        with pytest.raises(NotForThisEngineError):
            plan("env-vllm-pin-memory", version=version)


def test_unreadable_version_is_not_a_reason_to_refuse() -> None:
    assert plan("env-vllm-pin-memory", version="main").steps


@pytest.mark.parametrize(
    ("params", "present", "expected"),
    [
        ({"estimated": "11000"}, 16384, 10752),  # rounded down to a multiple of 256
        ({"limit": "8192"}, 16384, 8192),
        ({"estimated": "200"}, 16384, 1024),
        ({}, 16384, 8192),
        ({"estimated": "nan"}, 16384, 8192),
        ({"estimated": "40000"}, 32768, 32768 - 0),
    ],
)
def test_context_is_lowered_to_what_was_measured_or_halved(
    params: dict[str, str], present: int, expected: int
) -> None:
    profile = profile_with(context_length=present)
    if expected == present:
        with pytest.raises(NothingToChangeError):
            plan("cfg-lower-max-len", profile, **params)
    else:
        made = plan("cfg-lower-max-len", profile, **params)
        assert step_of(made).settings == {"context_length": expected}


def test_a_fix_that_lowers_never_raises() -> None:
    with pytest.raises(NothingToChangeError):
        plan("cfg-lower-max-len", profile_with(context_length=512))


def test_unset_context_without_a_measurement_is_undecided() -> None:
    profile = replace(PROFILE, settings={})

    with pytest.raises(UndecidedError):
        plan("cfg-lower-max-len", profile)
    assert step_of(plan("cfg-lower-max-len", profile, estimated="5000")).settings == {
        "context_length": 4864
    }


@pytest.mark.parametrize(
    ("params", "present", "expected"),
    [
        # (20.9 - 0.2) / 24 = 0.8625
        ({"free_gib": "20.9", "total_gib": "24.0"}, 0.9, 0.86),
        ({"free_gib": "2", "total_gib": "24.0"}, 0.9, 0.3),
        ({"free_gib": "0.1", "total_gib": "24.0"}, 0.9, 0.85),
        ({"free_gib": "20", "total_gib": "0"}, 0.9, 0.85),
        ({}, 0.9, 0.85),
        ({}, None, 0.85),
        ({}, 0.32, 0.3),
    ],
)
def test_share_of_memory_follows_what_is_free(
    params: dict[str, str], present: float | None, expected: float
) -> None:
    settings = {} if present is None else {"gpu_memory_utilization": present}
    made = plan("cfg-lower-gpu-util", profile_with(**settings), **params)

    assert step_of(made).settings == {"gpu_memory_utilization": pytest.approx(expected)}


def test_share_is_raised_up_to_the_limit() -> None:
    made = plan("cfg-raise-gpu-util", profile_with(gpu_memory_utilization=0.96))

    assert step_of(made).settings == {"gpu_memory_utilization": 0.97}


@pytest.mark.parametrize(("present", "expected"), [(8, 4), (3, 1), (None, 16)])
def test_parallel_requests_are_halved(present: int | None, expected: int) -> None:
    settings = {} if present is None else {"max_num_seqs": present}

    made = plan("cfg-lower-max-num-seqs", profile_with(**settings))
    assert step_of(made).settings == {"max_num_seqs": expected}


def test_one_request_at_a_time_cannot_be_lowered() -> None:
    with pytest.raises(NothingToChangeError):
        plan("cfg-lower-max-num-seqs", profile_with(max_num_seqs=1))


def test_fields_come_from_the_finding() -> None:
    made = plan("cfg-model-path", near="/m/b")
    assert step_of(made).fields == {"model.path": "/m/b"}

    with pytest.raises(UndecidedError):
        plan("cfg-model-path")


def test_trust_remote_code_tells_its_risk() -> None:
    made = plan("flag-trust-remote-code")

    assert "your rights" in str(made.risk)
