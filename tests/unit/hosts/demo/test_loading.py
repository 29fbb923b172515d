"""Load phases, memory that fills up, and the faults that end a load."""

from __future__ import annotations

import json
import re

import pytest

from twinrig.assets import read_text
from twinrig.diagnosis.explain import explain_exit
from twinrig.diagnosis.rule_files import load_shipped
from twinrig.domain.server import Phase
from twinrig.engines.registry import load_engines
from twinrig.hosts.demo.config import DemoConfig, parse_config
from twinrig.hosts.demo.loading import PHASE_SECONDS, Loader, LoadFault, Rig
from twinrig.hosts.demo.log import DemoLog
from twinrig.hosts.demo.models import MODELS_FOLDER
from twinrig.hosts.demo.physics import CARD_TOTAL_BYTES, IDLE_USED_BYTES, Memory


class Load:
    """One load without waiting: what it logged, how long it would have taken."""

    def __init__(self, config: DemoConfig) -> None:
        self.lines: list[str] = []
        self.slept_s = 0.0
        self.rig = Rig()
        self.used: list[tuple[int, int]] = []
        self.loader = Loader(config, DemoLog(self.lines.append), self.rig, self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self.used.append(self.rig.used_bytes)

    async def run(self) -> Memory:
        return await self.loader.load()

    def phases(self) -> list[tuple[Phase, float | None]]:
        engine = load_engines(read_text)["demo"]
        events = [engine.phase_of(line) for line in self.lines]
        return [(event.phase, event.progress) for event in events if event is not None]


def config(**changes: object) -> DemoConfig:
    return parse_config(json.dumps({"tensor_parallel_size": 2, **changes}), "test")


async def test_all_phases_in_order_with_progress_that_the_engine_reads() -> None:
    load = Load(config())
    await load.run()
    phases = load.phases()
    order = list(dict.fromkeys(phase for phase, _ in phases))
    assert order == [
        Phase.IMPORT,
        Phase.CONFIG,
        Phase.WORKERS,
        Phase.WEIGHTS,
        Phase.COMPILE,
        Phase.MEMORY,
        Phase.GRAPHS,
    ]
    progress = [value for phase, value in phases if phase is Phase.WEIGHTS]
    assert progress == sorted(value for value in progress if value is not None)
    assert (progress[0], progress[-1]) == (0.0, 1.0)
    assert len(load.phases()) == len(load.lines)


async def test_it_takes_about_eight_seconds_times_the_scale() -> None:
    assert 7 <= sum(PHASE_SECONDS.values()) <= 9
    load = Load(config(load_scale=0.5))
    await load.run()
    assert load.slept_s == pytest.approx(
        0.5 * (sum(PHASE_SECONDS.values()) - PHASE_SECONDS[Phase.LISTEN])
    )


async def test_memory_only_grows_and_ends_at_the_share() -> None:
    load = Load(config())
    memory = await load.run()
    assert load.used[0] == IDLE_USED_BYTES
    assert load.used == sorted(load.used)
    share = int(CARD_TOTAL_BYTES * 0.88)
    assert load.rig.used_bytes == (IDLE_USED_BYTES[0] + share, IDLE_USED_BYTES[1] + share)
    assert memory.kv_tokens > 32768
    assert load.rig.loading_percent == 0.0


async def test_one_line_per_rank() -> None:
    load = Load(config())
    await load.run()
    ranks = [line for line in load.lines if "world_size=2 rank=" in line]
    assert [re.findall(r"rank=(\d)", line)[0] for line in ranks] == ["0", "1"]


async def fault_of(**changes: object) -> tuple[str, Load]:
    load = Load(config(**changes))
    with pytest.raises(LoadFault) as caught:
        await load.run()
    return str(caught.value), load


async def test_the_oom_fault_ends_in_the_weights() -> None:
    text, load = await fault_of(fault="oom")
    assert text.startswith("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate")
    assert load.phases()[-1][0] is Phase.WEIGHTS


async def test_the_large_model_on_one_card_is_really_too_big() -> None:
    text, _ = await fault_of(tensor_parallel_size=1)
    assert "CUDA out of memory" in text


async def test_the_small_model_fits_one_card() -> None:
    load = Load(
        config(
            tensor_parallel_size=1, model_path=f"{MODELS_FOLDER}/Demo-8B-AWQ", context_length=16384
        )
    )
    await load.run()
    assert load.rig.used_bytes[1] == IDLE_USED_BYTES[1]


async def test_a_context_that_does_not_fit_names_the_longest_that_does() -> None:
    text, _ = await fault_of(context_length=65536)
    found = re.search(r"max seq len \(65536\).*maximum model length is (\d+)", text)
    assert found is not None
    longest = int(found[1])
    await Load(config(context_length=longest)).run()
    with pytest.raises(LoadFault):
        await Load(config(context_length=longest + 1)).run()
    await Load(config(context_length=65536, kv_cache_dtype="fp8")).run()


async def test_a_context_beyond_the_model() -> None:
    text, _ = await fault_of(context_length=200_000)
    assert "greater than the derived max_model_len" in text
    assert "131072" in text


async def test_the_desktop_holds_a_part_of_the_first_card() -> None:
    text, load = await fault_of(gpu_memory_utilization=0.95)
    assert text.startswith("ValueError: Free memory on device cuda:0 (11.04/11.94 GiB)")
    assert load.phases()[-1][0] is Phase.WORKERS


async def test_no_room_for_any_cache() -> None:
    text, _ = await fault_of(gpu_memory_utilization=0.5)
    assert "No available memory for the cache blocks" in text


async def test_a_model_that_is_not_there() -> None:
    text, load = await fault_of(model_path="/home/demo/models/Missing")
    assert "local directory specified: '/home/demo/models/Missing'" in text
    assert load.phases()[-1][0] is Phase.CONFIG


def test_a_log_without_a_reader_stops_nothing(monkeypatch) -> None:
    class Broken:
        tried = 0

        def write(self, _text: str) -> int:
            self.tried += 1
            raise BrokenPipeError

        def flush(self) -> None: ...

    pipe = Broken()
    monkeypatch.setattr("sys.stdout", pipe)
    log = DemoLog()
    log.phase(Phase.IMPORT, "x")
    log.phase(Phase.CONFIG, "y")
    assert pipe.tried == 2, "a reader that comes back sees the rest"
    monkeypatch.setattr("sys.stdout", None)
    DemoLog().error("x")


@pytest.mark.parametrize(
    "changes",
    [
        {"fault": "oom"},
        {"context_length": 65536},
        {"context_length": 200_000},
        {"gpu_memory_utilization": 0.95},
        {"gpu_memory_utilization": 0.5},
        {"model_path": "/home/demo/models/Missing"},
    ],
)
async def test_faults_speak_the_words_that_diagnosis_knows(changes) -> None:
    text, load = await fault_of(**changes)
    DemoLog(load.lines.append).error(text)
    rules = load_shipped(read_text)
    failure = explain_exit(load.lines, "exit code 1", rules)
    assert failure.finding_id != ""
    assert failure.root_cause_line == load.lines[-1]
