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
        ("1.1.0+cu128.torch2.9.0", ""),
        ("1.6.5", "exl3-source-package"),
    ],
)
def test_exllamav3_faults_by_version(version: str, found: str) -> None:
    assert kind(exllamav3_version.judge(exl3(version))) == found


LINUX = answer("system", "kernel=6.8.0\nwsl=no\nos=Debian\nuser=u\n")
MTP = {"draft_mode": "mtp", "max_batch_size": 8}
WHEEL = "+cu128.torch2.9.0"
UPGRADE_THEN_SPLIT = ("pkg-upgrade-exllamav3", "tabby-disable-tp")


def exl3_with(version: str, on_wsl: bool = True, **settings: Any) -> CheckResult:
    profile = replace(TABBY_PROFILE, settings={"tensor_parallel": False, **settings})
    found = exl3(f"{version}{WHEEL}", profile=profile)
    if not on_wsl:
        found = replace(found, probes={**found.probes, "system": LINUX})
    return exllamav3_version.judge(found)


@pytest.mark.parametrize(
    ("finding", "bad", "good", "on_wsl", "settings", "status"),
    [
        ("exl3-gather-offset", "0.0.43", "1.1.0", False, {"tensor_parallel": True}, Status.WARN),
        ("exl3-gather-race", "1.0.0", "1.1.0", False, {"tensor_parallel": True}, Status.WARN),
        ("exl3-tp-hostptr", "1.0.0", "1.1.0", True, {"tensor_parallel": True}, Status.FAIL),
        (
            "exl3-tp-sync-timeout",
            "1.5.3",
            "1.6.0",
            True,
            {"tensor_parallel": True, "draft_mode": "mtp", "max_batch_size": 1},
            Status.WARN,
        ),
        ("exl3-draft-rewind", "0.0.43", "1.0.0", True, MTP, Status.WARN),
    ],
)
def test_each_fault_of_a_version_is_warned_of_and_the_cure_comes_first(
    finding: str, bad: str, good: str, on_wsl: bool, settings: dict[str, Any], status: Status
) -> None:
    result = exl3_with(bad, on_wsl, **settings)
    assert (kind(result), result.status) == (finding, status)
    assert result.finding is not None and result.next_step is not None
    assert result.finding.fixes[0] == "pkg-upgrade-exllamav3"
    if settings.get("tensor_parallel"):
        assert result.finding.fixes[:2] == UPGRADE_THEN_SPLIT
    assert "Update exllamav3" in str(result.next_step)
    assert bad in str(result.summary)
    assert exl3_with(good, on_wsl, **settings).finding is None


def test_a_fault_without_a_cure_is_told_and_not_warned_of() -> None:
    result = exl3_with("1.6.5", max_batch_size=8)
    assert result.status is Status.PASS and result.finding is None
    assert "below the cache size" in str(result.next_step)
    assert exl3_with("1.6.5", max_batch_size=4).next_step is None


def test_a_fault_of_the_checkout_is_told_by_its_source() -> None:
    file = "source endpoints/OAI/utils/chat_completion.py generation = "
    old = answer("environment", f'{TABBY_ENVIRONMENT}{file}{{"x": 1}}\n{file}{{}}\n')
    result = exllamav3_version.judge(tabby(old))
    assert kind(result) == "tabby-disconnect-prefill" and result.status is Status.WARN
    assert result.finding is not None and result.finding.fixes == ("pkg-upgrade-tabbyapi",)
    new = answer("environment", f'{TABBY_ENVIRONMENT}{file}{{"index": task_idx}}\n')
    assert exllamav3_version.judge(tabby(new)).status is Status.PASS


def test_the_check_names_every_fault_that_it_can_find() -> None:
    rows = exllamav3_version.known_faults()
    findings = {fault.id for fault in rows if fault.fixed_in}
    assert set(exllamav3_version.CHECK.findings) == findings | {"exl3-source-package"}
    assert {fault.engine_id for fault in rows} == set(exllamav3_version.CHECK.engines)


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
