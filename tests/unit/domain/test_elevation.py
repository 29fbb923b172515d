"""The list of what needs an administrator is fixed, and nothing but checked values gets in."""

from __future__ import annotations

import pytest

from twinrig.domain.elevation import AdminAction, AdminTask

NAT = (("profile", "big"), ("port", "8000"), ("address", "172.20.1.5"))
OWNED = (("profile", "big"), ("port", "8000"))
EXAMPLES = {
    AdminTask.OPEN_NAT: NAT,
    AdminTask.CLOSE_NAT: OWNED,
    AdminTask.OPEN_MIRRORED: OWNED,
    AdminTask.CLOSE_MIRRORED: OWNED,
    AdminTask.SET_TDR_DELAY: (("seconds", "10"),),
    AdminTask.RESET_TDR_DELAY: (),
}
PROGRAMS = {"netsh", "powershell", "reg"}


def test_the_list_is_exactly_this() -> None:
    assert {task.value for task in AdminTask} == {
        "open-nat",
        "close-nat",
        "open-mirrored",
        "close-mirrored",
        "set-tdr-delay",
        "reset-tdr-delay",
    }
    assert set(EXAMPLES) == set(AdminTask)


@pytest.mark.parametrize("task", AdminTask)
def test_each_task_runs_programs_of_windows_only_and_survives_the_command_line(
    task: AdminTask,
) -> None:
    action = AdminAction(task, EXAMPLES[task])
    commands = action.commands()

    assert commands and {command.argv[0] for command in commands} <= PROGRAMS
    assert AdminAction.from_words(action.to_words()) == action
    assert not all(c.may_fail for c in commands) or task.value.startswith(("close", "reset"))


@pytest.mark.parametrize("opened", [AdminTask.OPEN_NAT, AdminTask.OPEN_MIRRORED])
def test_opening_begins_with_what_closing_does_so_that_twice_is_once(opened: AdminTask) -> None:
    closed = AdminTask(opened.value.replace("open", "close"))
    closing = AdminAction(closed, OWNED).commands()

    assert AdminAction(opened, EXAMPLES[opened]).commands()[: len(closing)] == closing


EVIL = ["", "0", "65536", "８０００", "80 00", "8000&calc", "1" * 300, "-1", "8000\n"]


@pytest.mark.parametrize("value", EVIL)
def test_no_port_but_a_port(value: str) -> None:
    with pytest.raises(ValueError):
        AdminAction(AdminTask.CLOSE_NAT, (("profile", "big"), ("port", value)))


@pytest.mark.parametrize("value", ["", "x'; calc; '", 'a" b', "Big", "a b", "../x", "a\n", "日本"])
def test_no_profile_but_an_id(value: str) -> None:
    with pytest.raises(ValueError):
        AdminAction(AdminTask.OPEN_MIRRORED, (("profile", value), ("port", "8000")))


@pytest.mark.parametrize("value", ["", "::1", "1.2.3", "1.2.3.4 x", "localhost", "1.2.3.4;calc"])
def test_no_address_but_an_address(value: str) -> None:
    with pytest.raises(ValueError):
        AdminAction(AdminTask.OPEN_NAT, (*OWNED, ("address", value)))


@pytest.mark.parametrize("value", ["", "0", "121", "999", "1e3", "0x10", "٣", "-1", "10 "])
def test_no_delay_but_seconds(value: str) -> None:
    with pytest.raises(ValueError):
        AdminAction(AdminTask.SET_TDR_DELAY, (("seconds", value),))


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("run-anything",),
        ("close-nat",),
        ("close-nat", "profile=big", "port=8000", "command=calc"),
        ("close-nat", "profile=big", "port=8000", "port=8001"),
        ("reset-tdr-delay", "seconds=10"),
        ("set-tdr-delay", "seconds"),
    ],
)
def test_no_words_but_those_of_the_list(words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError):
        AdminAction.from_words(words)
