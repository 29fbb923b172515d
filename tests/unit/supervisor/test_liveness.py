"""A serving server under watch: probes, DEGRADED, and the evidence for a restart."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from fixtures.supervision import own_log
from twinrig.domain.launch import StopSignal
from twinrig.domain.metrics import EngineMetrics
from twinrig.domain.server import ServerState

S = ServerState


async def ready(rig) -> None:
    rig.start()
    await rig.until_state(S.READY)


async def test_an_idle_server_is_probed_about_once_a_minute_and_tokens_add_up(rig):
    await ready(rig)
    await rig.clock.sleep(400)
    times = [at for at, _ in rig.http.probes]
    gaps = [b - a for a, b in pairwise(times)]
    assert len(gaps) in (5, 6)
    assert all(60 <= gap <= 72 for gap in gaps)
    assert rig.http.probes[1][1] == 60.0, "later probes have the shorter limit"
    count = len(times)
    assert rig.record.probe_prompt_tokens in (5 * count, 5 * (count - 1))
    assert rig.record.probe_generation_tokens == rig.record.probe_prompt_tokens // 5 * 8


async def test_a_server_at_work_is_not_probed(rig):
    await ready(rig)
    for step in range(100):
        rig.http.metrics = EngineMetrics(10.0 * step, 0.0, 1.0, 0.0)
        await rig.clock.sleep(5)
    assert len(rig.http.probes) == 1


async def test_requests_that_run_without_a_token_for_two_minutes_are_probed(rig):
    await ready(rig)
    rig.http.metrics = EngineMetrics(10.0, 5.0, 1.0, 0.0)
    stalled_at_s = rig.clock.now()
    await rig.clock.sleep(110)
    assert len(rig.http.probes) == 1
    await rig.clock.sleep(30)
    assert len(rig.http.probes) == 2
    assert rig.http.probes[1][0] - stalled_at_s >= 120


async def test_a_probe_that_times_out_degrades_and_never_restarts(rig):
    await ready(rig)
    rig.http.hang = True
    rig.http.metrics = EngineMetrics(10.0, 5.0, 1.0, 0.0)
    await rig.until_state(S.DEGRADED, 250)
    assert rig.record.degraded_reason.params == {"limit_s": 60}
    await rig.clock.sleep(900)
    assert rig.record.state is S.DEGRADED
    assert len(rig.launcher.servers) == 1
    assert rig.server.signals == []
    rig.http.hang = False
    await rig.until_state(S.READY, 200)
    assert rig.record.degraded_reason is None


async def test_tokens_that_move_again_end_the_degraded_state_without_a_probe(rig):
    await ready(rig)
    rig.http.hang = True
    rig.http.metrics = EngineMetrics(10.0, 5.0, 1.0, 0.0)
    await rig.until_state(S.DEGRADED, 250)
    rig.http.metrics = EngineMetrics(11.0, 5.0, 1.0, 0.0)
    await rig.until_state(S.READY, 11)


async def test_a_probe_behind_a_long_reply_does_not_hide_moving_counters(rig):
    await ready(rig)
    rig.http.hang = True
    await rig.clock.sleep(64)
    for step in range(1, 60):
        rig.http.metrics = EngineMetrics(10.0 * step, 0.0, 1.0, 1.0)
        await rig.clock.sleep(5)
    assert S.BACKOFF not in rig.seen
    assert rig.record.state is S.READY


async def test_a_failing_probe_degrades_with_its_status(rig):
    await ready(rig)
    rig.http.completion = 500
    await rig.until_state(S.DEGRADED, 120)
    assert rig.record.degraded_reason.params == {"status": 500}
    rig.http.completion = 200
    await rig.until_state(S.READY, 60)


async def test_one_bad_health_answer_is_nothing(rig):
    await ready(rig)
    rig.http.health = 503
    await rig.clock.sleep(4)
    rig.http.health = 200
    await rig.clock.sleep(60)
    assert S.DEGRADED not in rig.seen


async def test_a_dead_engine_behind_a_live_process_is_restarted_after_a_minute(rig):
    await ready(rig)
    rig.http.health = 503
    began_s = rig.clock.now()
    await rig.until_state(S.DEGRADED, 20)
    await rig.until_state(S.BACKOFF, 120)
    assert 55 <= rig.clock.now() - began_s <= 75
    assert rig.server.signals == [StopSignal.TERM]
    assert rig.record.failure.text.params == {"count": 12}
    assert "12 times" in own_log(rig.layout)
    await rig.until(lambda r: r.run_id == "run2" and r.state is S.READY)


async def test_refused_connections_are_evidence_too(rig):
    await ready(rig)
    rig.http.health = None
    await rig.until_state(S.BACKOFF, 120)


async def test_silence_degrades_but_is_no_evidence(rig):
    await ready(rig)
    rig.http.silent = True
    rig.http.health = None
    await rig.until_state(S.DEGRADED, 30)
    await rig.clock.sleep(300)
    assert rig.record.state is S.DEGRADED
    assert len(rig.launcher.servers) == 1
    rig.http.health = 200
    await rig.until_state(S.READY, 60)


async def test_without_metrics_it_is_probed_as_if_idle(rig):
    await ready(rig)
    rig.http.metrics_status = None
    await rig.clock.sleep(200)
    assert len(rig.http.probes) in (3, 4)
    assert rig.record.state is S.READY


async def test_no_metrics_path_means_no_metrics_url(rig):
    original = rig.parts.prepare

    async def prepare(profile):
        return replace(await original(profile), metrics_path="")

    rig.parts = replace(rig.parts, prepare=prepare)
    await ready(rig)
    assert rig.record.metrics_url == ""
