from __future__ import annotations

import os
from pathlib import Path

import pytest

from twinrig.domain.errors import HostError
from twinrig.domain.ports import FolderEntry
from twinrig.hosts.local.host import LocalHost


async def test_entries_follow_links_and_name_their_size(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.bin").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("a.bin")
    (tmp_path / "dirlink").symlink_to("b")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    assert await LocalHost({}).list_folder(str(tmp_path)) == (
        FolderEntry("a.bin", False, 5),
        FolderEntry("b", True),
        FolderEntry("dirlink", True),
        FolderEntry("gone", False),
        FolderEntry("link", False, 5),
        FolderEntry("loop", False),
    )


async def test_no_folder_is_empty_and_a_loop_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    host = LocalHost({})
    assert await host.list_folder(str(tmp_path / "none")) == ()
    assert await host.list_folder(str(tmp_path / "file")) == ()
    with pytest.raises(HostError):
        await host.list_folder(str(tmp_path / "loop"))
    with pytest.raises(HostError):
        await host.list_folder("relative")


async def test_sysroot_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "srv" / "models").mkdir(parents=True)
    assert await LocalHost({}, tmp_path).list_folder("/srv") == (FolderEntry("models", True),)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert await LocalHost(os.environ).home() == "/home/somebody"
