from __future__ import annotations

import re

import pytest
import yaml

from fixtures.standard_machine import facts
from twinrig import assets
from twinrig.checks.collective import FIXES as COLLECTIVE_FIXES
from twinrig.checks.registry import CHECKS
from twinrig.domain.checks import Finding
from twinrig.domain.errors import UsageError
from twinrig.domain.fixes import FixPlan, Guidance
from twinrig.engines.registry import load_engines
from twinrig.fixes.edit_table import EDITS
from twinrig.fixes.registry import PLANNED, load_fixes

FIXES = load_fixes(assets.read_text("advice/fixes.yaml"))

# Every fix of the failure catalogue.
FIX_IDS = [
    "apt-build-essential",
    "apt-cuda-nvcc",
    "apt-python-dev",
    "bios-virtualization",
    "cfg-api-key",
    "cfg-change-port",
    "cfg-client-model-name",
    "cfg-distro-name",
    "cfg-drop-argument",
    "cfg-enforce-eager",
    "cfg-env-path",
    "cfg-fix-yaml",
    "cfg-gpu-select",
    "cfg-kv-fp8",
    "cfg-lower-batched-tokens",
    "cfg-lower-cpu-offload",
    "cfg-lower-gpu-util",
    "cfg-lower-max-len",
    "cfg-lower-max-num-seqs",
    "cfg-model-path",
    "cfg-pp-2",
    "cfg-quant-fallback",
    "cfg-raise-gpu-util",
    "cfg-raise-max-len",
    "cfg-rope-yarn",
    "cfg-tp-1",
    "cfg-tp-2",
    "cfg-wsl-user",
    "client-shorter-prompt",
    "copy-report",
    "doc-vgpu-uvm",
    "doc-vhd-repair",
    "env-alloc-unset",
    "env-cuda-launch-blocking",
    "env-device-order",
    "env-expandable-off",
    "env-expandable-on",
    "env-fix-cuda-home",
    "env-flashinfer-sampler-0",
    "env-max-jobs",
    "env-nccl-cumem-0",
    "env-nccl-cumem-host-0",
    "env-nccl-debug-info",
    "env-nccl-p2p-disable",
    "env-nccl-socket-lo",
    "env-nofile-limit",
    "env-spawn",
    "env-unset-ld-library-path",
    "env-vllm-pin-memory",
    "env-vllm-ready-timeout",
    "env-vllm-runner-v1",
    "fix-crlf",
    "flag-chat-template",
    "flag-disable-custom-ar",
    "flag-dtype-half",
    "flag-no-sleep-mode",
    "flag-served-model-name",
    "flag-tokenizer-mode",
    "flag-trust-remote-code",
    "free-disk",
    "hf-accept-licence",
    "hf-login",
    "model-instruct-variant",
    "model-move-ext4",
    "model-other-quant",
    "model-redownload",
    "model-smaller-quant",
    "model-use-local",
    "pkg-cu12-wheels",
    "pkg-cu128-wheels",
    "pkg-exl3-wheel",
    "pkg-flashinfer-prebuilt",
    "pkg-install-engine",
    "pkg-nccl-upgrade",
    "pkg-reinstall-matching",
    "pkg-upgrade-engine",
    "pkg-upgrade-exllamav3",
    "pkg-upgrade-tabbyapi",
    "pkg-upgrade-transformers",
    "restart-server",
    "shm-size",
    "start-as-task",
    "stop-old-server",
    "stop-orphan-workers",
    "sysctl-ptrace-0",
    "tabby-autosplit-reserve",
    "tabby-backend-nccl",
    "tabby-cache-quant",
    "tabby-disable-tp",
    "tabby-gpu-split",
    "tabby-lower-batch",
    "tabby-lower-cache",
    "tabby-lower-chunk",
    "tabby-malloc-async-false",
    "tabby-prompt-template",
    "tabby-run-main",
    "task-clear-conditions",
    "task-fix-workdir",
    "task-instances-policy",
    "task-no-highest-rights",
    "task-no-time-limit",
    "task-reenter-password",
    "task-reregister",
    "task-run-as-user",
    "task-run-only-logged-on",
    "task-show-log",
    "task-wsl-path",
    "use-actual-port",
    "use-other-engine",
    "use-vm-address",
    "win-check-gpu-reset",
    "win-driver-update",
    "win-free-vram",
    "win-reboot",
    "win-sysmem-policy",
    "win-tdr-delay",
    "wsl-as-root",
    "wsl-dns-fix",
    "wsl-enable-systemd",
    "wsl-enable-vmp",
    "wsl-hosts-fix",
    "wsl-install",
    "wsl-install-distro",
    "wsl-keepalive",
    "wsl-ldpath-wsllib",
    "wsl-proxy-fix",
    "wsl-remove-linux-driver",
    "wsl-resize-vhd",
    "wsl-restart",
    "wsl-restart-user-session",
    "wsl-update",
    "wsl-wait-install",
    "wslconfig-fix",
    "wslconfig-memory",
    "wslconfig-nat",
]


def test_every_fix_of_the_catalogue_leads_somewhere() -> None:
    assert len(FIX_IDS) == 135
    ours = {"nccl-experiment", "env-diagnosis-off", "limits-memlock", "exl3-own-gather"}
    ours |= {"env-nccl-shm-on"}
    assert set(FIX_IDS) | ours | {"wslconfig-localhost", "lan-open", "lan-close"} == set(FIXES)


@pytest.mark.parametrize("fix_id", FIX_IDS)
def test_every_fix_gives_a_plan_or_guidance_or_says_why_not(fix_id: str) -> None:
    fix = FIXES[fix_id]
    assert fix.id == fix_id
    try:
        way = fix.plan(Finding("x"), facts())
    except UsageError as error:
        assert str(error.text)
        return
    assert isinstance(way, (FixPlan, Guidance))
    assert way.fix_id == fix_id
    assert str(way.title)
    if isinstance(way, FixPlan):
        assert way.steps
    else:
        assert way.instructions


def test_planned_ids_are_unique() -> None:
    ids = [fix.id for fix in PLANNED]

    assert len(ids) == len(set(ids))


def test_fixes_that_the_checks_and_the_diagnosis_name_exist() -> None:
    rules = sorted(assets.resource_path("rules").glob("*.yaml"))
    named = {fix for check_fixes in COLLECTIVE_FIXES.values() for fix in check_fixes}

    def collect(node: object) -> None:
        if isinstance(node, dict):
            for key, value in node.items():
                if key == "fixes" and isinstance(value, list):
                    named.update(str(item) for item in value)
                collect(value)
        elif isinstance(node, list):
            for item in node:
                collect(item)

    for file in rules:
        collect(yaml.safe_load(file.read_text(encoding="utf-8")))
    assert rules and named, "the rules name fixes"
    assert named <= set(FIXES)


def test_no_plan_touches_a_machine_without_being_told_so() -> None:
    for fix in PLANNED:
        try:
            way = fix.plan(Finding("x"), facts())
        except UsageError:
            continue
        assert isinstance(way, FixPlan)
        assert way.needs_root == any(getattr(step, "root", False) for step in way.steps)
        assert way.reversible or way.risk is not None


def test_rows_use_option_ids_and_valid_values_of_their_engines() -> None:
    engines = load_engines(assets.read_text)
    seen = 0
    for row in EDITS:
        for engine_id in row.engines or ("vllm", "tabbyapi"):
            options = {option.id: option for option in engines[engine_id].options()}
            for name, value in row.settings_by_engine.get(engine_id, row.settings).items():
                assert name in options, f"{row.fix_id}: {engine_id} {name}"
                if isinstance(value, (bool, int, float, str)):
                    assert options[name].check(value)[1] is None, f"{row.fix_id}: {name}"
                    seen += 1
    assert seen >= 12


def test_sentences_of_the_advice_are_clean() -> None:
    for fix_id, entry in yaml.safe_load(assets.read_text("advice/fixes.yaml"))["fixes"].items():
        for text in (entry["title"], *entry["instructions"]):
            assert text == text.strip(), fix_id
            assert text[0].isupper(), fix_id
            assert not re.search(r"[{}]", text), f"{fix_id}: braces would be fields"


def test_checks_declare_findings_that_have_a_way_out_or_a_next_step() -> None:
    only_told = {"session-end"}  # whoever does not log off has nothing to mend
    assert {check.id for check in CHECKS if not check.findings} <= only_told
