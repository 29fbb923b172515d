"""DemoHost: the probe script's protocol, sysctl, and check -> fix -> undo through it."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path

import pytest

from twinrig.assets import read_text
from twinrig.checks.registry import CHECKS
from twinrig.domain.checks import ProbeOutput, Status
from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.fixes import FixPlan
from twinrig.domain.ports import Script
from twinrig.domain.probes import (
    PROBE_SCRIPT,
    ProbeRequest,
    is_complete,
    parse_frames,
)
from twinrig.domain.profile import EngineRef, ModelRef, Network, Profile
from twinrig.engines.registry import load_engines
from twinrig.fixes.registry import load_fixes
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.demo.host import DemoHost, demo_install
from twinrig.hosts.demo.load import LOAD_FILE, DemoLoad, write_load
from twinrig.hosts.demo.models import LARGE, MODELS_FOLDER
from twinrig.hosts.demo.rig import VENV
from twinrig.hosts.demo.windows import DemoWindows
from twinrig.services.fixer import Fixer
from twinrig.services.installs import EngineFinder
from twinrig.services.journal import Journal
from twinrig.services.models import ModelLibrary
from twinrig.services.preflight import Preflight

NONCE = "0123456789abcdef"
MODEL = f"{MODELS_FOLDER}/{LARGE.name}"
KEY = "kernel.yama.ptrace_scope"


@pytest.fixture
def host(tmp_path: Path) -> DemoHost:
    return DemoHost(tmp_path)


async def probe(host: DemoHost, *names: str, **request: str) -> dict[str, ProbeOutput]:
    asked = ProbeRequest(NONCE, names, **request)
    result = await host.run(Script(PROBE_SCRIPT, "unread", asked.to_args()))
    assert result.returncode == 0
    assert is_complete(NONCE, result.output)
    return dict(parse_frames(NONCE, result.output))


def script_probes() -> list[str]:
    return re.findall(r"^probe_([a-z_]+)\(\)", read_text("probes/linux.sh"), re.MULTILINE)


async def test_every_probe_of_the_script_is_answered(host) -> None:
    names = script_probes()
    assert len(names) >= 10
    answers = await probe(
        host, *names, model_path=MODEL, environment=VENV, endpoint="127.0.0.1:18080"
    )
    assert {name: answer.returncode for name, answer in answers.items()} == dict.fromkeys(names, 0)
    assert all(answer.stdout for answer in answers.values())


async def test_an_unknown_probe_is_answered_as_the_script_does(host) -> None:
    answer = (await probe(host, "flood"))["flood"]
    assert (answer.returncode, answer.stderr) == (3, "no such probe\n")


async def test_cards_show_what_the_server_uses(host, tmp_path) -> None:
    rows = (await probe(host, "gpu"))["gpu"].stdout.splitlines()[1:]
    assert len(rows) == 2
    assert rows[0].split(", ")[2:7] == ["NVIDIA GeForce RTX 5070", "12227", "921", "591.86", "12.0"]
    load = DemoLoad(time.time(), 5, (10 << 30, 9 << 30), (0.0, 0.0))
    write_load(tmp_path / "servers" / "one" / LOAD_FILE, load)
    rows = (await probe(host, "gpu"))["gpu"].stdout.splitlines()[1:]
    assert [row.split(", ")[4] for row in rows] == ["10240", "9216"]


async def test_models_that_are_not_there(host) -> None:
    missing = (await probe(host, "model", model_path=f"{MODELS_FOLDER}/Demo-24B"))["model"]
    assert missing.stdout.splitlines()[0] == "exists=no"
    assert f"near {MODEL}" in missing.stdout
    a_file = (await probe(host, "model", model_path="/etc/os-release"))["model"]
    assert a_file.stdout == "exists=file\n"
    assert (await probe(host, "model"))["model"].stdout == ""


async def test_a_damaged_index_and_a_cut_file_are_told_as_found(host) -> None:
    await host.write_file(f"{MODEL}/model.safetensors.index.json", b"{")
    await host.write_file(f"{MODEL}/model-00001-of-00004.safetensors", b"\x01\x02")
    answer = (await probe(host, "model", model_path=MODEL))["model"].stdout
    assert "shard " not in answer
    assert "header - - model-00001-of-00004.safetensors\n" in answer
    assert "file 2 model-00001-of-00004.safetensors\n" in answer


async def test_the_port_question_is_real(host, tmp_path) -> None:
    listener = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    endpoint = f"127.0.0.1:{port}"
    foreign = (await probe(host, "port", endpoint=endpoint))["port"].stdout
    assert f"checked={port}\nlisten 0100007F 0 1000\n" in foreign
    assert "holder" not in foreign
    load = DemoLoad(time.time(), 77, (1, 1), (0.0, 0.0), run_id="run-1", port=port)
    write_load(tmp_path / "servers" / "one" / LOAD_FILE, load)
    own = (await probe(host, "port", endpoint=endpoint))["port"].stdout
    assert "holder 77 run-1 twinrig demo-server\n" in own
    listener.close()
    await listener.wait_closed()
    free = (await probe(host, "port", endpoint=endpoint))["port"].stdout
    assert f"checked={port}\n" in free
    assert "listen" not in free
    wrong = (await probe(host, "port", endpoint="127.0.0.1:x"))["port"]
    assert wrong.returncode == 1


@pytest.mark.parametrize("args", [(), ("short", "gpu"), (NONCE, "BAD NAME!")])
async def test_a_wrong_call_of_the_script(host, args) -> None:
    result = await host.run(Script(PROBE_SCRIPT, "", args))
    assert result.returncode == 2
    assert result.stdout == b""
    assert result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("ls", "/"),
        ("bash", "-c", "echo hi"),
        (sys.executable, "-c", "open('x', 'w')"),
        ("nvidia-smi",),
        (),
        Script("other", "echo hi"),
    ],
)
async def test_everything_else_is_a_missing_program(host, command, tmp_path) -> None:
    result = await host.run(command, root=True)
    assert result.returncode == 127
    assert result.stdout == b""
    assert not (tmp_path / "x").exists()


async def sysctl(host: DemoHost, *args: str, root: bool = True) -> tuple[int | None, str, str]:
    result = await host.run(("sysctl", *args), root=root)
    return result.returncode, result.output, result.stderr.decode()


async def test_sysctl_reads_and_writes_the_one_setting(host) -> None:
    assert await sysctl(host, "-n", KEY, root=False) == (0, "1\n", "")
    assert await sysctl(host, KEY) == (0, f"{KEY} = 1\n", "")
    assert await sysctl(host, "-w", f"{KEY}=0") == (0, f"{KEY} = 0\n", "")
    assert (await probe(host, "ptrace"))["ptrace"].stdout == "0\n"


@pytest.mark.parametrize(
    ("args", "root", "words"),
    [
        (("-w", f"{KEY}=0"), False, "permission denied"),
        (("-w", f"{KEY}=7"), True, "Invalid argument"),
        (("-w", f"{KEY}=0; rm -rf /"), True, "Invalid argument"),
        (("-w", "vm.swappiness=1"), True, "No such file"),
        (("--system",), True, "knows sysctl"),
        ((), True, "knows sysctl"),
    ],
)
async def test_sysctl_refuses_what_the_kernel_would(host, args, root, words) -> None:
    code, _, err = await sysctl(host, *args, root=root)
    assert code != 0
    assert words in err
    assert (await probe(host, "ptrace"))["ptrace"].stdout == "1\n"


async def test_three_cannot_be_lowered(host) -> None:
    assert (await sysctl(host, "-w", f"{KEY}=3"))[0] == 0
    assert (await sysctl(host, "-w", f"{KEY}=0"))[0] != 0
    assert (await probe(host, "ptrace"))["ptrace"].stdout == "3\n"


async def test_stream_gives_the_same_output(host) -> None:
    parts = [part async for part in host.stream(("sysctl", "-n", KEY))]
    assert b"".join(parts) == b"1\n"


async def test_files_of_the_port(host) -> None:
    assert await host.home() == "/home/demo"
    assert await host.read_file("/etc/none") is None
    await host.write_file("/etc/x", b"1", root=True, expected_sha256="")
    with pytest.raises(ConflictError):
        await host.write_file("/etc/x", b"2", root=True, expected_sha256="")
    with pytest.raises(HostError):
        await host.write_file("/etc/x", b"2")
    assert await host.read_file("/etc/x") == b"1"
    assert "x" in [entry.name for entry in await host.list_folder("/etc")]


async def test_it_says_that_it_is_a_demo(host) -> None:
    assert host.demo is True
    assert host.label == "Demo rig"


async def test_processes_are_those_of_the_demo_server(host, tmp_path) -> None:
    assert await host.processes() == ()
    load = DemoLoad(time.time(), 77, (1, 1), (0.0, 0.0), run_id="run-1")
    write_load(tmp_path / "servers" / "one" / LOAD_FILE, load)
    (process,) = await host.processes()
    assert (process.pid, process.run_id) == (77, "run-1")


# --- what the product makes of it


@pytest.fixture
def preflight(host: DemoHost) -> Preflight:
    engines = load_engines(read_text)
    built_in = {"demo": demo_install(sys.executable, "0.1.0")}
    finder = EngineFinder(host, engines, built_in=built_in)
    return Preflight(host, CHECKS, finder, SystemClock(), windows=DemoWindows())


def profile(**changes: object) -> Profile:
    engine = load_engines(read_text)["demo"]
    values: dict[str, object] = {
        "id": "one",
        "name": "One",
        "target": "demo",
        "engine": EngineRef("demo", VENV, "0.1.0"),
        "model": ModelRef(MODEL),
        "network": Network(port=1),
        "settings": engine.defaults(gpu_count=2, on_wsl=True, version=""),
        "env": engine.default_env(gpu_count=2, on_wsl=True, version=""),
    }
    return Profile(**{**values, **changes})  # type: ignore[arg-type]


async def statuses(preflight: Preflight, given: Profile | None) -> dict[str, Status]:
    return {result.check_id: result.status async for result in preflight.run(given)}


async def test_preflight_finds_exactly_one_problem(preflight) -> None:
    found = await statuses(preflight, profile())
    assert found.pop("ptrace-scope") is Status.FAIL
    assert set(found.values()) == {Status.PASS}, found


async def test_the_problem_goes_away_and_comes_back(host, preflight) -> None:
    for value, status in (("0", Status.PASS), ("1", Status.FAIL)):
        await host.run(("sysctl", "-w", f"{KEY}={value}"), root=True)
        assert (await statuses(preflight, profile()))["ptrace-scope"] is status


class OneProfile:
    """The fixer's store with the one profile of these tests."""

    def load(self, _profile_id: str) -> Profile:
        return profile()

    def save(self, _profile: Profile, *, replaces: Profile | None = None) -> None:
        raise AssertionError("this fix changes no profile")


async def test_the_fix_changes_the_rig_and_undo_brings_it_back(host, preflight, tmp_path) -> None:
    fixer = Fixer(
        host,
        OneProfile(),
        Journal(tmp_path / "journal.jsonl"),
        preflight,
        load_fixes(read_text("advice/fixes.yaml")),
        SystemClock(),
        "demo",
    )
    results = [r async for r in preflight.run(profile()) if r.status is Status.FAIL]
    finding = results[0].finding
    assert finding is not None
    options = await fixer.options(finding, profile())
    plan = next(option for option in options if option.fix_id == "sysctl-ptrace-0")
    assert isinstance(plan, FixPlan)
    outcome = await fixer.apply(finding, plan, profile())
    assert (outcome.applied, outcome.proven) == (True, True)
    assert (await probe(host, "ptrace"))["ptrace"].stdout == "0\n"
    assert (await probe(host, "ptrace_file"))["ptrace_file"].stdout.startswith("sha256=")
    await fixer.undo(outcome.entry_id)
    assert (await probe(host, "ptrace"))["ptrace"].stdout == "1\n"
    assert (await probe(host, "ptrace_file"))["ptrace_file"].stdout == "absent\n"
    assert (await statuses(preflight, profile()))["ptrace-scope"] is Status.FAIL


async def test_without_a_profile_nothing_fails(preflight) -> None:
    found = await statuses(preflight, None)
    assert not {Status.FAIL, Status.WARN, Status.ERROR} & set(found.values()), found


async def test_the_library_finds_both_models_whole(host) -> None:
    models = await ModelLibrary(host).scan()
    assert [model.name for model in models] == ["Demo-24B-AWQ", "Demo-8B-AWQ"]
    assert all(model.complete for model in models)
    assert models[0].context_length == 131072
    assert models[0].size_bytes is not None
    assert models[0].size_bytes > 13 * 1024**3
