"""Each known fault by version: the last bad one has it, the first good one does not."""

from __future__ import annotations

import pytest

from twinrig import assets
from twinrig.domain.profile import EngineRef, ModelRef, Profile
from twinrig.engines.faults import FaultTableError, KnownFault, faults_of, load_faults
from twinrig.engines.tabbyapi import TabbyApiEngine
from twinrig.fixes.registry import load_fixes

TP = {"tensor_parallel": True}
MTP = {"draft_mode": "mtp", "max_batch_size": 8}
CHAT = "endpoints/OAI/utils/chat_completion.py"


@pytest.fixture(scope="module")
def faults() -> tuple[KnownFault, ...]:
    return load_faults(assets.read_text("engines/faults.yaml"))


def found(
    faults: tuple[KnownFault, ...], version: str, settings: dict, engine: str = "tabbyapi", **more
) -> set[str]:
    profile = Profile("p", "P", "local", EngineRef(engine), ModelRef("/m"), settings=settings)
    more.setdefault("platform", "wsl")
    return {fault.id for fault in faults_of(faults, profile, version, **more)}


@pytest.mark.parametrize(
    ("fault", "settings", "bad", "good"),
    [
        ("exl3-gather-offset", TP, ("0.0.43+cu128.torch2.9.0", "0.0.6"), ("1.0.0", "1.4.2")),
        ("exl3-gather-race", TP, ("0.0.43", "1.0.0"), ("1.1.0", "1.6.5")),
        ("exl3-tp-hostptr", TP, ("0.0.43", "1.0.0"), ("1.1.0", "1.6.5")),
        ("exl3-tp-sync-timeout", {**TP, **MTP}, ("0.0.38", "1.5.3"), ("0.0.36", "1.6.0")),
        ("exl3-draft-rewind", MTP, ("0.0.41", "0.0.43"), ("1.0.0", "1.6.5")),
        ("exl3-recurrent-assert", {"max_batch_size": 8}, ("0.0.43", "1.6.5", ""), ()),
    ],
)
def test_a_fault_ends_with_its_cure(
    faults: tuple[KnownFault, ...],
    fault: str,
    settings: dict,
    bad: tuple[str, ...],
    good: tuple[str, ...],
) -> None:
    for version in bad:
        assert fault in found(faults, version, settings), version
    for version in good:
        assert fault not in found(faults, version, settings), version
    assert fault not in found(faults, bad[0], {"max_batch_size": 1})
    assert fault not in found(faults, bad[0], settings, engine="vllm")


def test_a_fault_of_a_checkout_is_told_by_its_source(faults: tuple[KnownFault, ...]) -> None:
    bad, good = {CHAT: "    generation = {}\n"}, {CHAT: '    generation = {"index": task_idx}\n'}
    assert "tabby-disconnect-prefill" in found(faults, "1.4.2", {}, sources=bad)
    assert "tabby-disconnect-prefill" not in found(faults, "1.4.2", {}, sources=good)
    assert "tabby-disconnect-prefill" not in found(faults, "1.4.2", {})


def test_a_fault_of_windows_does_not_frighten_others(faults: tuple[KnownFault, ...]) -> None:
    name = "exl3-native-reduce-timeout"
    assert name in found(faults, "1.1.0", TP, platform="windows")
    assert name not in found(faults, "1.1.0", TP)
    assert "exl3-tp-hostptr" not in found(faults, "1.0.0", TP, platform="linux")
    nccl = {**TP, "tensor_parallel_backend": "nccl"}
    assert name not in found(faults, "1.1.0", nccl, platform="windows")


def test_drafting_for_one_request_is_safe(faults: tuple[KnownFault, ...]) -> None:
    one = {"draft_mode": "mtp", "max_batch_size": 1}
    assert "exl3-draft-rewind" not in found(faults, "0.0.43", one)
    assert "exl3-draft-rewind" in found(faults, "0.0.43", {"draft_mode": "mtp"})
    assert "exl3-draft-rewind" not in found(faults, "0.0.43", {"draft_mode": "disabled"})


def test_the_first_users_setup_is_clean_after_the_upgrade(faults: tuple[KnownFault, ...]) -> None:
    settings = {**TP, "draft_mode": "disabled", "max_batch_size": 4}
    assert found(faults, "0.0.43", settings) == {
        "exl3-gather-offset",
        "exl3-gather-race",
        "exl3-tp-hostptr",
    }
    assert found(faults, "1.4.2", settings) == set()


def test_nothing_is_claimed_about_an_unknown_version(faults: tuple[KnownFault, ...]) -> None:
    assert found(faults, "", {**TP, **MTP}) == {"exl3-recurrent-assert"}


def test_the_table_is_whole(faults: tuple[KnownFault, ...]) -> None:
    assert len(faults) == 8
    known = load_fixes(assets.read_text("advice/fixes.yaml"))
    rows = {o.id for o in TabbyApiEngine(assets.read_text("engines/tabbyapi.yaml")).options()}
    for fault in faults:
        assert fault.text.endswith(".") and fault.next_step.endswith("."), fault.id
        assert set(fault.fixes) <= set(known) and fault.fixes, fault.id
        assert {need.setting for need in fault.needs} <= rows
        if "pkg-upgrade-exllamav3" in fault.fixes:
            assert fault.fixes[0] == "pkg-upgrade-exllamav3", fault.id


@pytest.mark.parametrize(
    "text",
    ["", "faults: []", "schema_version: 2\nfaults: []", "schema_version: 1\nfaults: [{}]", "["],
)
def test_a_malformed_table_is_our_own_fault(text: str) -> None:
    with pytest.raises(FaultTableError):
        load_faults(text)
