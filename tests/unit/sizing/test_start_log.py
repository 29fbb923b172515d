"""Figures of a start, read from the lines that vLLM prints."""

from __future__ import annotations

import pytest

from twinrig.domain.memory import GIB
from twinrig.sizing.calibration import calibrated
from twinrig.sizing.overhead import Overhead
from twinrig.sizing.start_log import StartFigures, read_start

LINES = """\
(APIServer pid=1) INFO 11-29 12:30:40 [utils.py:300] vLLM API server version 0.32.0
(Worker_TP0 pid=7) INFO [gpu_model_runner.py:1] Model loading took 8.69 GiB and 9 s
(Worker_TP1 pid=8) INFO [gpu_model_runner.py:1] Model loading took 8.71 GiB and 9 s
(Worker_TP0 pid=7) INFO 11-29 [gpu_worker.py:2] Available KV cache memory: 11.10 GiB
(Worker_TP1 pid=8) INFO 11-29 [gpu_worker.py:2] Available KV cache memory: 11.05 GiB
GPU KV cache size: 623,873 tokens, Maximum concurrency for 262,144 tokens per request: 2.38x
(Worker_TP0 pid=7) INFO 11-29 [x.py:4] Graph capturing finished in 12 secs, took 0.54 GiB
""".splitlines()


def test_the_fullest_rank_decides() -> None:
    found = read_start(LINES)
    assert found == StartFigures(
        weights_bytes=int(8.71 * GIB),
        pool_bytes=int(11.05 * GIB),
        graphs_bytes=int(0.54 * GIB),
        capacity_tokens=623_873,
        concurrency=2.38,
        context_tokens=262_144,
    )


def test_the_two_lines_of_older_versions() -> None:
    found = read_start(
        [
            "INFO model_runner.py:1: Loading model weights took 14.9888 GB",
            "INFO kv_cache_utils.py: GPU KV cache size: 136,080 tokens",
            "INFO kv_cache_utils.py: Maximum concurrency for 40,960 tokens per request: 3.32x",
        ]
    )
    assert found.weights_bytes == int(14.9888 * GIB)
    assert (found.capacity_tokens, found.concurrency) == (136_080, 3.32)
    assert found.pool_bytes is None


def test_a_new_start_forgets_the_former() -> None:
    again = [LINES[0], "Available KV cache memory: 1.00 GiB"]
    assert read_start([*LINES, *again]) == StartFigures(pool_bytes=GIB)


@pytest.mark.parametrize(
    "line",
    [
        "Available KV cache memory: nothing GiB",
        "Available KV cache memory: 1.2.3 GiB",
        "GPU KV cache size: -5 tokens",
        "Available KV cache memory: 7.00 GiB" + " " * 5000,
        "",
        "GiB tokens",
    ],
)
def test_lines_that_say_nothing(line) -> None:
    assert read_start([line]) == StartFigures()


def test_a_negative_pool_is_kept_as_it_is() -> None:
    assert read_start(["Available KV cache memory: -7.83 GiB"]).pool_bytes == int(-7.83 * GIB)


def test_without_a_measurement_nothing_changes() -> None:
    guess = Overhead(3, 2, 1)
    assert calibrated(guess, None) is guess
    assert guess.total == 6
