from __future__ import annotations

from pathlib import Path

import pytest

from service_fakes import ENGINES, FakeEngine, FolderHost, profile
from twinrig.domain.errors import HostError, UsageError
from twinrig.domain.install import EngineInstall, InstallLayout
from twinrig.domain.ports import CommandResult
from twinrig.domain.profile import EngineRef
from twinrig.services.installs import EngineFinder


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    return FolderHost(tmp_path)


@pytest.fixture
def finder(host: FolderHost) -> EngineFinder:
    return EngineFinder(host, ENGINES)


def install(
    host: FolderHost,
    folder: str,
    *,
    version: str = "0.32.0",
    name: str = "fakellm",
    program: bool = True,
    torch: str | None = "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n",
    python: str = "python3.12",
    library: str = "lib",
) -> None:
    real = host.real(folder)
    packages = real / library / python / "site-packages"
    info = packages / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nx")
    (real / "bin").mkdir(exist_ok=True)
    if program:
        (real / "bin" / "fakellm").write_text("#!/bin/sh\nexit 99\n")
    (real / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.4\n")
    if torch is not None:
        (packages / "torch").mkdir(exist_ok=True)
        (packages / "torch" / "version.py").write_text(torch)


async def test_reads_versions_from_disk(host: FolderHost, finder: EngineFinder) -> None:
    install(host, "/home/me/venvs/vllm")
    assert await finder.find("fake") == (
        EngineInstall(
            "fake",
            "/home/me/venvs/vllm",
            "0.32.0",
            "/home/me/venvs/vllm/bin/fakellm",
            "3.12.4",
            "2.13.0+cu130",
            (13, 0),
        ),
    )


@pytest.mark.parametrize(
    "place",
    [
        "/home/me/.venv",
        "/home/me/vllm",
        "/home/me/vllm-0.32/.venv",
        "/home/me/tabbyAPI/venv",
        "/home/me/miniconda3/envs/llm",
        "/opt/vllm-venv",
        "/home/me/.local/share/uv/tools/vllm",
    ],
)
async def test_usual_places(host: FolderHost, finder: EngineFinder, place: str) -> None:
    install(host, place)
    assert [i.environment for i in await finder.find("fake")] == [place]


async def test_environment_given_in_many_ways(host: FolderHost, finder: EngineFinder) -> None:
    install(host, "/srv/my [env]")
    for given in (
        "/srv/my [env]",
        "/srv/my [env]/",
        "/srv/my [env]/bin",
        "/srv/my [env]/bin/fakellm",
    ):
        assert [i.environment for i in await finder.find("fake", given)] == ["/srv/my [env]"]
    install(host, "/home/me/odd")
    assert [i.environment for i in await finder.find("fake", "~/odd")] == ["/home/me/odd"]


async def test_startable_first_then_newest(host: FolderHost, finder: EngineFinder) -> None:
    install(host, "/home/me/venvs/a", version="0.9.2")
    install(host, "/home/me/venvs/b", version="0.33.0", program=False)
    install(host, "/home/me/venvs/c", version="0.10.0")
    found = await finder.find("fake")
    assert [i.version for i in found] == ["0.10.0", "0.9.2", "0.33.0"]
    assert found[2].executable == ""


async def test_cpu_build_and_its_second_name(host: FolderHost, finder: EngineFinder) -> None:
    cpu = "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n"
    install(host, "/home/me/venvs/cpu", name="fakellm_cpu", torch=cpu)
    (found,) = await finder.find("fake")
    assert (found.version, found.torch_version, found.torch_cuda) == ("0.32.0", "2.13.0+cpu", None)
    install(host, "/home/me/venvs/cpu", version="0.32.0+cpu")
    assert (await finder.find("fake"))[0].version == "0.32.0+cpu"


async def test_similar_packages_are_not_mistaken(host: FolderHost, finder: EngineFinder) -> None:
    for name in ("fakellm_gguf_plugin", "myfakellm", "fakellm_cpu_tools"):
        install(host, "/home/me/venvs/x", name=name)
    assert await finder.find("fake") == ()


async def test_damaged_metadata_and_no_torch(host: FolderHost, finder: EngineFinder) -> None:
    install(host, "/home/me/venvs/a", torch=None)
    packages = host.real("/home/me/venvs/a/lib/python3.12/site-packages")
    (packages / "fakellm-0.32.0.dist-info" / "METADATA").write_bytes(b"\xff\x00garbage")
    (found,) = await finder.find("fake")
    assert (found.version, found.torch_version, found.torch_cuda) == ("", "", None)
    assert found.executable


async def test_other_library_folders(host: FolderHost, finder: EngineFinder) -> None:
    install(host, "/home/me/venvs/a", library="lib64", python="python3.13")
    (found,) = await finder.find("fake")
    assert found.python_version == "3.13"


async def test_built_in_engines_need_no_search(host: FolderHost) -> None:
    own = EngineInstall("demo", "", "0.1.0", "/usr/bin/python3")
    finder = EngineFinder(host, ENGINES, built_in={"demo": own})
    assert await finder.find("demo") == (own,)
    assert await finder.resolve(profile(engine=EngineRef("demo"))) == own
    assert host.listed == []


async def test_unreachable_is_not_nothing_found(host: FolderHost, finder: EngineFinder) -> None:
    host.reachable = False
    with pytest.raises(HostError):
        await finder.find("fake")


async def test_resolve_says_what_to_do(host: FolderHost, finder: EngineFinder) -> None:
    with pytest.raises(UsageError, match="usual places") as caught:
        await finder.resolve(profile())
    assert "~/venvs/fakellm" in str(caught.value.next_step)
    with pytest.raises(UsageError, match="no Fake engine in /srv/none"):
        await finder.resolve(profile(engine=EngineRef("fake", "/srv/none")))
    install(host, "/srv/broken", program=False)
    assert caught.value.finding_id == "engine-not-installed"
    assert caught.value.fixes == ("cfg-env-path", "pkg-install-engine")
    with pytest.raises(UsageError, match="no program to start"):
        await finder.resolve(profile(engine=EngineRef("fake", "/srv/broken")))
    install(host, "/srv/good")
    got = await finder.resolve(profile(engine=EngineRef("fake", "/srv/good")))
    assert got.executable == "/srv/good/bin/fakellm"


async def test_unknown_engine(finder: EngineFinder) -> None:
    assert await finder.find("nothing") == ()


class CheckoutEngine(FakeEngine):
    """An engine that is run in place from its source folder."""

    layout = InstallLayout(
        "fakellm", "python", checkout=("main.py", "common/models.py"), usual_place="~/tabbyFake"
    )


@pytest.fixture
def in_place(host: FolderHost) -> EngineFinder:
    return EngineFinder(host, {"fake": CheckoutEngine()})


def checkout(host: FolderHost, folder: str) -> None:
    (host.real(folder) / "common").mkdir(parents=True)
    (host.real(folder) / "common" / "models.py").touch()
    (host.real(folder) / "main.py").touch()


def with_python(host: FolderHost, folder: str) -> None:
    install(host, folder, program=False)
    (host.real(folder) / "bin" / "python").touch()


@pytest.mark.parametrize(
    "given", ["", "~/tabbyFake", "~/tabbyFake/venv", "~/tabbyFake/venv/bin/python"]
)
async def test_a_source_folder_and_its_environment_belong_together(
    host: FolderHost, in_place: EngineFinder, given: str
) -> None:
    checkout(host, "/home/me/tabbyFake")
    with_python(host, "/home/me/tabbyFake/venv")
    (found,) = await in_place.find("fake", given)
    assert found.environment == "/home/me/tabbyFake/venv"
    assert found.executable == "/home/me/tabbyFake/venv/bin/python"
    assert (found.folder, found.version) == ("/home/me/tabbyFake", "0.32.0")


async def test_an_environment_elsewhere_uses_the_first_source_folder(
    host: FolderHost, in_place: EngineFinder
) -> None:
    with_python(host, "/home/me/miniconda3/envs/llm")
    assert await in_place.find("fake", "/home/me/miniconda3/envs/llm") == ()
    checkout(host, "/home/me/tabbyFake")
    (found,) = await in_place.find("fake", "/home/me/miniconda3/envs/llm")
    assert (found.folder, found.environment) == (
        "/home/me/tabbyFake",
        "/home/me/miniconda3/envs/llm",
    )


async def test_half_a_source_folder_is_none(host: FolderHost, in_place: EngineFinder) -> None:
    host.real("/home/me/tabbyFake").mkdir(parents=True)
    (host.real("/home/me/tabbyFake") / "main.py").touch()
    with_python(host, "/home/me/tabbyFake/venv")
    assert await in_place.find("fake") == ()
    with pytest.raises(UsageError) as caught:
        await in_place.resolve(profile())
    assert "~/tabbyFake" in str(caught.value.next_step)


async def test_a_start_looks_behind_the_link_that_set_ups_move(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()

    class LinkHost(FolderHost):
        async def run(self, command: object, **_: object) -> CommandResult:
            assert command == ("readlink", "-f", "--", link)
            return CommandResult((), self.code, self.answer, b"", 0.0)

    host = LinkHost(tmp_path / "target")
    link = "/home/me/.local/share/twinrig/engines/fakellm/current"
    host.code, host.answer = 0, b"/home/me/.local/share/twinrig/engines/fakellm/env-2\n"
    packages = host.real(f"{link}/venv/lib/python3.12/site-packages/fakellm-2.0.dist-info")
    packages.mkdir(parents=True)
    (packages / "METADATA").write_text("Version: 2.0\n")
    program = host.real(f"{link}/venv/bin/fakellm")
    program.parent.mkdir(parents=True)
    program.write_text("")
    finder = EngineFinder(host, ENGINES)
    (found,) = await finder.find("fake")
    assert found.environment == f"{link}/venv", "profiles name what will follow an update"
    started = await finder.resolve(profile())
    real = "/home/me/.local/share/twinrig/engines/fakellm/env-2"
    assert started.environment == f"{real}/venv"
    assert started.executable == f"{real}/venv/bin/fakellm"
    host.code, host.answer = 1, b""
    assert (await finder.resolve(profile())).executable == f"{link}/venv/bin/fakellm"
