"""Fixes of system files, packages and processes: exact content, and when they refuse."""

from __future__ import annotations

import base64
import hashlib

import pytest

from fixtures.standard_machine import DROP_INS, HOSTS, SHM, answer, facts
from twinrig import assets
from twinrig.domain.checks import Finding, ProbeOutput
from twinrig.domain.fixes import CommandStep, FixPlan, Guidance, WriteFileStep
from twinrig.fixes.driver_libraries import CONTENT
from twinrig.fixes.drop_ins import LIMITS, LOADER, USER_MANAGER, USER_UNITS
from twinrig.fixes.limits import LIMITS_TEXT
from twinrig.fixes.planning import NothingToChangeError
from twinrig.fixes.registry import load_fixes

FIXES = load_fixes(assets.read_text("advice/fixes.yaml"))
UNKNOWN_NAME = answer("hosts", HOSTS.replace("known=yes", "known=no"))
ORPHAN = answer("workers", "checked=yes\nworker 77 1 - VLLM::Worker_TP0\nworker 78 77 - python\n")
LEFT = answer("shm", f"{SHM}left 9 /dev/shm/nccl-a b\nleft 9 /dev/shm/psm_1\n")


def plan(fix_id: str, *outputs: ProbeOutput) -> FixPlan:
    way = FIXES[fix_id].plan(Finding("x"), facts(*outputs))
    assert isinstance(way, FixPlan)
    return way


def words(fix_id: str, *outputs: ProbeOutput) -> None:
    assert isinstance(FIXES[fix_id].plan(Finding("x"), facts(*outputs)), Guidance)


@pytest.mark.parametrize("fix_id", ["env-nofile-limit", "limits-memlock"])
def test_limits_are_raised_for_logins_and_for_services_of_the_user(fix_id: str) -> None:
    made = plan(fix_id)
    files = {step.path: step for step in made.steps if isinstance(step, WriteFileStep)}

    assert set(files) == {LIMITS, USER_MANAGER, USER_UNITS} and made.needs_root
    assert all(step.root and step.expected_sha256 == "" for step in files.values())
    assert "* hard nofile 1048576" in str(files[LIMITS].content)
    assert "LimitMEMLOCK=infinity" in str(files[USER_MANAGER].content)


def test_limits_that_are_there_are_left_and_others_replaced_knowingly() -> None:
    good = hashlib.sha256(LIMITS_TEXT.encode()).hexdigest()
    text = DROP_INS.replace(f"absent {LIMITS}", f"sha256 {good} {LIMITS}")
    text = text.replace(f"absent {USER_UNITS}", f"sha256 {'0' * 64} {USER_UNITS}")
    steps = plan("env-nofile-limit", answer("drop_ins", text)).steps

    assert [(s.path, s.expected_sha256) for s in steps if isinstance(s, WriteFileStep)] == [
        (USER_MANAGER, ""),
        (USER_UNITS, "0" * 64),
    ]


@pytest.mark.parametrize("text", ["", "absent /elsewhere\n", "noise\n"])
def test_files_that_cannot_be_read_are_not_written(text: str) -> None:
    words("env-nofile-limit", answer("drop_ins", text))


def test_loader_finds_windows_libraries_and_forgets_them_on_undo() -> None:
    before, file, after = plan("wsl-ldpath-wsllib").steps

    assert isinstance(file, WriteFileStep) and (file.path, file.content) == (LOADER, CONTENT)
    for step in (before, after):
        assert isinstance(step, CommandStep) and step.root
        assert step.argv == ("ldconfig",) == step.revert_argv


def test_loader_is_left_alone_without_windows_driver() -> None:
    words("wsl-ldpath-wsllib", answer("wsl", "driver=no\n"))


def test_own_name_is_added_behind_the_other_lines() -> None:
    (step,) = plan("wsl-hosts-fix", UNKNOWN_NAME).steps
    before = base64.b64decode(HOSTS.rpartition("base64=")[2]).decode()

    assert isinstance(step, WriteFileStep) and step.root
    assert step.content == before + "127.0.1.1 pc\n"
    assert step.expected_sha256 == hashlib.sha256(before.encode()).hexdigest()


def test_own_name_that_is_known_is_not_added_again() -> None:
    with pytest.raises(NothingToChangeError):
        FIXES["wsl-hosts-fix"].plan(Finding("x"), facts())


@pytest.mark.parametrize("text", ["", "hostname=pc\nknown=no\nsha256=1\nbase64=!!\n"])
def test_hosts_that_cannot_be_read_are_not_written(text: str) -> None:
    words("wsl-hosts-fix", answer("hosts", text))


def test_orphans_are_ended_by_pid_and_nothing_else_is() -> None:
    made = plan("stop-orphan-workers", ORPHAN)
    assert [step.argv for step in made.steps if isinstance(step, CommandStep)] == [
        ("kill", "-TERM", "77")
    ]
    assert not made.reversible and made.risk is not None


@pytest.mark.parametrize("extra", ["server 70\n", ""])
def test_workers_are_left_alone_while_a_server_runs_or_nobody_looked(extra: str) -> None:
    text = (
        f"checked=yes\nworker 77 1 - VLLM::Worker\n{extra}" if extra else "worker 77 1 - VLLM::W\n"
    )
    words("stop-orphan-workers", answer("workers", text))


@pytest.mark.parametrize(
    ("holders", "ended"),
    [
        ("holder 88 r-1 vllm serve\n", "88"),
        ("holder 88 - nginx\n", ""),
        ("holder 88 r-1 vllm\nholder 89 - nginx\n", ""),
        ("", ""),
    ],
)
def test_only_a_server_of_ours_is_stopped_for_its_port(holders: str, ended: str) -> None:
    output = answer("port", f"checked=8000\nlisten 0100007F 1 1000\n{holders}")
    if not ended:
        words("stop-old-server", output)
        return
    (step,) = plan("stop-old-server", output).steps
    assert isinstance(step, CommandStep) and step.argv == ("kill", "-TERM", ended)


def test_leftovers_in_shared_memory_are_removed_by_their_whole_names() -> None:
    (step,) = plan("shm-size", LEFT).steps
    assert isinstance(step, CommandStep)
    assert step.argv == ("rm", "-f", "--", "/dev/shm/nccl-a b", "/dev/shm/psm_1")


def test_shared_memory_in_use_is_never_touched() -> None:
    words("shm-size", LEFT, ORPHAN)
    words("shm-size", LEFT, answer("workers", "checked=yes\nserver 5\n"))
    mapped = "mapped /dev/shm/nccl-a b\nmapped /dev/shm/psm_1\n"
    words("shm-size", answer("shm", LEFT.stdout + mapped))
    words("shm-size")


def test_headers_are_those_of_the_environments_python() -> None:
    (step,) = plan("apt-python-dev").steps
    assert isinstance(step, CommandStep) and step.root and step.argv[-1] == "python3.12-dev"


@pytest.mark.parametrize("os_name", ["Fedora Linux 42", "Arch Linux", ""])
def test_packages_of_other_distributions_are_left_to_the_user(os_name: str) -> None:
    words("apt-build-essential", answer("system", f"kernel=6.8\nwsl=no\nos={os_name}\n"))
