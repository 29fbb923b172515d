"""Reading what the scripts of the Linux side answer."""

from __future__ import annotations

import pytest

from twinrig.domain.ports import FolderEntry, ProcessInfo
from twinrig.hosts.linux_answers import parse_entries, parse_glimpse, parse_processes


def test_entries() -> None:
    data = (
        b"b\0a x\0broken\0\xff\nodd\0sub\0\0"
        b"regular file\x0012\0./b\0regular empty file\x000\0./a x\0"
        b"regular file\x001\0./\xff\nodd\0directory\x004096\0./sub\0"
    )
    assert parse_entries(data) == (
        FolderEntry("a x", False, 0),
        FolderEntry("b", False, 12),
        FolderEntry("broken", False),
        FolderEntry("sub", True),
        FolderEntry("\udcff\nodd", False, 1),
    )


def test_no_entries_and_answers_cut_short() -> None:
    assert parse_entries(b"") == ()
    assert parse_entries(b"a\0\0") == (FolderEntry("a", False),)
    assert parse_entries(b"a\0\0regular file\0") == (FolderEntry("a", False),)
    assert parse_entries(b"a\0\0regular file\0x\0./a\0") == (FolderEntry("a", False),)


GLIMPSE = (
    b"/home/me\0"
    b"/a\0sub\0d\x004096\0" + b"/a\0b\0f\x0012\0" + b"/a\0broken\0l\x007\0"
    b"/a b\0\xff\0p\x000\0\0"
    b"/a/b\0" + b"3\0" + b"/large\0-\0" + b"/none\x000\0" + b"/c\x002\0\0"
    b"x\0yzw"
)


def test_many_folders_and_files_at_once() -> None:
    seen = parse_glimpse(GLIMPSE)
    assert seen is not None
    assert seen.home == "/home/me"
    assert seen.folders == {
        "/a": (FolderEntry("b", False, 12), FolderEntry("broken", False), FolderEntry("sub", True)),
        "/a b": (FolderEntry("\udcff", False, 0),),
    }
    assert seen.files == {"/a/b": b"x\0y", "/large": None, "/none": b"", "/c": b"zw"}


def test_nothing_at_all_is_whole_too() -> None:
    seen = parse_glimpse(b"/root\0\0\0")
    assert seen is not None
    assert (seen.home, seen.folders, seen.files) == ("/root", {}, {})


@pytest.mark.parametrize("size", range(len(GLIMPSE)))
def test_half_an_answer_is_none(size: int) -> None:
    assert parse_glimpse(GLIMPSE[:size]) is None


@pytest.mark.parametrize("data", [GLIMPSE + b"+", b"home\0\0\0", b"\0\0\0", b"/h\0\0\0x"])
def test_what_does_not_fit_together_is_none(data: bytes) -> None:
    assert parse_glimpse(data) is None


def test_processes() -> None:
    data = (
        b"7/stat:7 (a (b) c) S 1 7 7 0\n"
        b"9/stat:9 (kworker) I 2 0 0 0\n"
        b"8/stat:8 (gone) Z 7 7 7 0\n"
        b"6/stat:6 (cut) S\n"
        b"5/stat:x (odd) S 1 2 3\n"
        b"----\n"
        b"7/cmdline:python\0" + b"7/cmdline:-m\0" + b"7/cmdline:m:n \xff\0"
        b"7/environ:TWINRIG_RUN_ID=r:1\0" + b"9/environ:TWINRIG_RUN_ID_X=no\0junk\0"
    )
    assert parse_processes(data, "TWINRIG_RUN_ID") == (
        ProcessInfo(7, 1, "python -m m:n \ufffd", "r:1"),
        ProcessInfo(9, 2, "kworker"),
    )
    assert parse_processes(b"", "X") == ()
