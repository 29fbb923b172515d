from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from twinrig.composition import targets
from twinrig.composition.supervise import Preparer, _own_target, supervisor_parts
from twinrig.composition.targets import open_rig, open_workbench, resolve_target, runs_on_wsl
from twinrig.domain.errors import HostError, ProfileError, UsageError
from twinrig.domain.profile import EngineRef, Network, Profile
from twinrig.domain.supervision import StateLayout
from twinrig.hosts.paths import AppPaths, find_paths
from twinrig.services.workbench import Workbench


@pytest.fixture
def paths(twinrig_home: Path) -> AppPaths:
    return find_paths({"TWINRIG_HOME": str(twinrig_home)})


@pytest.fixture
def bench(paths: AppPaths) -> Workbench:
    return open_workbench("demo", paths, {})


def draft(bench: Workbench) -> Profile:
    profile = bench.profiles.draft(
        "demo", name="P", target="demo", model_path="/home/demo/models/x", gpu_count=2, on_wsl=False
    )
    bench.profiles.save(profile)
    return profile


def test_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_target("auto", {}) == "local"
    monkeypatch.setattr(sys, "platform", "win32")
    assert resolve_target("auto", {}) == "wsl"
    assert resolve_target("wsl:Debian", {}) == "wsl:Debian"
    with pytest.raises(HostError, match="needs Linux"):
        resolve_target("local", {})
    monkeypatch.setattr(sys, "platform", "darwin")
    assert resolve_target("auto", {}) == "demo"


def test_wsl_elsewhere_needs_a_named_program(tmp_path: Path) -> None:
    for environ in ({}, {"TWINRIG_WSL_EXE": str(tmp_path / "none.exe")}):
        for target in ("wsl", "wsl:Debian"):
            with pytest.raises(HostError, match="needs Windows") as caught:
                resolve_target(target, environ)
            assert "--target local" in str(caught.value.next_step)
    (tmp_path / "wsl.exe").touch()
    assert resolve_target("wsl", {"TWINRIG_WSL_EXE": str(tmp_path / "wsl.exe")}) == "wsl"


def test_no_such_target() -> None:
    with pytest.raises(UsageError):
        resolve_target("moon", {})


def test_which_distribution(paths: AppPaths, tmp_path: Path) -> None:
    (tmp_path / "wsl.exe").touch()
    environ = {"TWINRIG_WSL_EXE": str(tmp_path / "wsl.exe")}
    assert open_workbench("wsl", paths, environ).distro == ""
    paths.config.mkdir(parents=True)
    (paths.config / "panel.ini").write_text("[General]\ndistro=Debian\n")
    assert open_workbench("wsl", paths, environ).distro == "Debian"
    named = {**environ, "TWINRIG_DISTRO": "Arch"}
    assert open_workbench("wsl", paths, named).distro == "Arch"
    bench = open_workbench("wsl:Ubuntu", paths, named)
    assert (bench.distro, bench.target, bench.on_wsl) == ("Ubuntu", "wsl", True)
    assert bench.layout.root == paths.target_state("wsl")
    (paths.config / "panel.ini").write_bytes(b"\xff\xfe\x00")
    assert open_workbench("wsl", paths, environ).distro == ""


def test_wsl_is_told_by_the_kernel(tmp_path: Path) -> None:
    release = tmp_path / "osrelease"
    assert not runs_on_wsl(release)
    release.write_text("6.6.87.2-microsoft-standard-WSL2\n")
    assert runs_on_wsl(release)
    release.write_text("6.12.0-amd64\n")
    assert not runs_on_wsl(release)
    release.write_bytes(b"\xff\x00")
    assert not runs_on_wsl(release)


def test_demo_and_local_never_mix(paths: AppPaths) -> None:
    demo, local = open_workbench("demo", paths, {}), open_workbench("local", paths, {})
    assert (demo.target, demo.demo, demo.label) == ("demo", True, "Demo rig")
    assert (local.target, local.demo) == ("local", False)
    assert demo.layout.root != local.layout.root
    assert demo.layout.root.is_relative_to(paths.state)
    assert all(card.simulated for card in demo.open_gpu_probe().devices())


def test_opening_a_target_writes_nothing(paths: AppPaths, twinrig_home: Path) -> None:
    open_workbench("demo", paths, {})
    open_workbench("local", paths, {})
    assert not twinrig_home.exists()


def test_places_of_this_terminal_come_first() -> None:
    environ = {"VIRTUAL_ENV": "/home/me/envs/llm", "CONDA_PREFIX": "relative", "HF_HOME": "/big/hf"}
    assert targets._places(environ)[0] == "/home/me/envs/llm"
    assert "relative" not in targets._places(environ)
    assert sys.prefix not in targets._places({"VIRTUAL_ENV": sys.prefix})
    assert targets._model_folders(environ, False)[0] == "/big/hf/hub"
    assert targets._model_folders({"HF_HUB_CACHE": "/c", "HF_HOME": "/big"}, False)[0] == "/c"
    assert targets._model_folders({}, False)[0] == "~/models"


async def test_supervisor_parts_render_the_profile(bench: Workbench, paths: AppPaths) -> None:
    profile = draft(bench)
    parts = supervisor_parts("demo", "p", paths, {})
    spec = await parts.prepare(parts.load_profile("p"))
    assert spec.argv[:3] == (sys.executable, "-m", "twinrig")
    assert spec.endpoint.port == profile.network.port
    folder = str(StateLayout(paths.target_state("demo")).folder("p"))
    assert all(file.path.startswith(folder) for file in spec.files)
    assert parts.engine_for(profile).id == "demo"
    assert parts.lock.acquire("supervisor")
    assert bench.controller._holder() == "p"
    parts.lock.release()
    await parts.http.close()


def test_a_supervisor_works_in_the_distribution_of_its_profile(
    paths: AppPaths, tmp_path: Path
) -> None:
    (tmp_path / "wsl.exe").touch()
    environ = {"TWINRIG_WSL_EXE": str(tmp_path / "wsl.exe"), "TWINRIG_DISTRO": "Arch"}
    bench = open_workbench("wsl:Debian", paths, environ)
    profile = bench.profiles.draft(
        "vllm", name="P", target="wsl", model_path="/m", gpu_count=2, on_wsl=True
    )
    bench.profiles.save(replace(profile, distro="Debian"))
    assert _own_target("wsl", "p", paths, environ) == "wsl:Debian"
    assert _own_target("wsl:Other", "p", paths, environ) == "wsl:Debian"
    assert _own_target("wsl", "lost", paths, environ) == "wsl"
    assert _own_target("local", "p", paths, environ) == "local"
    bench.profiles.save(profile, replaces=replace(profile, distro="Debian"))
    assert _own_target("wsl:Other", "p", paths, environ) == "wsl:Other"


class Secrets:
    place = ""
    lasting = True

    async def get(self, name: str) -> str | None:
        return {"lan": "the-key"}.get(name)


async def test_keys_reach_the_server_outside_its_command_line(paths: AppPaths) -> None:
    rig = open_rig("demo", paths)
    bench = open_workbench("demo", paths, {})
    preparer = Preparer(rig, bench.layout, Secrets())  # type: ignore[arg-type]
    profile = replace(draft(bench), network=Network("127.0.0.1", 18099, "lan"))
    spec = await preparer.prepare(profile)
    assert spec.bearer_token == "the-key"
    assert not any("the-key" in word for word in spec.argv)
    assert "the-key" in [spec.env[name] for name in spec.secret_env]
    with pytest.raises(ProfileError):
        await preparer.prepare(replace(profile, network=Network("127.0.0.1", 18099, "lost")))


async def test_prepare_refuses_what_belongs_elsewhere(paths: AppPaths) -> None:
    rig = open_rig("demo", paths)
    bench = open_workbench("demo", paths, {})
    preparer = Preparer(rig, bench.layout, Secrets())  # type: ignore[arg-type]
    profile = draft(bench)
    with pytest.raises(UsageError, match="belongs to the target local"):
        await preparer.prepare(replace(profile, target="local"))
    with pytest.raises(UsageError, match="no engine ollama"):
        await preparer.prepare(replace(profile, engine=EngineRef("ollama")))


def test_supervisor_of_a_bad_name_leaves_no_trace(paths: AppPaths, twinrig_home: Path) -> None:
    with pytest.raises(UsageError):
        supervisor_parts("demo", "../x", paths, {})
    assert not twinrig_home.exists()
