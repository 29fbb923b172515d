"""tabbyAPI through the real supervisor: real processes, a stand-in that is no kinder than it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
import sysconfig
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import pytest_asyncio

from twinrig import assets
from twinrig.composition.supervise import supervisor_parts
from twinrig.domain.errors import DamagedFileError, HostError
from twinrig.domain.metrics import EngineMetrics
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Network, Profile
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Desired, DesiredState, ServerRecord, StateLayout
from twinrig.engines.registry import load_engines
from twinrig.files import write_atomic
from twinrig.hosts.paths import find_paths
from twinrig.services.profile_store import ProfileStore
from twinrig.supervisor.supervise import supervise
from twinrig.supervisor.timing import Timing

FAKE = Path(__file__).parents[1] / "fixtures" / "tabby" / "main.py"
FAST = Timing(
    desired_poll_s=0.02,
    ready_poll_s=0.02,
    watch_s=0.05,
    restart_checks=4,
    backoff_s=(0.05,),
    quick_failures_limit=2,
    stop_limit_s=5.0,
    orphan_grace_s=0.3,
    poll_exit_s=0.02,
    heartbeat_s=0.1,
)
API_KEY, ADMIN_KEY = "client-key-0123456789", "admin-key-0123456789"
CONFIG = """\
# my own tabbyAPI
network:
  port: 5000   # the usual one

model:
  model_dir: models
  # do not touch
  cache_mode: Q4
unknown_section:
  kept: true
"""


def free_port() -> int:
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


class Tabby:
    """A checkout with a venv, a model, a profile and its supervisor, all below ``home``."""

    def __init__(self, home: Path) -> None:
        self.checkout = home / "my tabby"
        self.model = home / "models" / "Tiny exl3"
        self.port = free_port()
        paths = find_paths({"TWINRIG_HOME": str(home / "twinrig")})
        self.layout = StateLayout(paths.target_state("local"))
        self.store = ProfileStore(paths.profiles, load_engines(assets.read_text))
        self._paths = paths
        self._install()
        self.task: asyncio.Task[int] | None = None

    def _install(self) -> None:
        (self.checkout / "backends" / "exllamav3").mkdir(parents=True)
        (self.checkout / "common").mkdir()
        (self.checkout / "sampler_overrides").mkdir()
        (self.checkout / "common" / "config_models.py").write_text("# not to be read\n")
        shutil.copy(FAKE, self.checkout / "main.py")
        (self.checkout / "config.yml").write_text(CONFIG)
        venv = self.checkout / "venv"
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = venv / "lib" / name / "site-packages"
        packages.mkdir(parents=True)
        (venv / "bin").mkdir()
        base = Path(sys.base_prefix) / "bin" / name
        (venv / "bin" / "python").symlink_to(base)
        (venv / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
        (packages / "test.pth").write_text(sysconfig.get_path("purelib") + "\n")
        (packages / "exllamav3-1.4.2+cu128.torch2.9.0.dist-info").mkdir()
        metadata = packages / "exllamav3-1.4.2+cu128.torch2.9.0.dist-info" / "METADATA"
        metadata.write_text("Name: exllamav3\nVersion: 1.4.2+cu128.torch2.9.0\n")
        self.model.mkdir(parents=True)
        (self.model / "config.json").write_text("{}")

    def profile(self, **changes: object) -> None:
        base = Profile(
            id="main",
            name="Main",
            target="local",
            engine=EngineRef("tabbyapi", str(self.checkout)),
            model=ModelRef(str(self.model)),
            network=Network("127.0.0.1", self.port),
            settings={
                "context_length": 4096,
                "cache_tokens": 8192,
                "cache_mode": "2,2",
                "tensor_parallel": True,
                "cuda_malloc_async": False,
                "draft_mode": "disabled",
                "sampler_temperature": 1.0,
            },
            env={"PYTORCH_CUDA_ALLOC_CONF": EnvEntry("expandable_segments:True")},
        )
        self.store.save(replace(base, **changes))  # type: ignore[arg-type]

    def fake(self, **values: object) -> None:
        (self.checkout / "fake.json").write_text(json.dumps(values))

    def wish(self, desired: Desired, request: str = "r1") -> None:
        text = DesiredState(desired, request, "test", 1.0).to_json()
        write_atomic(self.layout.desired("main"), text.encode())

    def start(self, environ: dict[str, str] | None = None) -> None:
        base = {"HOME": str(self.checkout.parent), "PATH": os.environ["PATH"]}
        self.parts = replace(
            supervisor_parts("local", "main", self._paths, environ or base), timing=FAST
        )
        self.wish(Desired.RUNNING)
        self.task = asyncio.ensure_future(supervise("main", self.parts))

    async def until(self, condition: Callable[[ServerRecord], bool]) -> ServerRecord:
        async with asyncio.timeout(40):
            while True:
                try:
                    path = self.layout.state("main")
                    record = ServerRecord.from_json(path.read_bytes(), str(path))
                    if condition(record):
                        return record
                except (FileNotFoundError, DamagedFileError):
                    pass
                await asyncio.sleep(0.02)

    async def until_state(self, state: ServerState) -> ServerRecord:
        return await self.until(lambda record: record.state is state)

    async def ask(self, token: str | None = None, **body: object) -> int:
        url = f"http://127.0.0.1:{self.port}/v1/completions"
        return (await self.parts.http.post_json(url, body, timeout_s=10, token=token)).status

    @property
    def log(self) -> str:
        return self.layout.log("main").read_text()

    async def close(self) -> None:
        if self.task is None:
            return
        if not self.task.done():
            self.wish(Desired.STOPPED, "end")
        await asyncio.wait_for(self.task, 30)
        await self.parts.http.close()


@pytest_asyncio.fixture
async def tabby(tmp_path: Path) -> AsyncIterator[Tabby]:
    rig = Tabby(tmp_path)
    yield rig
    await rig.close()


async def test_a_start_edits_the_file_serves_and_stops(tabby: Tabby) -> None:
    tabby.profile()
    tabby.start()
    record = await tabby.until_state(ServerState.READY)
    config = (tabby.checkout / "config.yml").read_text()
    assert "# my own tabbyAPI" in config and "  # do not touch\n" in config
    assert f"  port: {tabby.port}   # the usual one\n" in config
    assert "  cache_mode: 2,2\n" in config and "  kept: true\n" in config
    assert (tabby.checkout / "config.yml.previous").read_text() == CONFIG
    assert (record.model_id, record.metrics_url) == ("Tiny exl3", "")
    phases = [phase.phase.value for phase in record.phases]
    assert phases[-3:] == ["listen", "probe", "serve"] and "workers" in phases
    assert record.environment_mismatch == ()
    command = Path(f"/proc/{record.server_pid}/cmdline").read_bytes().split(b"\0")
    assert command == [f"{tabby.checkout}/venv/bin/python".encode(), b"main.py", b""]
    assert "Configured backend" not in tabby.log
    tabby.wish(Desired.STOPPED, "r2")
    await tabby.until_state(ServerState.STOPPED)
    assert record.server_pid and not Path(f"/proc/{record.server_pid}").exists()


@pytest.mark.parametrize(
    ("form", "width", "generated", "read"),
    [
        ("2024-03", "80", 50, 22),
        ("2024-08", "80", 50, 16),
        ("2026-08", "40", 50, 16),
        ("2026-08", "1000", 50, 16),
    ],
)
async def test_the_work_is_counted_from_the_log(
    tabby: Tabby, form: str, width: str, generated: int, read: int
) -> None:
    tabby.fake(form=form, draft=[30, 40])
    env = {"COLUMNS": EnvEntry(width), "TABBY_LOG_CONSOLE_WIDTH": EnvEntry(width)}
    tabby.profile(env=env, settings={"cuda_malloc_async": False})
    tabby.start()
    await tabby.until_state(ServerState.READY)
    assert await tabby.ask(prompt="x") == 200
    record = await tabby.until(lambda r: r.log_counters.get("requests_finished") == 2)
    told = EngineMetrics.from_counters(record.log_counters)
    assert (told.generation_tokens, told.prompt_tokens) == (generated, read)
    assert told.last_generation_tps == 21.0 and told.counted_at_end
    assert record.probe_generation_tokens == 8
    if form == "2026-08":
        assert (told.accepted_tokens, told.draft_tokens) == (60, 80)


async def test_a_key_opens_the_door_and_reaches_no_log(tabby: Tabby) -> None:
    (tabby.checkout / "api_tokens.yml").write_text(f"api_key: {API_KEY}\nadmin_key: {ADMIN_KEY}\n")
    tabby.profile()
    tabby.start()
    record = await tabby.until_state(ServerState.READY)
    for view in ("cmdline", "environ"):
        shown = Path(f"/proc/{record.server_pid}/{view}").read_bytes()
        assert API_KEY.encode() not in shown and ADMIN_KEY.encode() not in shown, view
    assert await tabby.ask(prompt="x") == 401
    assert await tabby.ask(token=API_KEY, prompt="x") == 200
    assert "Your API key is: ********" in tabby.log
    assert "Your admin key is: ********" in tabby.log
    for path in tabby.layout.root.rglob("*"):
        if path.is_file():
            assert API_KEY.encode() not in path.read_bytes(), path
            assert ADMIN_KEY.encode() not in path.read_bytes(), path


class _Everything(BaseHTTPRequestHandler):
    """Another program that answers every question with 200."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


async def test_a_stranger_on_the_port_is_not_taken_for_the_server(tabby: Tabby) -> None:
    gate = tabby.checkout / "go"
    tabby.fake(wait_for=str(gate))
    tabby.profile()
    tabby.start()
    await tabby.until(lambda r: r.server_pid is not None)
    stranger = ThreadingHTTPServer(("127.0.0.1", tabby.port), _Everything)
    Thread(target=stranger.serve_forever, args=(0.02,), daemon=True).start()
    try:
        gate.touch()
        record = await tabby.until(lambda r: r.failure is not None)
        assert record.failure is not None and record.failure.finding_id == "port-in-use"
        record = await tabby.until_state(ServerState.FAILED)
        assert record.ready_at_s is None
    finally:
        stranger.shutdown()
        stranger.server_close()


async def test_an_exit_with_0_because_both_ports_are_taken_is_a_failure(tabby: Tabby) -> None:
    gate = tabby.checkout / "go"
    tabby.fake(wait_for=str(gate))
    tabby.profile()
    tabby.start()
    await tabby.until(lambda r: r.server_pid is not None)
    first, second = (socket.create_server(("127.0.0.1", tabby.port + n)) for n in (0, 1))
    with closing(first), closing(second):
        gate.touch()
        record = await tabby.until(lambda r: r.failure is not None)
    assert record.failure is not None and record.failure.finding_id == "port-in-use"
    assert record.last_exit == "exit code 0"


async def test_a_broken_file_is_refused_and_left_alone(tabby: Tabby) -> None:
    broken = "model:\n  cache_mode: Q4\n\tvision: true\n"
    (tabby.checkout / "config.yml").write_text(broken)
    tabby.profile()
    tabby.start()
    record = await tabby.until_state(ServerState.FAILED)
    assert record.failure is not None and "line 3" in str(record.failure.text)
    assert (tabby.checkout / "config.yml").read_text() == broken
    assert record.server_pid is None and not tabby.layout.log("main").exists()


async def test_the_models_own_file_is_told_not_obeyed_in_silence(tabby: Tabby) -> None:
    (tabby.model / "tabby_config.yml").write_text("model:\n  max_seq_len: 65536\n")
    tabby.profile()
    tabby.start()
    record = await tabby.until_state(ServerState.FAILED)
    assert record.failure is not None and record.server_pid is None


async def test_one_fatal_generation_leads_to_a_restart(tabby: Tabby) -> None:
    tabby.profile()
    tabby.start()
    first = await tabby.until_state(ServerState.READY)
    assert await tabby.ask(prompt="FATAL") == 503
    again = await tabby.until(lambda r: r.state is ServerState.READY and r.run_id != first.run_id)
    assert again.restarts == 1
    assert await tabby.ask(prompt="x") == 200


async def test_the_next_profile_does_not_inherit_settings(tabby: Tabby) -> None:
    tabby.profile(settings={"vision": True, "cuda_malloc_async": False}, env={})
    tabby.start()
    await tabby.until_state(ServerState.READY)
    await tabby.close()
    present = tabby.store.load("main")
    tabby.store.save(replace(present, settings={"cuda_malloc_async": False}), replaces=present)
    tabby.start()
    tabby.wish(Desired.RUNNING, "r3")
    await tabby.until(lambda r: r.state is ServerState.READY and r.request_id == "r3")
    assert "vision: true" not in (tabby.checkout / "config.yml").read_text()
    assert "  cache_mode: Q4\n" in (tabby.checkout / "config.yml").read_text()


async def test_nobody_answers_after_a_stop(tabby: Tabby) -> None:
    tabby.profile()
    tabby.start()
    await tabby.until_state(ServerState.READY)
    tabby.wish(Desired.STOPPED, "r2")
    await tabby.until_state(ServerState.STOPPED)
    with pytest.raises(HostError):
        await tabby.ask(prompt="x")


async def test_the_cards_are_freed_with_the_owners_key_and_loaded_by_a_new_start(
    tabby: Tabby,
) -> None:
    (tabby.checkout / "api_tokens.yml").write_text(f"api_key: {API_KEY}\nadmin_key: {ADMIN_KEY}\n")
    tabby.profile()
    tabby.start()
    first = await tabby.until_state(ServerState.READY)
    assert first.can_sleep
    tabby.wish(Desired.SLEEPING, "r2")
    asleep = await tabby.until_state(ServerState.SLEEPING)
    assert asleep.server_pid == first.server_pid
    assert await tabby.ask(token=API_KEY, prompt="x") == 503, "no model is loaded"
    await asyncio.sleep(1.0)  # longer than any probe or restart of the quick timing
    assert (await tabby.until(lambda _r: True)).state is ServerState.SLEEPING
    tabby.wish(Desired.RUNNING, "r3")
    again = await tabby.until(
        lambda r: r.state is ServerState.READY and r.server_pid != first.server_pid
    )
    assert (again.restarts, again.failure) == (0, None)
    assert await tabby.ask(token=API_KEY, prompt="x") == 200
    assert ADMIN_KEY not in tabby.layout.state("main").read_text()
