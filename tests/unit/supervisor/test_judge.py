"""The pure judgement."""

from __future__ import annotations

import pytest

from twinrig.domain.metrics import EngineMetrics
from twinrig.supervisor.health import Health
from twinrig.supervisor.judge import Judge
from twinrig.supervisor.probe import ProbeOutcome, ProbeResult
from twinrig.supervisor.timing import Timing

SILENT = ProbeResult(ProbeOutcome.SILENT)
FINE = ProbeResult(ProbeOutcome.FINE, 200)


def judge() -> Judge:
    return Judge(Timing(), 0.0)


def test_idle_for_a_minute_is_due():
    it = judge()
    it.see_metrics(0.0, EngineMetrics(0.0, 0.0, 0.0, 0.0))
    assert not it.probe_due(59.9)
    assert it.probe_due(60.0)


def test_work_that_ends_starts_the_idle_minute_anew():
    it = judge()
    it.see_metrics(0.0, EngineMetrics(0.0, 0.0, 1.0, 0.0))
    it.see_metrics(50.0, EngineMetrics(9.0, 0.0, 0.0, 0.0))
    assert not it.probe_due(109.0)
    assert it.probe_due(110.0)


def test_waiting_requests_count_as_busy():
    it = judge()
    it.see_metrics(0.0, EngineMetrics(0.0, 0.0, 0.0, 3.0))
    assert not it.probe_due(119.0)
    assert it.probe_due(120.0)


def test_a_moving_prompt_counter_is_movement():
    it = judge()
    it.see_metrics(0.0, EngineMetrics(0.0, 0.0, 1.0, 0.0))
    it.see_metrics(100.0, EngineMetrics(0.0, 512.0, 1.0, 0.0))
    assert not it.probe_due(200.0)
    assert it.probe_due(220.0)


def test_missing_metrics_prove_nothing():
    it = judge()
    it.see_metrics(0.0, EngineMetrics(5.0, 0.0, 1.0, 0.0))
    it.see_metrics(5.0, None)
    it.see_metrics(10.0, EngineMetrics(5.0, 0.0, 1.0, 0.0))
    assert it.probe_due(120.0)


def test_after_a_failed_probe_the_next_comes_sooner():
    it = judge()
    it.see_probe(0.0, SILENT, 60.0)
    assert it.verdict().degraded is not None
    assert not it.probe_due(29.0)
    assert it.probe_due(30.0)


def test_a_probe_is_never_evidence_for_a_restart():
    it = judge()
    for at in range(1000):
        it.see_probe(float(at), SILENT, 60.0)
        it.see_probe(float(at), ProbeResult(ProbeOutcome.BROKEN, 500), 60.0)
    assert it.verdict().restart is None
    it.see_probe(1001.0, FINE, 60.0)
    assert it.verdict().degraded is None


@pytest.mark.parametrize(
    ("health", "restarts"), [(Health.SICK, True), (Health.REFUSED, True), (Health.SILENT, False)]
)
def test_twelve_in_a_row_and_only_of_the_dead_kind(health, restarts):
    it = judge()
    for _ in range(11):
        it.see_health(health)
    assert it.verdict().restart is None
    assert it.verdict().degraded is not None
    it.see_health(health)
    assert (it.verdict().restart is not None) is restarts


def test_one_good_answer_breaks_the_row():
    it = judge()
    for _ in range(11):
        it.see_health(Health.SICK)
    it.see_health(Health.FINE)
    assert it.verdict().degraded is None
    it.see_health(Health.SICK)
    assert it.verdict().restart is None


def test_silence_in_between_is_not_counted_as_dead():
    it = judge()
    for _ in range(11):
        it.see_health(Health.REFUSED)
    it.see_health(Health.SILENT)
    it.see_health(Health.REFUSED)
    assert it.verdict().restart is None


def test_a_restart_of_counters_is_movement_not_an_error():
    it = judge()
    it.see_metrics(0.0, EngineMetrics(500.0, 90.0, 1.0, 0.0))
    it.see_metrics(10.0, EngineMetrics(0.0, 0.0, 1.0, 0.0))
    assert not it.probe_due(121.0)


def test_a_server_that_only_windows_does_not_reach_is_never_restarted():
    it = judge()
    for _ in range(50):
        it.see_health(Health.CUT_OFF)
    verdict = it.verdict()
    assert "answers inside WSL" in str(verdict.degraded)
    assert verdict.restart is None
    for _ in range(Timing().restart_checks):
        it.see_health(Health.REFUSED)
    assert it.verdict().restart is not None
