from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from fixtures.standard_machine import (
    GPU,
    INSTALL,
    PROFILE,
    answer,
    facts,
    profile_with,
    timed_out,
)
from twinrig import assets
from twinrig.checks.registry import CHECKS
from twinrig.domain.checks import Facts, Finding, ProbeOutput
from twinrig.domain.fixes import CommandStep, FixPlan, Guidance, ProfileStep, WriteFileStep
from twinrig.domain.profile import EngineRef, Profile
from twinrig.fixes.allocator import AllocatorUnset, ExpandableOff, ExpandableOn
from twinrig.fixes.change_port import ChangePort
from twinrig.fixes.drop_argument import DropArgument
from twinrig.fixes.gpu_select import GpuSelect
from twinrig.fixes.planning import NotForThisEngineError, NothingToChangeError, UndecidedError
from twinrig.fixes.registry import load_fixes
from twinrig.fixes.sysctl_ptrace import CONTENT, PATH, SysctlPtrace

OLD, NEW = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"


def step_of(plan: FixPlan) -> ProfileStep:
    (step,) = plan.steps
    assert isinstance(step, ProfileStep)
    return step


def tabby(env: dict[str, str] | None = None) -> Profile:
    return replace(profile_with(env=env), engine=EngineRef("tabbyapi"))


# --- allocator


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({OLD: "expandable_segments:True"}, {OLD: None}),
        ({OLD: "max_split_size_mb:64,expandable_segments:True"}, {OLD: "max_split_size_mb:64"}),
        ({OLD: "a:1", NEW: "expandable_segments:True , b:2"}, {NEW: "b:2"}),
    ],
)
def test_expandable_off_keeps_the_other_settings(
    env: dict[str, str], expected: dict[str, str | None]
) -> None:
    plan = ExpandableOff().plan(Finding("x"), facts(profile=profile_with(env=env)))

    assert step_of(plan).env == expected


def test_expandable_off_when_it_is_not_on() -> None:
    with pytest.raises(NothingToChangeError):
        ExpandableOff().plan(Finding("x"), facts())


def test_expandable_on_is_refused_for_vllm() -> None:
    with pytest.raises(NotForThisEngineError):
        ExpandableOn().plan(Finding("x"), facts())


@pytest.mark.parametrize(
    ("torch", "name"), [("2.8.0+cu128", OLD), ("2.9.0+cu128", NEW), ("2.14.1", NEW), ("", OLD)]
)
def test_expandable_on_uses_the_variable_of_that_torch(torch: str, name: str) -> None:
    install = replace(INSTALL, torch_version=torch)
    plan = ExpandableOn().plan(Finding("x"), facts(profile=tabby(), install=install))

    assert step_of(plan).env == {name: "expandable_segments:True"}


def test_expandable_on_replaces_its_own_entry_only() -> None:
    profile = tabby({NEW: "expandable_segments:False,a:1"})
    plan = ExpandableOn().plan(Finding("x"), facts(profile=profile))

    assert step_of(plan).env == {NEW: "a:1,expandable_segments:True"}


def test_allocator_unset_removes_what_is_there() -> None:
    plan = AllocatorUnset().plan(Finding("x"), facts(profile=profile_with(env={OLD: "a:1"})))

    assert step_of(plan).env == {OLD: None}


# --- cards


def test_cards_are_chosen_by_uuid_in_slot_order() -> None:
    profile = profile_with(env={"CUDA_VISIBLE_DEVICES": "0"})
    finding = Finding("tp-exceeds-gpus", (("wanted", "2"),))
    plan = GpuSelect().plan(finding, facts(profile=profile))

    assert step_of(plan).env == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": (
            "GPU-11111111-aaaa-bbbb-cccc-000000000001,GPU-22222222-aaaa-bbbb-cccc-000000000002"
        ),
    }


@pytest.mark.parametrize(
    "output", [answer("gpu", "\n".join(GPU.splitlines()[:2])), timed_out("gpu"), answer("gpu", "?")]
)
def test_too_few_cards_are_undecided(output: ProbeOutput) -> None:
    with pytest.raises(UndecidedError):
        GpuSelect().plan(Finding("x", (("wanted", "2"),)), facts(output))


# --- port


def test_port_of_the_finding_is_taken() -> None:
    plan = ChangePort().plan(Finding("port-in-use", (("free_port", "8003"),)), facts())

    assert step_of(plan).fields == {"network.port": 8003}
    assert str(plan.title) == "Use port 8003 instead of 8000"
    assert plan.risk is not None


def test_port_is_looked_for_when_the_log_named_none() -> None:
    plan = ChangePort().plan(Finding("port-in-use", (("port", "8000"),)), facts())

    assert step_of(plan).fields == {"network.port": 8002}  # 8001 is busy


@pytest.mark.parametrize(
    "output", [timed_out("port"), answer("port", "checked=9\n"), answer("port", "")]
)
def test_port_is_undecided_when_nothing_was_learned(output: ProbeOutput) -> None:
    with pytest.raises(UndecidedError):
        ChangePort().plan(Finding("port-in-use"), facts(output))


# --- unknown option


@pytest.mark.parametrize(
    ("params", "extra", "settings"),
    [
        ((("option", "--old-flag"),), {"old-flag": None}, {}),
        (
            (("options", "--old-flag --context-length=5"),),
            {"old-flag": None},
            {"context_length": None},
        ),
        ((("option", "--old-flag/-o"),), {"old-flag": None}, {}),
    ],
)
def test_unknown_option_is_removed(
    params: tuple[tuple[str, str], ...], extra: dict[str, None], settings: dict[str, None]
) -> None:
    profile = replace(PROFILE, extra={"old-flag": True, "keep": 1})
    plan = DropArgument().plan(Finding("bad-cli-argument", params), facts(profile=profile))

    assert step_of(plan).extra == extra
    assert step_of(plan).settings == settings


@pytest.mark.parametrize("params", [(), (("option", "--not-there"),), (("option", "old-flag"),)])
def test_option_that_the_profile_does_not_hold(params: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(UndecidedError):
        DropArgument().plan(Finding("bad-cli-argument", params), facts())


# --- sysctl


def sysctl(scope: str, file: str = "absent", code: int = 0) -> FixPlan:
    machine = facts(answer("ptrace", f"{scope}\n"), answer("ptrace_file", f"{file}\n", code=code))
    return SysctlPtrace().plan(Finding("pidfd-getfd-denied"), machine)


@pytest.mark.parametrize("scope", ["1", "2"])
def test_sysctl_writes_the_drop_in_and_goes_back_to_the_value_it_read(scope: str) -> None:
    plan = sysctl(scope)
    file, command = plan.steps

    assert file == WriteFileStep(PATH, CONTENT, expected_sha256="", mode=0o644, root=True)
    assert isinstance(command, CommandStep)
    assert command.argv == ("sysctl", "-w", "kernel.yama.ptrace_scope=0")
    assert command.revert_argv == ("sysctl", "-w", f"kernel.yama.ptrace_scope={scope}")
    assert command.root
    assert plan.needs_root and plan.reversible
    assert "isolated" in str(plan.risk)


def test_sysctl_expects_the_file_that_was_read() -> None:
    file, _ = sysctl("1", f"sha256={'a' * 64}").steps

    assert isinstance(file, WriteFileStep)
    assert file.expected_sha256 == "a" * 64


def test_sysctl_does_only_what_is_left_to_do() -> None:
    own = f"sha256={hashlib.sha256(CONTENT.encode()).hexdigest()}"

    assert [type(step) for step in sysctl("1", own).steps] == [CommandStep]
    assert [type(step) for step in sysctl("0").steps] == [WriteFileStep]
    with pytest.raises(NothingToChangeError):
        sysctl("0", own)
    with pytest.raises(NothingToChangeError):
        sysctl("absent")


@pytest.mark.parametrize("scope", ["3", "", "eins"])
def test_sysctl_is_undecided_when_the_value_cannot_be_lowered_or_read(scope: str) -> None:
    with pytest.raises(UndecidedError):
        sysctl(scope)


@pytest.mark.parametrize(("file", "code"), [("", 0), ("sha256=x", 1), ("?", 0)])
def test_sysctl_is_undecided_when_the_drop_in_cannot_be_read(file: str, code: int) -> None:
    with pytest.raises(UndecidedError):
        sysctl("1", file, code)


def test_sysctl_content_is_one_setting() -> None:
    lines = [line for line in CONTENT.splitlines() if not line.startswith("#")]

    assert lines == ["kernel.yama.ptrace_scope = 0"]


# --- plan, or else words


@pytest.mark.parametrize("fix_id", ["cfg-model-path", "cfg-change-port", "sysctl-ptrace-0"])
def test_plan_that_lacks_a_value_becomes_guidance(fix_id: str) -> None:
    fixes = load_fixes(assets.read_text("advice/fixes.yaml"))
    silent: Facts = replace(facts(), probes={})

    assert isinstance(fixes[fix_id].plan(Finding("x"), silent), Guidance)


def test_fixes_of_the_checks_exist() -> None:
    fixes = load_fixes(assets.read_text("advice/fixes.yaml"))
    bad = replace(facts(), probes={n: ProbeOutput(n, 127, "") for n in facts().probes})

    for check in CHECKS:
        finding = check.judge(bad).finding
        assert finding is None or set(finding.fixes) <= set(fixes)
