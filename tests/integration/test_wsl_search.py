"""Looking for engines and models in WSL: every ``wsl.exe`` costs a third of a second there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.windows_computer import Computer, windows_computer
from twinrig import assets
from twinrig.domain.errors import HostAwayError
from twinrig.domain.install import EngineInstall
from twinrig.engines.registry import load_engines
from twinrig.hosts import linux_scripts
from twinrig.hosts.local.host import LocalHost
from twinrig.services.adoption import AdoptionFinder
from twinrig.services.installs import EngineFinder
from twinrig.services.models import ModelLibrary

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the double needs Linux")
PLACES = ("~/venvs/*", "~/my [odd] place/*", "~/tabby*", "~/tabby*/venv", "~/.hidden/*")


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    with windows_computer(tmp_path, clock=1.0) as made:
        yield made


@pytest.fixture
def home(computer: Computer) -> Path:
    folder = computer.store.home / "distros" / "Ubuntu" / "home" / "me"
    folder.mkdir(parents=True)
    return folder


def launches(computer: Computer) -> int:
    """How often something was started in Linux."""
    return sum("mode=exec" in call["note"] for call in computer.store.calls())


def environment(folder: Path, version: str, package: str = "vllm", program: str = "vllm") -> None:
    packages = folder / "lib" / "python3.12" / "site-packages"
    (packages / "torch").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / program).write_text("#!/bin/sh\nexit 99\n")
    (folder / "pyvenv.cfg").write_text("version = 3.12.4\n")
    (packages / "torch" / "version.py").write_text("__version__ = '2.9.1'\ncuda = '13.0'\n")
    info = packages / f"{package}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {package}\nVersion: {version}\n")


def finder(host: object) -> EngineFinder:
    return EngineFinder(host, load_engines(assets.read_text), places=PLACES)  # type: ignore[arg-type]


async def test_a_search_for_engines_is_one_call(computer: Computer, home: Path) -> None:
    for number in range(12):
        environment(home / "venvs" / f"環境 {number}", f"0.{number}.0")
    environment(home / ".hidden" / "x", "9.0.0", package="VLLM")
    (home / "venvs" / "empty").mkdir()
    (home / "venvs" / "broken").symlink_to("nowhere")
    (home / "venvs" / "linked").symlink_to("環境 3")
    found = await finder(computer.host()).find("vllm")
    assert launches(computer) == 1
    assert [i.version for i in found][:3] == ["9.0.0", "0.11.0", "0.10.0"]
    assert found == await finder(local(home)).find("vllm"), "as one by one"
    assert len(found) == 14


async def test_a_named_environment_is_one_call_too(computer: Computer, home: Path) -> None:
    odd = home / "my [odd] place" / "a*b\\c"
    environment(odd, "0.33.0")
    environment(home / "my [odd] place" / "axb", "0.1.0")
    (found,) = await finder(computer.host()).find("vllm", f"{odd}/bin/vllm")
    assert launches(computer) == 1
    assert found == EngineInstall(
        "vllm", str(odd), "0.33.0", f"{odd}/bin/vllm", "3.12.4", "2.9.1", (13, 0)
    )


async def test_a_source_folder_is_found_with_its_environment(
    computer: Computer, home: Path
) -> None:
    engine = load_engines(assets.read_text)["tabbyapi"]
    source = home / "tabbyAPI"
    for path in engine.layout.checkout:
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text("")
    environment(source / "venv", "0.0.9", package="exllamav3", program=engine.layout.program)
    found = await finder(computer.host()).find("tabbyapi")
    assert launches(computer) == 1
    assert found == await finder(local(home)).find("tabbyapi")
    assert [(i.folder, i.version) for i in found] == [(str(source), "0.0.9")]


async def test_a_search_for_models_is_one_call(computer: Computer, home: Path) -> None:
    for name in ("one", "org/two", "org/deep/three", "org/too/deep/four"):
        folder = home / "models" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"architectures": ["X"]}))
        (folder / "model.safetensors").write_bytes(b"x" * 2000)
    cache = home / ".cache" / "huggingface" / "hub" / "models--org--five"
    (cache / "blobs").mkdir(parents=True)
    (cache / "blobs" / "abc").write_text("{}")
    (cache / "snapshots" / "1").mkdir(parents=True)
    (cache / "snapshots" / "1" / "config.json").symlink_to("../../blobs/abc")
    found = await ModelLibrary(computer.host()).scan()
    assert launches(computer) == 1
    assert found == await ModelLibrary(local(home)).scan()
    assert [m.name for m in found] == [
        "one",
        "org/deep/three",
        "org/five",
        "org/two",
    ]
    described = await ModelLibrary(computer.host()).describe("~/models/one/")
    assert launches(computer) == 2
    assert described is not None and (described.name, described.size_bytes) == ("one", 2000)


async def test_a_search_for_units_is_one_call(computer: Computer, home: Path) -> None:
    units = home / ".config" / "systemd" / "user"
    (units / "llm.service.d").mkdir(parents=True)
    (units / "other.service").write_text("[Service]\nExecStart=/usr/bin/true\n")
    (units / "llm.service").write_text(
        "[Service]\nExecStart=/opt/v/bin/vllm serve /models/x --port 8011\n"
    )
    (units / "llm.service.d" / "a.conf").write_text("[Service]\nEnvironment=NCCL_DEBUG=INFO\n")
    engines = load_engines(assets.read_text)
    (found,) = await AdoptionFinder(computer.host(), engines, "wsl", str).units()
    assert (found.profile.network.port, list(found.profile.env)) == (8011, ["NCCL_DEBUG"])
    assert launches(computer) == 1


@pytest.mark.parametrize("broken", ["exit 0", "exit 9", "printf '/home/me\\0/x\\0'"])
async def test_an_answer_that_is_not_whole_is_asked_for_one_by_one(
    computer: Computer, home: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """As when a file grows meanwhile, or ``find`` is missing."""
    monkeypatch.setattr(linux_scripts, "GLANCE", broken)
    environment(home / "venvs" / "x", "0.33.0")
    found = await finder(computer.host()).find("vllm")
    assert [i.version for i in found] == ["0.33.0"]
    assert launches(computer) > 5


async def test_an_unreachable_target_is_no_empty_one(computer: Computer) -> None:
    computer.store.flag("e_unexpected")
    host = computer.host()
    for look in (
        finder(host).find("vllm"),
        ModelLibrary(host).scan(),
        AdoptionFinder(host, {}, "wsl", str).units(),
    ):
        with pytest.raises(HostAwayError):
            await look


def local(home: Path) -> LocalHost:
    """The same files, asked one by one."""

    class AtHome(LocalHost):
        async def home(self) -> str:
            return str(home)

    return AtHome(os.environ)


async def test_a_home_whose_name_looks_like_a_pattern(computer: Computer) -> None:
    computer.store.set_distro("Ubuntu", user="me [x] 山田 *")
    folder = computer.store.home / "distros" / "Ubuntu" / "home" / "me [x] 山田 *"
    folder.mkdir(parents=True)
    environment(folder / "venvs" / "x", "0.33.0")
    (found,) = await finder(computer.host()).find("vllm")
    assert found.environment == f"{folder}/venvs/x"
    assert launches(computer) == 1
