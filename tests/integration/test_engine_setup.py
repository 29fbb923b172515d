"""Engines are set up beside the one in use: real pip, an index double, and all that can fail."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.index_double import SERVER, TORCH, IndexDouble, source_zip
from fixtures.setup_rig import SetupRig, publish_vllm
from twinrig.domain.errors import ConflictError, HostError, TwinrigError, UsageError
from twinrig.domain.server import ServerState
from twinrig.hosts.locks import FileLock
from twinrig.services.engine_setup import LOCK_NAME
from twinrig.services.journal import Outcome
from twinrig.services.setup_words import SetupProgress, SetupStep

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def index() -> Iterator[IndexDouble]:
    with IndexDouble().serving() as double:
        yield double


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: IndexDouble) -> SetupRig:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return SetupRig(tmp_path, home, index, "570.65")


def old_version(rig: SetupRig) -> None:
    """A version in use, whose program answers."""
    program = rig.vllm / "env-old" / "venv" / "bin" / "vllm"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho the old one\n")
    program.chmod(0o755)
    packages = program.parents[1] / "lib" / "python3.12" / "site-packages" / "vllm-0.30.0.dist-info"
    packages.mkdir(parents=True)
    (packages / "METADATA").write_text("Version: 0.30.0\n")
    (rig.vllm / "current").symlink_to("env-old")


def says(rig: SetupRig) -> str:
    """What the program in use prints."""
    program = rig.vllm / "current" / "venv" / "bin" / "vllm"
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def folders(rig: SetupRig) -> list[str]:
    return sorted(p.name for p in rig.vllm.iterdir() if p.name.startswith("env-"))


async def test_a_cuda_12_driver_gets_cuda_12_wheels_then_an_update_then_undo(
    rig: SetupRig, index: IndexDouble
) -> None:
    publish_vllm(index)
    publish_vllm(index, cuda="13.0")
    index.files.pop("vllm-0.33.0+cu130-py3-none-any.whl")  # the index of the CUDA 12 build
    plan = await rig.setup.plan("vllm")
    assert (plan.build.cuda, plan.replaces, plan.version) == (12, "", "0.33.0")
    result = await rig.setup.run(plan, rig.tell)
    assert result.replied and not result.proven
    assert "gave a first reply" in str(result.text)
    (found,) = await rig.finder.find("vllm")
    assert (found.version, found.torch_version) == ("0.33.0+cu129", "")
    assert found.environment == result.environment == str(rig.vllm / "current" / "venv")
    assert says(rig) == "the engine starts"
    assert not (rig.vllm / "wheels").exists()
    steps = list(dict.fromkeys(p.step for p in rig.told))
    assert steps == [
        SetupStep.MAKE,
        SetupStep.FETCH,
        SetupStep.INSTALL,
        SetupStep.IMPORT,
        SetupStep.REPLY,
        SetupStep.SWITCH,
    ]
    assert any("the engine loads" in p.line for p in rig.told)
    assert not list(rig.vllm.rglob(".first-reply")), "the tiny model is gone"
    assert any("Downloading" in p.line or "Collecting" in p.line for p in rig.told)

    # A start names the real folder: the link may move while the server runs.
    real = (await rig.finder.resolve(rig.profile())).environment
    assert real == str((rig.vllm / "current").resolve() / "venv")

    rig.driver.version = "581.42"
    publish_vllm(index, "0.34.0", "13.0")
    second = await rig.setup.plan("vllm", "0.34.0")
    assert (second.build.cuda, second.replaces) == (13, plan.folder)
    done = await rig.setup.run(second, rig.tell)
    assert (await rig.finder.find("vllm"))[0].version == "0.34.0+cu130"
    assert Path(real).is_dir(), "the version before it is kept"
    assert folders(rig) == sorted([plan.folder, second.folder])

    await rig.fixer.undo(done.entry_id)
    assert (await rig.finder.find("vllm"))[0].version == "0.33.0+cu129"
    await rig.fixer.undo(result.entry_id)
    assert await rig.finder.find("vllm") == ()
    assert not (rig.vllm / "current").exists()


@pytest.mark.parametrize(
    ("at", "kept"),
    [
        (SetupStep.MAKE, False),
        (SetupStep.FETCH, True),
        (SetupStep.INSTALL, True),
        (SetupStep.IMPORT, True),
        (SetupStep.REPLY, True),
    ],
)
async def test_a_cancel_at_each_step_leaves_the_old_version_and_the_downloads(
    rig: SetupRig, index: IndexDouble, at: SetupStep, kept: bool
) -> None:
    publish_vllm(index)
    old_version(rig)
    if at is SetupStep.FETCH:
        index.held.add("small-1.0-py3-none-any.whl")
    plan = await rig.setup.plan("vllm")
    reached = asyncio.Event()

    def tell(progress: SetupProgress) -> None:
        waiting = at is not SetupStep.FETCH or "small" in progress.line
        if progress.step is at and waiting:
            reached.set()

    task = asyncio.create_task(rig.setup.run(plan, tell))
    await asyncio.wait_for(reached.wait(), 240)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    index.gate.set()
    assert says(rig) == "the old one"
    assert (await rig.finder.find("vllm"))[0].version == "0.30.0"
    assert rig.journal.entries() == ()

    again = await rig.setup.plan("vllm")
    assert again.cut_off is (at is not SetupStep.MAKE)
    assert (again.kept_bytes > 0) is kept
    index.asked.clear()
    await rig.setup.run(again, rig.tell)
    assert says(rig) == "the engine starts"
    assert folders(rig) == sorted(["env-old", again.folder]), "the cut one is gone"
    if at in (SetupStep.INSTALL, SetupStep.IMPORT, SetupStep.REPLY):
        assert [p for p in index.asked if p.startswith("/files/")] == [], "nothing came twice"


async def test_killed_with_everything_in_the_middle_of_the_download(
    rig: SetupRig, index: IndexDouble, tmp_path: Path
) -> None:
    publish_vllm(index)
    old_version(rig)
    index.held.add("small-1.0-py3-none-any.whl")
    plan = await rig.setup.plan("vllm")
    reached = asyncio.Event()
    task = asyncio.create_task(
        rig.setup.run(plan, lambda p: reached.set() if "small" in p.line else None)
    )
    await asyncio.wait_for(reached.wait(), 240)
    # Its own steps die with it; a lock that is left behind must not keep the next one out.
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    wheels = rig.vllm / "wheels"
    (wheels / "vllm-0.33.0+cu129-py3-none-any.whl").write_bytes(b"PK half of it")
    index.gate.set()
    again = await rig.setup.plan("vllm")
    await rig.setup.run(again, rig.tell)
    assert says(rig) == "the engine starts"


async def test_a_cut_connection_is_tried_again(rig: SetupRig, index: IndexDouble) -> None:
    publish_vllm(index)
    index.cuts["vllm-0.33.0+cu129-py3-none-any.whl"] = 2
    await rig.setup.run(await rig.setup.plan("vllm"), rig.tell)
    assert says(rig) == "the engine starts"


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (
            lambda i: i.wrong.add("vllm-0.33.0+cu129-py3-none-any.whl"),
            "not what its index promised",
        ),
        (
            lambda i: i.cuts.update({"vllm-0.33.0+cu129-py3-none-any.whl": 99}),
            "connection was lost|not what its index promised",  # an older pip does not notice
        ),
        (lambda i: i.files.pop("torch-2.14.0+cu129-py3-none-any.whl"), "no such version"),
        (
            lambda i: (
                i.files.pop("vllm-0.33.0+cu129-py3-none-any.whl"),
                i.files.pop("torch-2.14.0+cu129-py3-none-any.whl"),
                publish_vllm(i, cuda="13.0"),
            ),
            "is built for another CUDA than 12",
        ),
        (
            lambda i: i.add(
                "torch", "2.14.0+cu129", {"torch/__init__.py": TORCH.format(cuda="13.0")}
            ),
            "built for CUDA 13.0, not for 12",
        ),
        (
            lambda i: i.add(
                "torch",
                "2.14.0+cu129",
                {"torch/__init__.py": "raise ImportError('libcudart.so.12')"},
            ),
            "libcudart.so.12",
        ),
    ],
    ids=["hash", "cut", "missing", "wrong-lane", "wrong-torch", "import"],
)
async def test_what_fails_is_told_and_the_old_version_stays(
    rig: SetupRig, index: IndexDouble, break_it: object, words: str
) -> None:
    publish_vllm(index)
    old_version(rig)
    break_it(index)  # type: ignore[operator]
    with pytest.raises(TwinrigError) as caught:
        await rig.setup.run(await rig.setup.plan("vllm"), rig.tell)
    assert re.search(words, str(caught.value.text))
    assert caught.value.next_step is not None
    assert says(rig) == "the old one"
    assert folders(rig) == ["env-old"]
    assert rig.journal.entries() == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
async def test_a_disk_that_fills_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: IndexDouble
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", str(disk)], check=False
    )
    if mounted.returncode:
        pytest.skip("this container may not mount")
    try:
        monkeypatch.setenv("HOME", str(disk))
        rig = SetupRig(tmp_path, disk, index, "570.65")
        publish_vllm(index)
        index.add("small", "1.0", {"small.bin": os.urandom(1024) * 45_000})
        old_version(rig)
        with pytest.raises(HostError, match="The disk is full"):
            await rig.setup.run(await rig.setup.plan("vllm"), rig.tell)
        assert says(rig) == "the old one"
        assert folders(rig) == ["env-old"]
        await rig.setup.discard("vllm")
        assert not (rig.vllm / "wheels").exists()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_first_reply_proves_it_and_none_takes_it_back(
    rig: SetupRig, index: IndexDouble
) -> None:
    publish_vllm(index)
    old_version(rig)
    before = rig.profile()
    rig.controller.state = ServerState.FAILED
    with pytest.raises(HostError, match="gave no reply"):
        await rig.setup.run(await rig.setup.plan("vllm"), rig.tell, before.id)
    assert says(rig) == "the old one"
    assert rig.profiles.load(before.id) == before
    assert rig.journal.entries()[0].outcome is Outcome.ROLLED_BACK
    assert rig.controller.asked == [f"start {before.id}", f"stop {before.id}"]

    rig.controller.state = ServerState.READY
    result = await rig.setup.run(await rig.setup.plan("vllm"), rig.tell, before.id)
    assert result.proven
    assert rig.journal.entries()[1].proven
    assert rig.profiles.load(before.id).engine.environment == result.environment
    assert says(rig) == "the engine starts"
    await rig.fixer.undo(result.entry_id)
    assert rig.profiles.load(before.id) == before
    assert says(rig) == "the old one"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("dies", r"no first reply: The installed engine holds no code.*not touched"),
        ("silent", r"no first reply: the answer to the request was 200.*not touched"),
    ],
)
async def test_without_a_first_reply_nothing_is_put_into_use(
    rig: SetupRig, index: IndexDouble, how: str, words: str
) -> None:
    publish_vllm(index, how=how)
    old_version(rig)
    with pytest.raises(HostError, match=words) as caught:
        await rig.setup.run(await rig.setup.plan("vllm"), rig.tell)
    assert caught.value.next_step is not None
    assert says(rig) == "the old one"
    assert folders(rig) == ["env-old"]
    assert rig.journal.entries() == ()
    again = await rig.setup.plan("vllm")
    assert again.kept_bytes > 0, "nothing has to be downloaded again"

    result = await rig.setup.run(again, rig.tell, ask=False)
    assert not result.replied and "first start proves the rest" in str(result.text)
    assert says(rig) == "the engine starts"


async def test_a_running_server_is_left_alone(rig: SetupRig, index: IndexDouble) -> None:
    publish_vllm(index)
    rig.controller.running = True
    result = await rig.setup.run(await rig.setup.plan("vllm"), rig.tell, rig.profile().id)
    assert not result.proven and not result.replied
    assert SetupStep.REPLY not in {p.step for p in rig.told}, "the cards are taken"
    assert rig.controller.asked == []
    assert says(rig) == "the engine starts"
    assert "next start" in str(result.text)


async def test_an_engine_that_is_run_in_place(rig: SetupRig, index: IndexDouble) -> None:
    index.add("torch", "2.9.0+cu128", {"torch/__init__.py": TORCH.format(cuda="12.8")})
    index.add("exllamav3", "1.4.2+cu128.torch2.9.0", {"exllamav3_ext.py": "", "exllamav3.py": ""})
    project = (
        '[project]\nname = "x"\ndependencies = []\n[project.optional-dependencies]\n'
        'cu12 = ["exllamav3==1.4.2+cu128.torch2.9.0", "torch==2.9.0+cu128"]\n'
    )
    files = {
        "pyproject.toml": project,
        "main.py": SERVER.format(config="'config.yml'", how=""),
        "common/config_models.py": "",
        "backends/exllamav3/__init__.py": "",
        "models/put_models_here.txt": "",
    }
    index.files["source.zip"] = source_zip("tabbyAPI-e632af4", files)
    plan = await rig.setup.plan("tabbyapi")
    await rig.setup.run(plan, rig.tell)
    (found,) = await rig.finder.find("tabbyapi")
    assert found.version == "1.4.2+cu128.torch2.9.0"
    assert Path(found.folder, "main.py").is_file()
    assert not Path(found.folder, "config.yml").exists(), "that of the proof is gone"
    Path(found.folder, "config.yml").write_text("# mine\n")
    Path(found.folder, "models", "big").mkdir()

    again = replace(await rig.setup.plan("tabbyapi"), folder="env-second")
    await rig.setup.run(again, rig.tell)
    (found,) = await rig.finder.find("tabbyapi")
    assert Path(found.folder).resolve().name == "env-second"
    assert Path(found.folder, "config.yml").read_text() == "# mine\n"
    assert Path(found.folder, "models", "big").is_dir()


async def test_an_archive_that_leads_out_of_its_folder_is_refused(
    rig: SetupRig, index: IndexDouble
) -> None:
    index.files["source.zip"] = source_zip("x", {"../../../../evil.py": "x"})
    with pytest.raises(HostError, match="not what its index promised"):
        await rig.setup.run(await rig.setup.plan("tabbyapi"), rig.tell)
    assert not list(rig.home.rglob("evil.py"))


async def test_two_at_a_time_are_refused(rig: SetupRig, index: IndexDouble) -> None:
    publish_vllm(index)
    index.held.add("small-1.0-py3-none-any.whl")
    plan = await rig.setup.plan("vllm")
    reached = asyncio.Event()
    task = asyncio.create_task(
        rig.setup.run(plan, lambda p: reached.set() if "small" in p.line else None)
    )
    await asyncio.wait_for(reached.wait(), 240)
    with pytest.raises(ConflictError):
        await rig.setup.run(replace(plan, folder="env-other"), rig.tell)
    code = subprocess.run(
        ["flock", "-n", str(rig.vllm / ".lock"), "true"], check=False, timeout=30
    ).returncode
    assert code != 0, "another computer's Twinrig would be kept out too"
    index.gate.set()
    await task


@pytest.mark.parametrize(
    ("driver", "words"), [("", "No NVIDIA driver"), ("470.57.02", "older than 525")]
)
async def test_a_driver_that_is_missing_or_too_old(rig: SetupRig, driver: str, words: str) -> None:
    rig.driver.version = driver
    with pytest.raises(UsageError, match=words):
        await rig.setup.plan("vllm")
    assert (await rig.setup.plan("vllm", cuda=12)).build.cuda == 12
    assert not rig.vllm.exists(), "a look writes nothing"


async def test_versions_are_checked_before_they_become_part_of_an_address(rig: SetupRig) -> None:
    for wrong in ("../0.1", "latest", "0.33.0; rm -rf ~", "https://x"):
        with pytest.raises(UsageError, match="is no version"):
            await rig.setup.plan("vllm", wrong)


async def test_what_another_set_up_works_on_is_not_discarded(rig: SetupRig, tmp_path: Path) -> None:
    kept = rig.vllm / "wheels" / "half"
    kept.parent.mkdir(parents=True)
    kept.touch()
    other = FileLock(tmp_path / "locks")
    assert other.acquire(LOCK_NAME)
    with pytest.raises(ConflictError, match="Another window or terminal"):
        await rig.setup.discard("vllm")
    assert kept.exists()
    other.release()
    await rig.setup.discard("vllm")
    assert not kept.exists()
