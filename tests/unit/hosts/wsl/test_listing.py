"""Which distributions there are, out of text and registry."""

from __future__ import annotations

import pytest

from twinrig.domain.wsl import DistroState, WslDistro
from twinrig.hosts.wsl.listing import LxssRecord, from_registry, parse_names, parse_verbose
from twinrig.hosts.wsl.registry import LXSS, PACKAGE, package_folder, read_records

TABLE = """  NAME                   STATE           VERSION
* Ubuntu-24.04           Running         2
  docker-desktop         Stopped         2
  Legacy                 Stopped         1
  New_1.0                Installing      2
"""
RUNNING, STOPPED, BUSY = DistroState.RUNNING, DistroState.STOPPED, DistroState.BUSY
FOUND = (
    WslDistro("Ubuntu-24.04", RUNNING, 2, True),
    WslDistro("docker-desktop", STOPPED, 2),
    WslDistro("Legacy", STOPPED, 1),
    WslDistro("New_1.0", BUSY, 2),
)


def test_the_table() -> None:
    assert parse_verbose(TABLE, ["ubuntu-24.04"]) == FOUND


def test_a_translated_table() -> None:
    text = (
        TABLE.replace("NAME", "名前")
        .replace("STATE", "状態")
        .replace("Running", "実行中")
        .replace("Stopped", "停止 中")
    )
    assert parse_verbose(text, {"Ubuntu-24.04"}) == FOUND


def test_the_running_ones_are_believed_not_the_words() -> None:
    assert parse_verbose(TABLE, ())[0].state is STOPPED
    assert parse_verbose(TABLE, ["LEGACY"])[2].state is RUNNING


def test_narrow_columns_and_rubbish() -> None:
    text = "NAME STATE VERSION\n* A Running 2\nB Stopped 1\n\nhello\na b c d e\nC Stopped 3\n"
    assert parse_verbose(text, ["A"]) == (
        WslDistro("A", RUNNING, 2, True),
        WslDistro("B", STOPPED, 1),
    )
    assert parse_verbose("", ()) == ()
    assert parse_verbose("* A Running 2", ()) == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Ubuntu\nDebian-12\n", ("Ubuntu", "Debian-12")),
        ("", ()),
        ("\n", ()),
        ("There are no running distributions.\n", ()),
        ("実行中のディストリビューションはありません。\n", ()),
        ("  Ubuntu  \n", ("Ubuntu",)),
    ],
)
def test_names(text: str, names: tuple[str, ...]) -> None:
    assert parse_names(text) == names


def test_the_registry_needs_no_words() -> None:
    records = [
        LxssRecord("{2}", "zeta", 0xF, 1, False),
        LxssRecord("{1}", "Ubuntu", 0xF, 1, True),
        LxssRecord("{3}", "Alpha", 0x7, 1, False),
        LxssRecord("{4}", "busy", 0xF, 3, False),
        LxssRecord("{5}", "no name", 0xF, 1, False),
        LxssRecord("{6}", "", 0xF, 1, False),
    ]
    assert from_registry(records, ["UBUNTU"]) == (
        WslDistro("Ubuntu", RUNNING, 2, True, "{1}"),
        WslDistro("Alpha", STOPPED, 1, False, "{3}"),
        WslDistro("busy", BUSY, 2, False, "{4}"),
        WslDistro("no name", STOPPED, 2, False, "{5}"),
        WslDistro("zeta", STOPPED, 2, False, "{2}"),
    )


class Keys:
    """A registry in memory."""

    def __init__(self, **keys: dict[str, int | str]) -> None:
        self.keys = keys

    def values(self, key: str) -> dict[str, int | str]:
        return self.keys.get(key, {})

    def subkeys(self, key: str) -> tuple[str, ...]:
        head = f"{key}\\"
        return tuple(k.removeprefix(head) for k in self.keys if k.startswith(head))


def test_reading_the_registry() -> None:
    keys = Keys(
        **{
            LXSS: {"defaultdistribution": "{AB}"},
            f"{LXSS}\\{{ab}}": {"distributionname": "Ubuntu", "flags": 7, "state": 3},
            f"{LXSS}\\{{cd}}": {"distributionname": "Bare"},
            f"{LXSS}\\AppxInstallerCache": {},
            f"{LXSS}\\{{ef}}": {"distributionname": "Odd", "flags": "x"},
            PACKAGE: {"installlocation": r"C:\Program Files\WSL"},
        }
    )
    assert read_records(keys) == (
        LxssRecord("{ab}", "Ubuntu", 7, 3, True),
        LxssRecord("{cd}", "Bare", 8, 1, False),
    )
    assert package_folder(keys) == r"C:\Program Files\WSL"


def test_an_empty_registry() -> None:
    assert read_records(Keys()) is None
    assert read_records(Keys(**{LXSS: {"defaultdistribution": "{ab}"}})) == ()
    assert package_folder(Keys()) is None
    assert package_folder(Keys(**{PACKAGE: {"installlocation": ""}})) is None
