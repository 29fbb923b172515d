"""Load phases from log lines: recorded starts of vLLM 0.32 and shapes of other versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinrig.domain.server import Phase
from twinrig.engines.vllm import VllmEngine
from twinrig.engines.vllm_log import vllm_phase_of


def phases(path: Path) -> list[Phase]:
    seen: list[Phase] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        event = vllm_phase_of(line)
        if event is not None and (not seen or seen[-1] is not event.phase):
            seen.append(event.phase)
    return seen


def test_a_recorded_start_with_compilation(fixtures: Path) -> None:
    assert phases(fixtures / "vllm" / "start-compile-serve-ctrlc.log") == [
        Phase.CONFIG,
        Phase.WORKERS,
        Phase.WEIGHTS,
        Phase.COMPILE,
        Phase.MEMORY,
        Phase.LISTEN,
        Phase.STOP,
    ]


def test_a_recorded_start_on_two_ranks(fixtures: Path) -> None:
    found = phases(fixtures / "vllm" / "tp2-kill9-worker.log")
    assert found[:5] == [
        Phase.CONFIG,
        Phase.WORKERS,
        Phase.WEIGHTS,
        Phase.MEMORY,
        Phase.LISTEN,
    ]
    assert Phase.WORKERS not in found[5:], "the crash dump repeats the configuration"


PREFIXES = [
    "",
    "(APIServer pid=1) ",
    "(EngineCore_DP0 pid=12) ",
    "(EngineCore pid=12) INFO 11-29 12:30:15 [core.py:133] ",
    "(Worker_TP1 pid=615) INFO 11-29 12:51:17 [x.py:1] ",
    "(VllmWorker rank=1 pid=9510) INFO 04-30 21:05:28 [x.py:753] ",
    "INFO 09-13 21:05:10 [core.py:610] ",
    "2026-09-13T21:05:10 host vllm[12]: ",
]
LINES = [
    ("non-default args: {'port': 8000}", Phase.CONFIG),
    ("vLLM API server version 0.11.0", Phase.CONFIG),
    ("Initializing a V1 LLM engine (v0.32.0) with config: model='x'", Phase.WORKERS),
    (
        "world_size=2 rank=1 local_rank=1 distributed_init_method=tcp://x backend=nccl",
        Phase.WORKERS,
    ),
    ("vLLM is using nccl==2.28.9", Phase.WORKERS),
    ("Starting to load model /m...", Phase.WEIGHTS),
    ("Model loading took 9.5 GiB memory and 30.1 seconds", Phase.WEIGHTS),
    ("Dynamo bytecode transform time: 5.1 s", Phase.COMPILE),
    ("torch.compile takes 31.44 s in total", Phase.COMPILE),
    ("Available KV cache memory: 9.41 GiB", Phase.MEMORY),
    ("GPU KV cache size: 2,097,152 tokens, Maximum concurrency for 1,024", Phase.MEMORY),
    ("Graph capturing finished in 9 secs, took 0.5 GiB", Phase.GRAPHS),
    ("Starting vLLM API server 0 on http://0.0.0.0:8000", Phase.LISTEN),
    ("Application startup complete.", Phase.LISTEN),
    ("Application shutdown complete.", Phase.STOP),
]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(("line", "phase"), LINES)
def test_prefixes_do_not_matter(prefix: str, line: str, phase: Phase) -> None:
    for ending in ("", "\n", "\r\n"):
        event = vllm_phase_of(prefix + line + ending)
        assert event is not None and event.phase is phase and event.progress is None


@pytest.mark.parametrize(
    ("line", "phase", "progress"),
    [
        ("Loading safetensors checkpoint shards:  20% Completed | 1/5 [x]", Phase.WEIGHTS, 0.2),
        ("Loading pt checkpoint shards: 100% Completed | 5/5 [x]", Phase.WEIGHTS, 1.0),
        ("Capturing CUDA graphs (decode, FULL):  37%|███  | 19/51 [x]", Phase.GRAPHS, 0.37),
        ("Capturing CUDA graph shapes:   0%|     | 0/35 [x]", Phase.GRAPHS, 0.0),
        (
            "Loading safetensors checkpoint shards:   0% Completed | 0/5\r"
            "Loading safetensors checkpoint shards:  60% Completed | 3/5",
            Phase.WEIGHTS,
            0.6,
        ),
        ("Loading safetensors checkpoint shards: 999% Completed |", Phase.WEIGHTS, 1.0),
    ],
)
def test_progress_bars(line: str, phase: Phase, progress: float) -> None:
    for prefix in ("", "(Worker_TP0 pid=1) "):
        event = vllm_phase_of(prefix + line)
        assert event is not None
        assert (event.phase, event.progress) == (phase, progress)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\n",
        'INFO:     127.0.0.1:1 - "GET /Application startup complete HTTP/1.1" 404 Not Found',
        "(APIServer pid=1) INFO 1 [x] Received request c-1: prompt: 'Shutting down'",
        "[dump_input] Dumping input data for V1 LLM engine (v0.32.0) with config: x",
        "Engine 000: Avg prompt throughput: 4.0 tokens/s, GPU KV cache usage: 0.0%",
        "(EngineCore pid=1) ERROR EngineCore failed to start.",
        "x" * 5000 + "Application startup complete.",
    ],
)
def test_other_lines_tell_no_phase(line: str) -> None:
    assert vllm_phase_of(line) is None


@settings(deadline=None)
@given(st.text())
def test_no_line_raises(line: str) -> None:
    event = vllm_phase_of(line)
    assert event is None or event.phase in Phase


def test_the_engine_uses_it(engine: VllmEngine) -> None:
    event = engine.phase_of("Application startup complete.")
    assert event is not None and event.phase is Phase.LISTEN
