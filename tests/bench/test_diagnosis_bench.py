"""Budget: a log is diagnosed at 20 MB/s or more (processor time, best of three)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from twinrig import assets
from twinrig.diagnosis.explain import explain_exit
from twinrig.diagnosis.rules import Rules, load_rules

BUDGET_MB_PER_S = 20
RECORDED = Path(__file__).parents[1] / "fixtures" / "vllm" / "start-compile-serve-ctrlc.log"


@pytest.mark.bench
def test_a_serving_log_of_20_mb() -> None:
    rules = load_rules(assets.read_text("rules/vllm.yaml"))
    sample = [line for line in RECORDED.read_text("utf-8").split("\n") if "HTTP/1.1" in line]
    lines = sample * (20_000_000 // sum(len(line) + 1 for line in sample))
    lines.append("KeyError: 'odd'")
    size_mb = sum(len(line) + 1 for line in lines) / 1e6
    best_s = min(_seconds(lines, rules) for _ in range(3))
    print(f"\ndiagnosis: {size_mb / best_s:.0f} MB/s of {BUDGET_MB_PER_S}")
    assert size_mb / best_s >= BUDGET_MB_PER_S


def _seconds(lines: list[str], rules: Rules) -> float:
    start = time.process_time()
    failure = explain_exit(lines, "exit code 1", rules)
    assert failure.log_line_no == len(lines)
    return time.process_time() - start
