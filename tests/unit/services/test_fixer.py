from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fixtures.fixer_rig import EXPANDABLE, PTRACE, Rig, plan_of, write
from fixtures.memory_host import host_error
from twinrig.domain.checks import Finding, Status
from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.fixes import (
    Guidance,
    ProfileStep,
)
from twinrig.domain.profile import EnvEntry
from twinrig.fixes.sysctl_ptrace import CONTENT, PATH
from twinrig.services.journal import Outcome

# --- options and preview


async def test_options_are_plans_in_the_order_of_the_finding(rig: Rig) -> None:
    options = await rig.fixer.options(PTRACE, EXPANDABLE)

    assert [option.fix_id for option in options] == ["sysctl-ptrace-0", "env-expandable-off"]
    assert rig.host.calls == ["probes"]


async def test_options_leave_out_what_cannot_help_and_keep_words(rig: Rig) -> None:
    finding = Finding("x", fixes=("unknown-fix", "env-expandable-on", "free-disk", "cfg-tp-2"))
    options = await rig.fixer.options(finding, EXPANDABLE)

    assert [type(option) for option in options] == [Guidance]


async def test_options_of_a_machine_that_does_not_answer(rig: Rig) -> None:
    rig.host.unreachable = host_error()

    with pytest.raises(HostError):
        await rig.fixer.options(PTRACE, EXPANDABLE)


async def test_preview_shows_exact_commands_and_diffs_and_changes_nothing(rig: Rig) -> None:
    preview = await rig.fixer.preview(await rig.plan())
    file, command = preview.steps

    assert (file.kind, file.root) == ("file", True)
    assert file.text.startswith(f"--- /dev/null\n+++ {PATH}\n@@ ")
    assert "+kernel.yama.ptrace_scope = 0" in file.text
    assert command.text == (
        "sysctl -w kernel.yama.ptrace_scope=0\n# undo: sysctl -w kernel.yama.ptrace_scope=1"
    )
    assert str(file.title) == f"Create {PATH}"
    assert rig.host.files == {} and rig.scope == "1"
    assert rig.journal.entries() == ()


async def test_preview_of_a_profile_edit_is_a_diff_of_its_file(rig: Rig) -> None:
    preview = await rig.fixer.preview(await rig.plan(index=1))
    (step,) = preview.steps

    assert step.kind == "profile" and not step.root
    removed = [line for line in step.text.splitlines() if line.startswith("-")]
    assert any("PYTORCH_CUDA_ALLOC_CONF" in line for line in removed)
    assert rig.store.profiles["qwen"] == EXPANDABLE


async def test_preview_of_a_binary_file_does_not_show_its_bytes(rig: Rig) -> None:
    rig.host.files["/etc/x"] = b"\x00\x01\xff"
    preview = await rig.fixer.preview(plan_of(write("/etc/x", "text\n")))

    assert preview.steps[0].text == "--- /etc/x (3 bytes)\n+++ /etc/x (5 bytes)"


async def test_preview_of_removing_a_file(rig: Rig) -> None:
    rig.host.files["/etc/x"] = b"old\n"
    (step,) = (await rig.fixer.preview(plan_of(write("/etc/x", None)))).steps

    assert str(step.title) == "Remove /etc/x"
    assert "-old" in step.text and "+++ /dev/null" in step.text


# --- apply, prove, undo


async def test_applied_fix_is_proven_by_the_check_that_found_it(rig: Rig) -> None:
    outcome = await rig.fixer.apply(PTRACE, await rig.plan(), EXPANDABLE)

    assert outcome.applied and outcome.proven
    assert [result.check_id for result in outcome.results] == ["ptrace-scope"]
    assert rig.scope == "0"
    assert rig.host.files[PATH] == CONTENT.encode()
    assert f"root write {PATH}" in rig.host.calls
    assert "root sysctl -w kernel.yama.ptrace_scope=0" in rig.host.calls
    (entry,) = rig.journal.entries()
    assert entry.id == outcome.entry_id
    assert entry.outcome is Outcome.APPLIED and entry.proven
    assert [step.done for step in entry.steps] == [True, True]
    assert entry.finding == PTRACE
    assert entry.at_s == 1_000_000.0


async def test_undo_puts_everything_back_in_reverse_order(rig: Rig) -> None:
    outcome = await rig.fixer.apply(PTRACE, await rig.plan(), EXPANDABLE)
    rig.host.calls.clear()
    entry = await rig.fixer.undo(outcome.entry_id)

    assert entry.undone_at_s is not None
    assert rig.scope == "1"
    assert PATH not in rig.host.files
    assert rig.host.calls == [
        "root sysctl -w kernel.yama.ptrace_scope=1",
        f"root remove {PATH}",
    ]


async def test_undo_restores_exact_bytes_and_mode_of_an_existing_file(rig: Rig) -> None:
    rig.host.files["/etc/x"] = b"\xffold\r\nno end"
    rig.host.modes["/etc/x"] = 0o600
    outcome = await rig.fixer.apply(Finding("x"), plan_of(write("/etc/x", "new\n")), None)
    assert rig.host.files["/etc/x"] == b"new\n"

    await rig.fixer.undo(outcome.entry_id)
    assert rig.host.files["/etc/x"] == b"\xffold\r\nno end"
    assert rig.host.modes["/etc/x"] == 0o600


async def test_removed_file_comes_back(rig: Rig) -> None:
    rig.host.files["/etc/x"] = b"old"
    outcome = await rig.fixer.apply(Finding("x"), plan_of(write("/etc/x", None)), None)
    assert "/etc/x" not in rig.host.files

    await rig.fixer.undo(outcome.entry_id)
    assert rig.host.files["/etc/x"] == b"old"


async def test_profile_edit_is_applied_proven_and_taken_back(rig: Rig) -> None:
    outcome = await rig.fixer.apply(PTRACE, await rig.plan(index=1), EXPANDABLE)

    assert outcome.proven
    assert rig.store.profiles["qwen"].env == {}

    await rig.fixer.undo(outcome.entry_id)
    assert rig.store.profiles["qwen"] == EXPANDABLE


async def test_profile_edits_keep_the_reason_of_each_variable(rig: Rig) -> None:
    plan = await rig.plan(Finding("nccl-cumem-wsl", fixes=("env-nccl-cumem-0",)))
    await rig.apply(plan, Finding("nccl-cumem-wsl"))

    entry = rig.store.profiles["qwen"].env["NCCL_CUMEM_ENABLE"]
    assert entry.value == "0"
    assert "WSL2" in entry.reason


async def test_edits_of_every_kind_of_entry_come_back(rig: Rig) -> None:
    before = replace(
        EXPANDABLE, extra={"words": ("a", "b"), "old": 1}, settings={"tensor_parallel_size": 2}
    )
    rig.store.profiles["qwen"] = before
    step = ProfileStep(
        "qwen",
        {"tensor_parallel_size": 1, "enforce_eager": True},
        {"A": "1"},
        "why",
        extra={"words": None, "old": 2},
        fields={
            "network.port": 8003,
            "model.path": "/m",
            "model.served_name": "n",
            "engine.environment": "/v",
        },
    )
    outcome = await rig.fixer.apply(Finding("x"), plan_of(step), before)
    changed = rig.store.profiles["qwen"]
    assert changed.network.port == 8003
    assert (changed.model.path, changed.model.served_name) == ("/m", "n")
    assert changed.engine.environment == "/v"
    assert changed.settings == {"tensor_parallel_size": 1, "enforce_eager": True}
    assert changed.extra == {"old": 2}
    assert changed.env["A"] == EnvEntry("1", "why")

    await rig.fixer.undo(outcome.entry_id)
    assert rig.store.profiles["qwen"] == before


async def test_undo_keeps_what_the_user_edited_elsewhere_in_the_profile(rig: Rig) -> None:
    outcome = await rig.fixer.apply(PTRACE, await rig.plan(index=1), EXPANDABLE)
    rig.store.profiles["qwen"] = replace(rig.store.profiles["qwen"], name="Renamed")
    await rig.fixer.undo(outcome.entry_id)

    assert rig.store.profiles["qwen"] == replace(EXPANDABLE, name="Renamed")


async def test_undo_refuses_when_the_user_changed_the_same_entry(rig: Rig) -> None:
    plan = await rig.plan(Finding("n", fixes=("env-nccl-cumem-0",)))
    outcome = await rig.fixer.apply(Finding("n"), plan, EXPANDABLE)
    edited = replace(
        rig.store.profiles["qwen"],
        env={**rig.store.profiles["qwen"].env, "NCCL_CUMEM_ENABLE": EnvEntry("1", "mine")},
    )
    rig.store.profiles["qwen"] = edited

    with pytest.raises(ConflictError) as caught:
        await rig.fixer.undo(outcome.entry_id)
    assert "env.NCCL_CUMEM_ENABLE: 0 -> 1" in str(caught.value.text)
    assert rig.store.profiles["qwen"] == edited
    entry = rig.journal.entry(outcome.entry_id)
    assert entry is not None and entry.can_undo


async def test_finding_of_a_log_is_applied_but_not_proven(rig: Rig) -> None:
    plan = await rig.plan(Finding("oom-at-load", fixes=("env-nccl-cumem-0",)))
    outcome = await rig.fixer.apply(Finding("oom-at-load"), plan, EXPANDABLE)

    assert outcome.applied and not outcome.proven
    assert outcome.results == ()
    assert "Start the server" in str(outcome.text)


async def test_fix_that_does_not_help_is_not_called_proven(rig: Rig) -> None:
    rig.host.programs["sysctl"] = lambda argv: 0  # says yes, does nothing
    outcome = await rig.fixer.apply(PTRACE, await rig.plan(), EXPANDABLE)

    assert outcome.applied and not outcome.proven
    assert outcome.results[0].status is Status.FAIL
    assert "take it back" in str(outcome.text)
    entry = rig.journal.entry(outcome.entry_id)
    assert entry is not None and not entry.proven and entry.can_undo


async def test_proof_that_could_not_be_had_is_no_proof(rig: Rig) -> None:
    plan = await rig.plan()

    def sysctl_then_gone(argv: Sequence[str]) -> int:
        rig.host.unreachable = host_error()
        return 0

    rig.host.programs["sysctl"] = sysctl_then_gone
    outcome = await rig.fixer.apply(PTRACE, plan, EXPANDABLE)

    assert not outcome.proven
    assert outcome.results[0].status is Status.ERROR


async def test_dependants_of_the_check_are_run_again_too(rig: Rig) -> None:
    finding = Finding("cuda-driver-missing-wsl")
    outcome = await rig.fixer.apply(finding, plan_of(write("/x", "y")), EXPANDABLE)

    again = [result.check_id for result in outcome.results]
    assert again[:3] == ["gpu-visible", "gpu-count", "gpu-mismatch"]
    assert {"driver-version", "cuda-wheels"} < set(again)
    assert "collective" not in again, "slow ones are not run for the proof of something else"
    assert outcome.proven
