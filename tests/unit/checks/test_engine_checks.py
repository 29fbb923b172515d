"""Checks that are about one engine: versions, allocator, compiler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fixtures.standard_machine import (
    INSTALL,
    TABBY_ENVIRONMENT,
    TABBY_PROFILE,
    answer,
    facts,
    missing_program,
    on_linux,
    profile_with,
    tabby,
    timed_out,
)
from twinrig.checks import allocator_settings, compiler, exllamav3_version, nccl_proof, vllm_uva
from twinrig.checks.profile_facts import rank_count
from twinrig.domain import fingerprint
from twinrig.domain.checks import CheckResult, Facts, Status
from twinrig.domain.profile import EnvEntry, Profile

EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def kind(result: CheckResult) -> str:
    return result.finding.id if result.finding else ""


# --- vLLM under WSL


def vllm(version: str, env: dict[str, str] | None = None) -> Facts:
    return facts(install=replace(INSTALL, version=version), profile=profile_with(env=env))


@pytest.mark.parametrize(
    ("version", "env", "status"),
    [
        ("0.19.1", {}, Status.PASS),
        ("0.21.0", {}, Status.PASS),
        ("0.21.0", {"VLLM_USE_V2_MODEL_RUNNER": "1"}, Status.FAIL),
        ("0.22.1", {}, Status.WARN),
        ("0.22.1", {"VLLM_WSL2_ENABLE_PIN_MEMORY": "1"}, Status.WARN),
        ("0.23.0", {"VLLM_USE_V2_MODEL_RUNNER": "0"}, Status.PASS),
        ("0.24.0", {}, Status.WARN),
        ("0.24.0", {"VLLM_WSL2_ENABLE_PIN_MEMORY": "1"}, Status.PASS),
        ("0.25.1", {}, Status.FAIL),
        ("0.29.0+cu129", {}, Status.FAIL),
        ("0.29.0", {"VLLM_WSL2_ENABLE_PIN_MEMORY": "0"}, Status.FAIL),
        ("0.29.0", {"VLLM_WSL2_ENABLE_PIN_MEMORY": "1"}, Status.PASS),
        ("0.30.0", {}, Status.PASS),
        ("0.33.0", {}, Status.PASS),
        ("dev", {}, Status.ERROR),
        ("", {}, Status.ERROR),
    ],
)
def test_uva_by_version_and_what_the_profile_sets(
    version: str, env: dict[str, str], status: Status
) -> None:
    result = vllm_uva.judge(vllm(version, env))

    assert result.status is status
    assert kind(result) == ("vllm-uva-wsl" if status in (Status.FAIL, Status.WARN) else "")


def test_uva_fix_that_the_version_does_not_know_is_not_offered() -> None:
    old, new = vllm_uva.judge(vllm("0.23.0")).finding, vllm_uva.judge(vllm("0.27.1")).finding
    assert old is not None and new is not None
    assert old.fixes == ("env-vllm-runner-v1", "pkg-upgrade-engine")
    assert new.fixes[0] == "env-vllm-pin-memory"


def test_uva_is_no_matter_without_windows_and_not_told_without_an_answer() -> None:
    assert (
        vllm_uva.judge(on_linux(install=replace(INSTALL, version="0.29.0"))).status is Status.PASS
    )
    for output in (timed_out("system"), missing_program("system")):
        assert vllm_uva.judge(facts(output)).status is Status.ERROR


# --- exllamav3


def exl3(version: str, **changes: Any) -> Facts:
    text = TABBY_ENVIRONMENT.replace("1.6.5+cu128.torch2.9.0", version)
    return tabby(answer("environment", text), **changes)


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("0.0.43+cu128.torch2.9.0", "exl3-tp-hostptr"),
        ("1.0.0+cu128.torch2.9.0", "exl3-tp-hostptr"),
        ("1.1.0+cu128.torch2.9.0", "exl3-tp-sync-timeout"),
        ("1.5.3+cu132.torch2.11.0", "exl3-tp-sync-timeout"),
        ("1.6.0+cu132.torch2.11.0", ""),
        ("1.6.5", "exl3-source-package"),
    ],
)
def test_exllamav3_faults_by_version(version: str, found: str) -> None:
    assert kind(exllamav3_version.judge(exl3(version))) == found


def test_layer_split_is_not_concerned_by_faults_of_tensor_parallelism() -> None:
    profile = replace(TABBY_PROFILE, settings={"tensor_parallel": False})
    result = exllamav3_version.judge(exl3("0.0.43+cu128.torch2.9.0", profile=profile))
    assert result.status is Status.PASS


@pytest.mark.parametrize(
    "output",
    [
        timed_out("environment"),
        missing_program("environment"),
        answer("environment", ""),
        answer("environment", "dist exllamav3 nonsense\n"),
    ],
)
def test_exllamav3_that_cannot_be_read_is_no_finding(output: Any) -> None:
    result = exllamav3_version.judge(tabby(output))
    assert result.status is Status.ERROR and result.finding is None


def test_tabbys_switch_counts_as_two_ranks() -> None:
    assert rank_count(TABBY_PROFILE) == 2
    three = replace(TABBY_PROFILE, env={"CUDA_VISIBLE_DEVICES": EnvEntry("0,1,2")})
    assert rank_count(three) == 3
    assert rank_count(replace(TABBY_PROFILE, settings={"tensor_parallel": False})) == 1


# --- allocator


def allocator(profile: Profile) -> CheckResult:
    return allocator_settings.judge(facts(profile=profile))


def test_allocator_left_alone_is_fine() -> None:
    assert allocator(profile_with()).status is Status.PASS
    other = profile_with(env={"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128"})
    assert allocator(other).status is Status.PASS


def test_expandable_segments_break_vllms_all_reduce_unless_it_is_off() -> None:
    result = allocator(profile_with(env=EXPANDABLE))
    assert result.status is Status.WARN and kind(result) == "custom-ar-vmm-invalid-argument"
    for settings in ({"disable_custom_all_reduce": True}, {"tensor_parallel_size": 1}):
        assert allocator(profile_with(env=EXPANDABLE, **settings)).status is Status.PASS


def test_sleep_mode_excludes_expandable_segments() -> None:
    result = allocator(profile_with(env=EXPANDABLE, enable_sleep_mode=True))
    assert result.status is Status.FAIL and kind(result) == "cumem-expandable-assert"


def test_tabby_overwrites_the_allocator_unless_told_not_to() -> None:
    env = {name: EnvEntry(value) for name, value in EXPANDABLE.items()}
    profile = replace(TABBY_PROFILE, env=env)
    result = allocator(profile)
    assert result.status is Status.WARN and kind(result) == "tabby-malloc-async-override"
    kept = replace(profile, settings={**profile.settings, "cuda_malloc_async": False})
    assert allocator(kept).status is Status.PASS


def test_allocator_without_a_profile_is_not_asked() -> None:
    assert allocator_settings.judge(facts(profile=None)).status is Status.SKIP


# --- compiler


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cc=/usr/bin/gcc\ninclude=/i\nheaders=yes\n", ""),
        ("cc=/usr/bin/gcc\n", ""),
        ("cc=none\ninclude=/i\nheaders=no\n", "jit-no-compiler"),
        ("cc=/usr/bin/gcc\ninclude=/usr/include/python3.12\nheaders=no\n", "jit-python-headers"),
    ],
)
def test_compiler_and_headers(text: str, found: str) -> None:
    assert kind(compiler.judge(facts(answer("compiler", text)))) == found


def test_compiler_that_the_profile_names_counts() -> None:
    given = facts(answer("compiler", "cc=none\n"), profile=profile_with(env={"CC": "/opt/cc"}))
    assert compiler.judge(given).status is Status.PASS


@pytest.mark.parametrize(
    "output", [timed_out("compiler"), missing_program("compiler"), answer("compiler", "??")]
)
def test_compiler_could_not_tell(output: Any) -> None:
    assert compiler.judge(facts(output)).status is Status.ERROR


# --- what was proven


def proven(**versions: str) -> Facts:
    reason = f"NCCL experiment, settings V2: all values right {fingerprint.to_text(versions)}"
    profile = replace(profile_with(), env={"NCCL_CUMEM_ENABLE": EnvEntry("0", reason)})
    return facts(profile=profile)


NOW = {
    "driver": "591.44",
    "kernel": "6.6.114.1-microsoft-standard-WSL2",
    "torch": "2.9.0+cu128",
    "nccl": "2.27.5",
    "vllm": INSTALL.version,
}


def test_proof_with_the_present_versions_stands() -> None:
    assert nccl_proof.judge(proven(**NOW)).status is Status.PASS
    assert nccl_proof.judge(facts()).status is Status.PASS
    assert nccl_proof.judge(facts(profile=None)).status is Status.SKIP


@pytest.mark.parametrize("name", ["driver", "kernel", "torch", "vllm"])
def test_each_changed_version_asks_for_a_new_proof(name: str) -> None:
    result = nccl_proof.judge(proven(**{**NOW, name: "1.2.3"}))

    assert result.status is Status.WARN and kind(result) == "nccl-proof-stale"
    assert result.finding is not None and result.finding.fixes == ("nccl-experiment",)
    assert f"{name}: 1.2.3 -> {NOW[name]}" in result.evidence[0].text


def test_version_that_cannot_be_read_now_is_not_called_changed() -> None:
    given = proven(**NOW)
    assert nccl_proof.judge(replace(given, install=None)).status is Status.PASS
    silent = {**given.probes, "gpu": timed_out("gpu")}
    assert nccl_proof.judge(replace(given, probes=silent)).status is Status.ERROR
