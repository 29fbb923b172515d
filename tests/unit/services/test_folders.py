"""Wildcards, and what a look round at once spares."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from service_fakes import FolderHost
from twinrig.domain.ports import FolderEntry, Glimpse
from twinrig.services.folders import FolderView, parents


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    made = FolderHost(tmp_path)
    for folder in ("/home/me/v/a", "/home/me/v/.hidden", "/home/me/w", "/opt"):
        made.real(folder).mkdir(parents=True)
    return made


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("/", ("/",)),
        ("~", ("/home/me",)),
        ("~/", ("/home/me",)),
        ("~x", ("/~x",)),
        ("/home/*", ("/home/me",)),
        ("~/*", ("/home/me/v", "/home/me/w")),
        ("~/v/*", ("/home/me/v/a",)),
        ("~/v/.*", ("/home/me/v/.hidden",)),
        ("~/[v]/a/", ("/home/me/v/a",)),
        ("~/v/none", ("/home/me/v/none",)),
        ("~/none/*", ()),
    ],
)
async def test_patterns(host: FolderHost, pattern: str, found: tuple[str, ...]) -> None:
    assert await FolderView(host).matching(pattern) == found


class Glancing(FolderHost):
    """Shows one folder and two files, whatever is asked for."""

    home_path = "/home/[me]"

    async def glance(self, folders: Sequence[str], files: Sequence[str]) -> Glimpse:
        self.asked = (tuple(folders), tuple(files))
        shown = {"/home/[me]/v": (FolderEntry("a", True),)}
        return Glimpse(self.home_path, shown, {"/home/[me]/v/f": b"text", "/home/[me]/v/big": None})


async def test_what_a_glance_did_not_show_is_not_asked_for(tmp_path: Path) -> None:
    host = Glancing(tmp_path)
    host.real("/home/[me]/v").mkdir(parents=True)
    host.real("/home/[me]/v/big").write_text("large")
    host.real("/home/[me]/v/other").write_text("other")
    view = FolderView(host)
    await view.prefetch(["~/*", "/a\\b"], ["~/v/[fbm]*"])
    assert host.asked == (("~/*", "/a[\\\\]b"), ("~/v/[fbm]*",))
    assert await view.home() == "/home/[me]"
    assert await view.matching("~/v/*") == ("/home/[me]/v/a",)
    assert await view.entries("/home/[me]/w") == await view.entries("/a\\b") == ()
    assert host.listed == []
    assert await view.entries("/home/[me]/.hidden") == await view.entries("/home/m") == ()
    assert host.listed == ["/home/[me]/.hidden", "/home/m"], "no pattern would have shown these"
    assert await view.text("/home/[me]/v/f") == "text"
    assert await view.text("/home/[me]/v/f", limit_bytes=3) is None
    assert await view.text("/home/[me]/v/missing") is None
    assert await view.text("/home/[me]/v/big") == "large", "it was not taken along"
    assert await view.text("/home/[me]/v/other") == "other"


def test_the_folders_that_a_pattern_looks_into() -> None:
    assert parents("~/v*/x/[a]") == ["~", "~/v*/x"]
    assert parents("/*") == ["/"]
    assert parents("/opt/x") == []
