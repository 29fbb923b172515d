"""Every package that users get is named with the licence that its own metadata tells."""

from __future__ import annotations

import importlib.metadata
import re

from unit.house.source_tree import ROOT

ROW = re.compile(r"^\| ([a-z0-9-]+) \| ([^|]+) \| [^|]+ \| (all|Linux|Windows) \|$", re.MULTILINE)
PIN = re.compile(r"^([a-z0-9-]+)==", re.MULTILINE)
SHORT = {"MIT License": "MIT", "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0"}


def pinned(platform: str) -> set[str]:
    return set(PIN.findall((ROOT / "installer" / "requirements" / f"{platform}.txt").read_text()))


def notices() -> dict[str, tuple[str, str]]:
    """Package -> licence and platforms, as the file tells them."""
    text = (ROOT / "THIRD-PARTY-NOTICES.md").read_text("utf-8")
    return {name: (licence, where) for name, licence, where in ROW.findall(text)}


def told_by_metadata(name: str) -> str:
    metadata = importlib.metadata.metadata(name)
    if text := metadata.get("License-Expression") or metadata.get("License"):
        return str(text)
    classes = [c for c in metadata.get_all("Classifier", []) if c.startswith("License ::")]
    last = classes[0].rpartition(":: ")[2]
    return SHORT.get(last, last)


def test_all_pinned_packages_are_named_and_no_other() -> None:
    linux, windows = pinned("linux"), pinned("windows")
    assert len(linux) > 20
    expected = {
        name: "all" if name in linux & windows else "Linux" if name in linux else "Windows"
        for name in linux | windows
    }
    assert {name: where for name, (_, where) in notices().items()} == expected


def test_licences_are_those_of_the_installed_packages() -> None:
    installed = {
        (d.metadata["Name"] or "").lower().replace("_", "-").replace(".", "-")
        for d in importlib.metadata.distributions()
    }
    told = {name: licence for name, (licence, _) in notices().items() if name in installed}
    assert len(told) > 20
    assert told == {name: told_by_metadata(name) for name in told}
