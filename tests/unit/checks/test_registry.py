from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby

import pytest

from fixtures.standard_machine import GPU, answer, facts, on_linux, tabby
from twinrig import assets
from twinrig.checks.registry import AREAS, CHECKS, SECTIONS, with_dependants, with_prerequisites
from twinrig.domain.checks import Check, Cost, Facts, ProbeOutput, Status
from twinrig.domain.windows import WINDOWS_PROBES


def test_ids_are_unique_and_well_formed() -> None:
    ids = [check.id for check in CHECKS]

    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(-[a-z]+)*", check_id) for check_id in ids)


def test_prerequisites_stand_before_dependants_so_there_is_no_cycle() -> None:
    seen: set[str] = set()
    for check in CHECKS:
        assert set(check.requires) <= seen, check.id
        seen.add(check.id)


def test_every_probe_exists_in_the_script() -> None:
    functions = set(re.findall(r"^probe_(\w+)\(\)", assets.read_text("probes/linux.sh"), re.M))

    cheap = {
        name
        for check in CHECKS
        if check.cost is Cost.CHEAP
        for name in (*check.probes, *check.optional)
    }
    assert cheap <= functions | set(WINDOWS_PROBES)
    slow = {name for check in CHECKS if check.cost is Cost.SLOW for name in check.probes}
    assert slow - functions == {"collective", "native_import"}


def healthy(check: Check) -> Facts:
    """The standard machine with an engine that the check is about."""
    return facts() if not check.engines or "vllm" in check.engines else tabby()


def test_a_healthy_standard_machine_yields_no_warning() -> None:
    results = [check.judge(healthy(check)) for check in CHECKS]

    assert {result.check_id: result.status for result in results} == {
        check.id: Status.PASS for check in CHECKS
    }


def test_healthy_machine_without_windows_and_with_a_newer_driver() -> None:
    newer = answer("gpu", GPU.replace("591.44", "612.10"))
    for check in CHECKS:
        if any(name in WINDOWS_PROBES for name in check.probes):
            continue  # not asked there
        base = on_linux(newer) if check.engines != ("tabbyapi",) else tabby(newer)
        assert check.judge(base).status is Status.PASS, check.id


def test_healthy_pair_of_blackwell_cards_on_a_new_wsl() -> None:
    cards = GPU.replace("RTX 3090, 24576", "RTX 5070, 12227").replace("8.6", "12.0")
    new = (answer("gpu", cards), answer("wsl", "driver=yes\nwsl_version=2.7.11.0\n"))
    for check in CHECKS:
        base = facts(*new) if check.engines != ("tabbyapi",) else tabby(*new)
        assert check.judge(base).status is Status.PASS, check.id


def test_every_result_carries_its_own_id_and_evidence() -> None:
    for check in CHECKS:
        result = check.judge(healthy(check))
        assert result.check_id == check.id
        assert result.evidence and all(item.source and item.text for item in result.evidence)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_no_answer_at_all_is_never_a_finding(check: object) -> None:
    silent = replace(facts(), probes={})
    result = check.judge(silent)  # type: ignore[attr-defined]

    assert result.finding is None
    # The engine is found by other means than the probes.
    assert result.status in {Status.ERROR, Status.PASS}
    if result.status is Status.PASS:
        assert result.check_id in {
            "engine-installed",
            "python-version",
            "allocator-settings",  # looks at the profile only
            "diagnostic-settings",  # likewise
            "nccl-proof",  # nothing was proven, so nothing is asked
        }


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_noise_in_every_probe_never_crashes_a_check(check: object) -> None:
    for noise in ("", "\n\n", "=\n", "a b c d e f g h\n", "exists=\n", "\ufffd" * 100, "0" * 5000):
        for code in (0, 1, 126, 127, None):
            probes = {name: ProbeOutput(name, code, noise, noise) for name in facts().probes}
            result = check.judge(replace(facts(), probes=probes))  # type: ignore[attr-defined]
            assert result.finding is None or result.finding.id in check.findings  # type: ignore[attr-defined]


def test_prerequisites_are_pulled_in_transitively() -> None:
    chosen = with_prerequisites(CHECKS, ["cuda-wheels"])

    assert [check.id for check in chosen] == [
        "gpu-visible",
        "driver-version",
        "engine-installed",
        "cuda-wheels",
    ]


def test_unknown_id_is_refused() -> None:
    with pytest.raises(KeyError):
        with_prerequisites(CHECKS, ["nonsense"])


def test_dependants_are_transitive_and_in_registry_order() -> None:
    assert with_dependants(CHECKS, ["gpu-visible"]) == (
        "gpu-visible",
        "gpu-count",
        "gpu-mismatch",
        "driver-version",
        "wsl-version",
        "gpu-both-sides",
        "display-card",
        "pcie-link",
        "power-limit",
        "vram-holders",
        "vram-free",
        "vram-spill",
        "cuda-wheels",
        "native-import",
        "nccl-proof",
        "collective",
    )
    assert with_dependants(CHECKS, ["port-free"]) == ("port-free",)


def test_only_what_starts_processes_is_slow() -> None:
    slow = {check.id for check in CHECKS if check.cost is Cost.SLOW}
    assert slow == {"collective", "native-import"}


def test_each_check_stands_in_one_section_behind_what_it_requires() -> None:
    ids = [check.id for check in CHECKS]
    assert len(set(ids)) == len(ids) == len(AREAS)
    for number, check in enumerate(CHECKS):
        assert set(check.requires) <= set(ids[:number]), check.id
    sections = [AREAS[name] for name in ids]
    assert [title for title, _ in groupby(sections)] == [title for title, _ in SECTIONS]
