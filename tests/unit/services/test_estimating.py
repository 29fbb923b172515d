"""From profiles and cards to estimates, and from a running server to a measurement."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from fixtures.memory_host import FakeClock, MemoryHost
from twinrig import assets
from twinrig.domain.errors import GpuUnavailableError
from twinrig.domain.gpu import GpuInfo, GpuSample
from twinrig.domain.memory import GIB, Card
from twinrig.domain.profile import EngineRef, ModelRef, Profile
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.engines.registry import load_engines
from twinrig.messages import message
from twinrig.services.calibration import CalibrationStore
from twinrig.services.estimating import Estimating, calibration_path, cards_of
from twinrig.services.sizing_settings import settings_of

ENGINES = load_engines(assets.read_text)
GPUS = tuple(GpuInfo(i, f"u{i}", "RTX 3090", 24 * GIB) for i in range(2))
SAMPLES = tuple(GpuSample(f"u{i}", 1.0, memory_used_bytes=(i + 1) * GIB) for i in range(2))
LOG = "\n".join(
    (
        "vLLM API server version 0.32.0",
        "Model loading took 8.00 GiB memory",
        "Available KV cache memory: 11.00 GiB",
    )
)


def profile(engine="vllm", **settings) -> Profile:
    return Profile(
        "p", "P", "local", EngineRef(engine, "", "0.32.0"), ModelRef("/m"), settings=settings
    )


class Probe:
    error: GpuUnavailableError | None = None
    closed = 0

    def devices(self):
        return GPUS

    def sample(self):
        if self.error is not None:
            raise self.error
        return SAMPLES

    def close(self) -> None:
        self.closed += 1


class Profiles:
    """One profile in a file of a known age."""

    def __init__(self, path: Path, found: Profile) -> None:
        self._path = path
        self.found = found
        path.write_text("x")
        os.utime(path, (100, 100))

    def path(self, profile_id: str) -> Path:
        return self._path

    def load(self, profile_id: str) -> Profile:
        return self.found


class Controller:
    def __init__(self) -> None:
        self.record: ServerRecord | None = ServerRecord(
            "p",
            "local",
            "vllm",
            "run",
            ServerState.READY,
            0.0,
            1,
            started_at_s=500.0,
            ready_at_s=600.0,
        )
        self.reads = 0

    async def active_record(self):
        return self.record

    def read_log(self, profile_id: str, limit_bytes: int = 0):
        self.reads += 1
        return SimpleNamespace(text=LOG)


@pytest.fixture
def parts(tmp_path):
    controller, probe = Controller(), Probe()
    store = CalibrationStore(calibration_path(tmp_path / "state"))
    facts = Estimating(MemoryHost(), lambda: probe, controller, FakeClock(), store, True, ENGINES)
    share = {"gpu_memory_utilization": 0.9}
    return SimpleNamespace(
        facts=facts,
        controller=controller,
        probe=probe,
        store=store,
        profiles=Profiles(tmp_path / "p.yaml", profile(**share)),
    )


async def test_a_start_is_measured_once(parts) -> None:
    found = await parts.facts.collect(parts.profiles)
    assert found is not None
    assert found.overhead_bytes == int(0.9 * 24 * GIB) - 19 * GIB
    assert found.used_bytes == (GIB, 2 * GIB)
    assert parts.store.all() == (found,)
    assert await parts.facts.collect(parts.profiles) is None
    assert parts.controller.reads == 1


async def test_the_next_start_is_measured_again(parts) -> None:
    await parts.facts.collect(parts.profiles)
    later = 2_000_000.0
    parts.controller.record = replace(parts.controller.record, ready_at_s=later)
    assert await parts.facts.collect(parts.profiles) is not None


@pytest.mark.parametrize("state", [ServerState.LOADING, ServerState.DEGRADED, ServerState.FAILED])
async def test_only_a_ready_server_is_measured(parts, state) -> None:
    parts.controller.record = replace(parts.controller.record, state=state)
    assert await parts.facts.collect(parts.profiles) is None
    parts.controller.record = None
    assert await parts.facts.collect(parts.profiles) is None


async def test_an_edited_profile_tells_nothing(parts) -> None:
    os.utime(parts.profiles.path("p"), (700, 700))
    assert await parts.facts.collect(parts.profiles) is None
    parts.profiles.path("p").unlink()
    assert await parts.facts.collect(parts.profiles) is None


async def test_a_fixed_pool_tells_no_overhead(parts) -> None:
    parts.profiles.found = profile(kv_cache_memory_bytes=11 * GIB)
    found = await parts.facts.collect(parts.profiles)
    assert found is not None
    assert found.overhead_bytes is None


async def test_cards_without_a_driver(parts) -> None:
    parts.probe.error = GpuUnavailableError(message("gone"))
    assert await parts.facts.gpus() == ((), ())
    assert parts.probe.closed == 1

    def no_driver():
        raise GpuUnavailableError(message("none"))

    facts = Estimating(
        MemoryHost(), no_driver, parts.controller, FakeClock(), parts.store, False, ENGINES
    )
    assert await facts.gpus() == ((), ())
    assert facts.reserve_bytes < parts.facts.reserve_bytes == int(1.3 * GIB)


def test_what_is_free_is_measured_or_unknown() -> None:
    assert cards_of(GPUS, SAMPLES) == (
        Card(24 * GIB, 23 * GIB, "RTX 3090"),
        Card(24 * GIB, 22 * GIB, "RTX 3090"),
    )
    assert [card.free_bytes for card in cards_of(GPUS, ())] == [None, None]
    nameless = replace(GPUS[0], memory_total_bytes=None)
    assert cards_of((nameless,), ()) == ()


def test_settings_of_vllm() -> None:
    found = settings_of(
        ENGINES,
        profile(
            context_length=8192,
            tensor_parallel_size=2,
            max_num_seqs=4,
            kv_cache_dtype="fp8",
            speculative_config='{"method": "mtp", "num_speculative_tokens": 3}',
            enable_prefix_caching=False,
            enforce_eager=True,
        ),
        (Card(GIB),),
        reserve_bytes=5,
    )
    assert (found.engine_id, found.engine_version, found.tensor_parallel) == ("vllm", "0.32.0", 2)
    assert (found.context_tokens, found.max_num_seqs, found.kv_dtype) == (8192, 4, "fp8")
    assert (found.draft_tokens, found.prefix_caching, found.enforce_eager) == (3, False, True)
    assert (found.utilization, found.reserve_bytes) == (0.92, 5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"num_speculative_tokens": "3"}',
        '{"num_speculative_tokens": 9999}',
        '{"num_speculative_tokens": true}',
    ],
)
def test_draft_settings_that_say_nothing(text) -> None:
    found = settings_of(ENGINES, profile(speculative_config=text), (), reserve_bytes=0)
    assert found.draft_tokens == 0


def test_a_fixed_pool_replaces_the_share() -> None:
    found = settings_of(ENGINES, profile(kv_cache_memory_bytes=GIB), (), reserve_bytes=0)
    assert (found.utilization, found.kv_pool_bytes) == (None, GIB)


def test_the_demo_plays_vllm_without_a_version() -> None:
    found = settings_of(ENGINES, profile("demo"), (), reserve_bytes=0)
    assert (found.engine_id, found.engine_version) == ("vllm", "")


def test_settings_of_tabbyapi() -> None:
    cards = (Card(12 * GIB), Card(12 * GIB))
    found = settings_of(
        ENGINES,
        profile(
            "tabbyapi",
            context_length=4096,
            cache_tokens=8192,
            cache_mode="4,4",
            tensor_parallel=True,
            max_batch_size=1,
            chunk_size=1024,
            gpu_split=("10", "10.5"),
            draft_mode="mtp",
        ),
        cards,
        reserve_bytes=0,
    )
    assert (found.engine_id, found.context_tokens, found.cache_mode) == ("tabbyapi", 8192, "4,4")
    assert (found.tensor_parallel, found.gpu_split, found.draft_tokens) == (2, (10.0, 10.5), 4)
    assert (found.max_batch_size, found.chunk_size) == (1, 1024)
    plain = settings_of(ENGINES, profile("tabbyapi", gpu_split=("x", "y")), cards, reserve_bytes=0)
    assert (plain.tensor_parallel, plain.gpu_split, plain.draft_tokens) == (None, (), 0)
    short = settings_of(ENGINES, profile("tabbyapi", gpu_split=("9",)), cards, reserve_bytes=0)
    assert short.gpu_split == ()


async def test_cards_are_not_measured_while_our_own_server_holds_them(parts) -> None:
    cards, machine = await parts.facts.cards()
    assert [card.free_bytes for card in cards] == [None, None]
    assert "RTX 3090" in machine
    parts.controller.record = None
    cards, again = await parts.facts.cards()
    assert [card.free_bytes for card in cards] == [23 * GIB, 22 * GIB]
    assert again == machine
