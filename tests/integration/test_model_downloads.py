"""Downloads from a hub that cuts, lies, refuses and asks to wait: resumed or explained."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.hub_double import COMMIT, HubDouble, Repo, tiny
from twinrig import assets
from twinrig.domain.errors import ConflictError, HostError, TwinrigError, UsageError
from twinrig.hosts.local.host import LocalHost
from twinrig.hosts.secrets import KeyringSecrets
from twinrig.services.hub import (
    PROGRAM,
    TABLE,
    DownloadProgress,
    Hub,
    ModelName,
    parse_name,
    parse_table,
)
from twinrig.services.hub_words import TOKEN_NAME
from twinrig.services.models import ModelLibrary

NAME = ModelName("org/tiny")
WANTED = ["README.md", "config.json", "model.safetensors", "tokenizer.json"]


@pytest.fixture
def double() -> Iterator[HubDouble]:
    hub = HubDouble()
    hub.repos["org/tiny"] = Repo(tiny(), downloads=5)
    with hub.serving():
        yield hub


class Rig:
    def __init__(self, home: Path, double: HubDouble) -> None:
        self.home = home
        self.environ: dict[str, str] = {"HOME": str(home), "PATH": os.environ["PATH"]}
        self.host = LocalHost(self.environ)
        self.secrets = KeyringSecrets({}, open_keyring=_no_keyring)
        self.python = sys.executable
        # A shorter pause than for people; everything else is what is shipped.
        program = assets.read_text(PROGRAM).replace('"pause_s", 2', '"pause_s", 0.02')
        self.hub = Hub(
            self.host,
            self.secrets,
            parse_table(assets.read_text(TABLE)),
            program,
            self._python,
            double.url,
        )
        self.told: list[DownloadProgress] = []

    async def _python(self) -> str:
        return self.python

    async def load(self, name: ModelName = NAME, folder: str = "") -> Path:
        return Path(await self.hub.download(name, self.told.append, folder))

    @property
    def target(self) -> Path:
        return self.home / "models" / "org" / "tiny"

    @property
    def partial(self) -> Path:
        return self.target.with_name("tiny.partial")

    async def shown_as_whole(self) -> list[str]:
        return [m.name for m in await ModelLibrary(self.host).scan() if m.complete]


def _no_keyring() -> object:
    raise ImportError


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, double: HubDouble) -> Rig:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return Rig(home, double)


def files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


async def test_a_download_is_whole_verified_and_holds_only_what_is_needed(
    rig: Rig, double: HubDouble
) -> None:
    path = await rig.load()
    assert path == rig.target
    assert files(path) == WANTED
    assert (path / "model.safetensors").read_bytes() == double.repos["org/tiny"].files[
        "model.safetensors"
    ]
    assert not rig.partial.exists()
    assert rig.told[-1].done_bytes == rig.told[-1].total_bytes == rig.told[0].total_bytes
    assert await rig.shown_as_whole() == ["org/tiny"]
    assert list((rig.home / ".cache" / "twinrig").iterdir()) == [], "no request is left behind"
    with pytest.raises(ConflictError, match="is there already"):
        await rig.load()


@pytest.mark.parametrize("ranges", [True, False], ids=["resumed", "from the start"])
async def test_a_cut_connection_goes_on(rig: Rig, double: HubDouble, ranges: bool) -> None:
    double.ranges = ranges
    double.cuts["model.safetensors"] = 3
    await rig.load()
    starts = [start for name, start in double.started if name == "model.safetensors"]
    assert len(starts) == 4
    if ranges:
        assert starts == sorted(set(starts)), "each try began where the one before ended"
    assert any(p.waiting_s for p in rig.told)
    assert max(p.done_bytes for p in rig.told) <= rig.told[0].total_bytes


async def test_a_connection_that_stays_away_is_told_and_gone_on_with_later(
    rig: Rig, double: HubDouble
) -> None:
    double.cuts["model.safetensors"] = 99
    with pytest.raises(HostError, match="was lost"):
        await rig.load()
    assert rig.partial.is_dir() and not rig.target.exists()
    assert await rig.shown_as_whole() == []
    double.cuts.clear()
    double.started.clear()
    await rig.load()
    assert [name for name, _start in double.started] == ["model.safetensors", "tokenizer.json"]
    assert double.started[0][1] > 0


async def test_a_wrong_checksum_is_tried_once_more_then_told(rig: Rig, double: HubDouble) -> None:
    double.lies["model.safetensors"] = 1
    await rig.load()
    assert await rig.shown_as_whole() == ["org/tiny"]


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
async def test_what_stays_wrong_is_dropped(rig: Rig, double: HubDouble, name: str) -> None:
    double.lies[name] = 99
    with pytest.raises(HostError, match="is not what"):
        await rig.load()
    assert not (rig.partial / name).exists()
    assert await rig.shown_as_whole() == []


async def test_damage_of_what_lay_there_is_found(rig: Rig, double: HubDouble) -> None:
    double.cuts["model.safetensors"] = 99
    with pytest.raises(HostError):
        await rig.load()
    (rig.partial / "config.json").write_bytes(b"x" * (rig.partial / "config.json").stat().st_size)
    double.cuts.clear()
    await rig.load()
    assert json.loads((rig.target / "config.json").read_text())["model_type"] == "llama"


async def test_a_cancel_keeps_what_is_there(rig: Rig, double: HubDouble) -> None:
    double.held.add("model.safetensors")
    reached = asyncio.Event()

    def tell(progress: DownloadProgress) -> None:
        if progress.file:
            reached.set()

    task = asyncio.create_task(rig.hub.download(NAME, tell))
    await asyncio.wait_for(reached.wait(), 60)
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    double.gate.set()
    assert (rig.partial / "config.json").is_file()
    assert list((rig.home / ".cache" / "twinrig").iterdir()) == []
    await rig.load()
    assert await rig.shown_as_whole() == ["org/tiny"]


async def test_a_busy_hub_is_waited_for_as_it_asks(rig: Rig, double: HubDouble) -> None:
    double.busy, double.retry_after = 2, "0.07"
    await rig.load()
    assert [p.waiting_s for p in rig.told if p.waiting_s] == [0.07, 0.07]


async def test_a_hub_that_stays_busy_is_told(rig: Rig, double: HubDouble) -> None:
    double.busy, double.retry_after = 99, "nonsense"
    with pytest.raises(HostError, match="HTTP 429"):
        await rig.load()


async def test_models_with_terms(rig: Rig, double: HubDouble) -> None:
    double.repos["org/tiny"].gated = True
    with pytest.raises(UsageError, match="signed in") as caught:
        await rig.load()
    assert f"{double.url}/org/tiny" in str(caught.value.next_step)
    await rig.secrets.set(TOKEN_NAME, "hf_wrong")
    with pytest.raises(UsageError, match="not accepted"):
        await rig.load()
    await rig.secrets.set(TOKEN_NAME, double.token)
    double.allowed = False
    with pytest.raises(UsageError, match="may not download"):
        await rig.load()
    double.allowed = True
    await rig.load()
    assert double.leaked == [], "the host of the files never sees the token"


async def test_the_token_is_on_no_command_line_and_in_no_open_file(
    rig: Rig, double: HubDouble
) -> None:
    await rig.secrets.set(TOKEN_NAME, double.token)
    double.held.add("model.safetensors")
    reached = asyncio.Event()
    task = asyncio.create_task(rig.hub.download(NAME, lambda p: reached.set() if p.file else None))
    await asyncio.wait_for(reached.wait(), 60)
    token = double.token.encode()
    for process in Path("/proc").glob("[0-9]*"):
        for part in ("cmdline", "environ"):
            try:
                data = (process / part).read_bytes()
            except OSError:
                continue
            assert token not in data, process / part
    assert not [p for p in rig.home.rglob("*") if p.is_file() and token in p.read_bytes()]
    double.gate.set()
    await task


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
async def test_a_disk_that_is_too_small_or_fills_up(
    tmp_path: Path, rig: Rig, double: HubDouble
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    small = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(small, check=False).returncode:
        pytest.skip("this container may not mount")
    try:
        double.repos["org/tiny"] = Repo(tiny(2_000_000))
        with pytest.raises(UsageError, match=r"needs 0\.0 GiB more|needs"):
            await rig.load(folder=str(disk))
        assert list(disk.iterdir()) == [], "nothing was begun"
        double.repos["org/tiny"] = Repo(tiny(700_000))
        double.held.add("model.safetensors")
        reached = asyncio.Event()
        task = asyncio.create_task(
            rig.hub.download(NAME, lambda p: reached.set() if p.file else None, str(disk))
        )
        await asyncio.wait_for(reached.wait(), 60)
        (disk / "others").write_bytes(b"x" * 700_000)
        double.gate.set()
        with pytest.raises(HostError, match="The disk is full"):
            await task
        assert not (disk / "org" / "tiny").exists()
        (disk / "others").unlink()
        assert await rig.load(folder=str(disk)) == disk / "org" / "tiny"
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_never_onto_a_windows_drive(rig: Rig) -> None:
    with pytest.raises(HostError, match="Windows drive"):
        await rig.load(folder="/mnt/c/models")
    assert not Path("/mnt/c").exists()


async def test_a_model_that_keeps_its_sizes_in_branches(rig: Rig, double: HubDouble) -> None:
    branch = {"4.00bpw": tiny(), "3.00bpw": tiny()}
    double.repos["org/tiny"] = Repo({"README.md": b"see branches"}, branches=branch)
    with pytest.raises(UsageError, match="in branches") as caught:
        await rig.load()
    assert "org/tiny@3.00bpw" in str(caught.value.next_step)
    path = await rig.load(parse_name("org/tiny@4.00bpw"))
    assert path.name == "tiny-4.00bpw"


@pytest.mark.parametrize(
    ("evil", "error"),
    [("../../.bashrc", HostError), ("/etc/passwd", HostError), ("a//b.safetensors", HostError)],
)
async def test_names_that_lead_elsewhere_are_refused(
    rig: Rig, double: HubDouble, evil: str, error: type[TwinrigError]
) -> None:
    double.repos["org/tiny"].files[evil] = b"evil"
    with pytest.raises(error, match="cannot be read"):
        await rig.load()


async def test_a_missing_python_is_told(rig: Rig) -> None:
    rig.python = "no-such-python"
    with pytest.raises(HostError, match="ended early"):
        await rig.load()


async def test_search_by_downloads_and_what_fits_the_engine(rig: Rig, double: HubDouble) -> None:
    double.repos["a/awq-small"] = Repo(tiny(), 10, tags=("safetensors", "awq"))
    double.repos["a/awq-large"] = Repo(tiny(), 90, gated=True, tags=("safetensors", "awq"))
    double.repos["a/exl"] = Repo(tiny(), 50, tags=("safetensors", "exl3"))
    found = await rig.hub.search("", "vllm")
    assert [str(m.name) for m in found] == ["a/awq-large", "a/awq-small"]
    assert [m.gated for m in found] == [True, False]
    assert [str(m.name) for m in await rig.hub.search("exl", "tabbyapi")] == ["a/exl"]
    assert await rig.hub.search("nothing like it", "vllm") == ()


async def test_a_look_tells_size_and_configuration(rig: Rig, double: HubDouble) -> None:
    double.repos["org/empty"] = Repo({"README.md": b"x"}, branches={"4bpw": tiny()})
    names = [NAME, ModelName("org/empty"), ModelName("org/gone")]
    looks = [look async for look in rig.hub.look(names)]
    sizes = double.repos["org/tiny"].files
    assert looks[0].weights_bytes == len(sizes["model.safetensors"])
    assert looks[0].size_bytes == sum(len(sizes[n]) for n in WANTED)
    assert looks[0].config is not None and looks[0].config["hidden_size"] == 2048
    assert looks[1].branches == ("4bpw", "main") and looks[1].problem is not None
    assert looks[2].problem is not None


async def test_the_linux_sides_own_library_fetches_large_files(
    rig: Rig, double: HubDouble, tmp_path: Path
) -> None:
    """A stand-in for huggingface_hub: what it brings is verified like everything else."""
    double.repos["org/tiny"] = Repo(tiny(17 * 1024 * 1024))
    package = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(package)], check=True)
    (site,) = package.glob("lib/python3*/site-packages")
    copy = tmp_path / "copy"
    copy.write_bytes(double.repos["org/tiny"].files["model.safetensors"])
    (site / "huggingface_hub.py").write_text(
        "import shutil, os\n"
        "def hf_hub_download(repo, name, revision, local_dir, token, endpoint):\n"
        f"    assert revision == {COMMIT!r} and token is False and endpoint == {double.url!r}\n"
        f"    shutil.copy({str(copy)!r}, os.path.join(local_dir, name))\n"
        "    os.makedirs(os.path.join(local_dir, '.cache'), exist_ok=True)\n"
    )
    rig.python = str(package / "bin" / "python")
    path = await rig.load()
    assert "model.safetensors" not in [name for name, _start in double.started]
    assert files(path) == WANTED

    copy.write_bytes(b"wrong" * 1000)
    other = replace(NAME, repo="org/other")
    double.repos["org/other"] = double.repos["org/tiny"]
    path = Path(await rig.hub.download(other, rig.told.append))
    assert (path / "model.safetensors").stat().st_size == 17 * 1024 * 1024


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("org/tiny", "org/tiny"),
        (" org/tiny@4.0bpw ", "org/tiny@4.0bpw"),
        ("https://hub.example/org/tiny", "org/tiny"),
        ("https://hub.example/org/tiny/tree/4.0bpw", "org/tiny@4.0bpw"),
    ],
)
def test_names(text: str, name: str) -> None:
    assert str(parse_name(text)) == name


@pytest.mark.parametrize("text", ["", "tiny", "a/b/c", "../x", "a/b@../c", "a b/c", "a/b@"])
def test_what_is_no_name(text: str) -> None:
    if text == "a/b@":
        assert str(parse_name(text)) == "a/b"
        return
    with pytest.raises(UsageError):
        parse_name(text)
