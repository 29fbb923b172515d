"""The supervisor as a whole, in virtual time with a server by name only."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise

import pytest

from fixtures.supervision import make_profile, make_spec, own_log, plain_explain, write_desired
from twinrig.domain.errors import HostError, UsageError
from twinrig.domain.launch import StopSignal
from twinrig.domain.ports import ExitStatus
from twinrig.domain.server import Phase, ServerState
from twinrig.domain.supervision import Desired
from twinrig.files import write_atomic
from twinrig.messages import message
from twinrig.supervisor.supervise import supervise

S = ServerState


async def test_a_start_goes_through_loading_to_ready_and_a_stop_ends_it(rig):
    write_desired(rig.layout, Desired.RUNNING, "first")
    rig.start()
    await rig.until_state(S.READY)
    record = rig.record
    assert record.request_id == "first"
    assert record.run_id == "run1"
    assert record.server_pid == 1000
    assert record.base_url == "http://127.0.0.1:18999"
    assert record.metrics_url == "http://127.0.0.1:18999/metrics"
    assert (record.target, record.engine_id, record.model_id) == ("local", "fake", "m")
    assert [p.phase for p in record.phases] == [
        Phase.LAUNCH,
        Phase.IMPORT,
        Phase.CONFIG,
        Phase.WEIGHTS,
        Phase.PROBE,
        Phase.SERVE,
    ]
    assert record.ready_at_s is not None
    assert (record.probe_prompt_tokens, record.probe_generation_tokens) == (5, 8)
    write_desired(rig.layout, Desired.STOPPED, "second")
    assert await rig.end() == 0
    assert rig.seen == [S.STARTING, S.LOADING, S.READY, S.STOPPING, S.STOPPED]
    assert rig.server.signals == [StopSignal.TERM]
    record = rig.record
    assert (record.state, record.request_id, record.server_pid) == (S.STOPPED, "second", None)
    assert rig.lock.held is False


async def test_the_probe_is_the_sampled_completion_with_the_key_and_generous_first_time(rig):
    rig.start()
    await rig.until_state(S.READY)
    spec = make_spec()
    assert rig.http.bodies == [spec.readiness.completion_body]
    assert rig.http.tokens == ["secret-key"]
    assert rig.http.probes[0][1] == spec.readiness.first_timeout_s


async def test_not_ready_before_the_completion_succeeds(rig):
    rig.http.completion = None
    rig.start()
    await rig.until(lambda r: any(p.phase is Phase.PROBE for p in r.phases))
    await rig.clock.sleep(30)
    assert rig.record.state is S.LOADING
    rig.http.completion = 200
    await rig.until_state(S.READY, 10)


async def test_a_first_probe_that_times_out_restarts_nothing(rig):
    rig.http.hang = True
    rig.start()
    await rig.until(lambda r: any(p.phase is Phase.PROBE for p in r.phases))
    await rig.clock.sleep(500)
    assert rig.record.state is S.LOADING
    assert len(rig.launcher.servers) == 1
    rig.http.hang = False
    await rig.until_state(S.READY, 400)


async def test_a_refused_probe_is_final_and_shows_the_answer(rig):
    rig.http.completion = 401
    rig.http.reply = {"error": "Unauthorized"}
    rig.start()
    assert await rig.end() == 1
    assert rig.seen == [S.STARTING, S.LOADING, S.FAILED]
    failure = rig.record.failure
    assert failure is not None
    assert failure.text.params == {"status": 401}
    assert "Unauthorized" in failure.root_cause_line
    assert rig.server.signals == [StopSignal.TERM]


async def test_a_start_that_takes_too_long_is_a_failed_start(rig):
    readiness = replace(make_spec().readiness, load_timeout_s=200.0)

    async def prepare(_profile):
        return make_spec(readiness=readiness)

    rig.parts = replace(rig.parts, prepare=prepare)
    rig.launcher.on_launch = lambda _server, _output: None
    rig.start()
    await rig.until_state(S.BACKOFF, 210)
    assert rig.clock.now() - rig.record.started_at_s >= 200
    assert rig.record.failure.text.params == {"limit_s": 200}
    assert rig.record.quick_failures == 1
    assert rig.server.signals == [StopSignal.TERM]


@pytest.mark.parametrize("code", [0, 1])
async def test_an_exit_nobody_asked_for_is_a_crash_also_with_code_0(rig, code):
    rig.start()
    await rig.until_state(S.READY)
    await rig.clock.sleep(100)
    rig.server.end(ExitStatus(code))
    await rig.until_state(S.BACKOFF)
    record = rig.record
    assert record.last_exit == f"exit code {code}"
    assert record.restarts == 1
    assert record.quick_failures == 0
    assert record.next_restart_at_s is not None
    assert 0 < record.next_restart_at_s - rig.clock.now() <= 5
    await rig.until(lambda r: r.run_id == "run2" and r.state is S.READY)
    assert rig.record.failure is None
    assert len(rig.launcher.servers) == 2


async def test_five_quick_failures_with_growing_waits_then_it_gives_up_and_says_why(rig):
    times = []

    def dies(server, output):
        times.append(rig.clock.now())
        output(b"it went wrong\n")
        server.end(ExitStatus(7))

    rig.launcher.on_launch = dies
    rig.start()
    assert await rig.end() == 1
    waits = [b - a for a, b in pairwise(times)]
    assert waits == pytest.approx([5, 15, 60, 300], abs=1.0)
    assert rig.seen == [S.STARTING, S.BACKOFF] * 4 + [S.STARTING, S.FAILED]
    record = rig.record
    assert record.quick_failures == 5
    assert record.failure.text.params["count"] == 5
    assert "exit code 7" in str(record.failure.text)
    assert record.next_restart_at_s is None


async def test_an_exit_soon_after_ready_is_a_quick_failure_a_late_one_forgets_them(rig):
    rig.start()
    for number in (1, 2):
        await rig.until(lambda r, n=number: r.state is S.READY and r.run_id == f"run{n}")
        await rig.clock.sleep(30)
        rig.server.end(ExitStatus(1))
        await rig.until_state(S.BACKOFF)
        assert rig.record.quick_failures == number
    await rig.until(lambda r: r.state is S.READY and r.run_id == "run3")
    await rig.clock.sleep(61)
    rig.server.end(ExitStatus(1))
    await rig.until_state(S.BACKOFF)
    assert rig.record.quick_failures == 0
    assert rig.record.restarts == 3


async def test_a_permanent_failure_is_not_tried_again(rig):
    def dies(server, output):
        output(b"fine so far\nfatal: unknown option\nthe end\n")
        server.end(ExitStatus(2))

    rig.launcher.on_launch = dies
    rig.start()
    assert await rig.end() == 1
    assert len(rig.launcher.servers) == 1
    failure = rig.record.failure
    assert failure.finding_id == "fatal"
    assert failure.log_line_no == 2
    assert failure.root_cause_line == "fatal: unknown option"


async def test_a_broken_diagnosis_costs_the_explanation_not_the_restart(rig):
    def broken(_lines, _status):
        raise IndexError("rule 7")

    rig.parts = replace(rig.parts, explain=broken)
    rig.launcher.on_launch = lambda server, _output: server.end(ExitStatus(1))
    rig.start()
    await rig.until_state(S.BACKOFF)
    assert "exit code 1" in str(rig.record.failure.text)


async def test_what_stands_beside_the_log_is_looked_at_before_the_diagnosis(rig):
    seen = []

    async def look(age_s):
        seen.append(("look", age_s))

    def explain(lines, status):
        seen.append(("explain", str(status)))
        return plain_explain(lines, status)

    rig.parts = replace(rig.parts, look=look, explain=explain)
    rig.launcher.on_launch = lambda server, _output: server.end(ExitStatus(1))
    rig.start()
    await rig.until_state(S.BACKOFF)
    assert [name for name, _ in seen[:2]] == ["look", "explain"]
    assert 0 <= seen[0][1] < 60


async def test_a_broken_look_costs_nothing_else(rig):
    async def broken(_age_s):
        raise OSError("no dmesg")

    rig.parts = replace(rig.parts, look=broken)
    rig.launcher.on_launch = lambda server, _output: server.end(ExitStatus(1))
    rig.start()
    await rig.until_state(S.BACKOFF)
    assert rig.record.failure is not None


async def test_errors_of_prepare_fail_at_once_with_their_next_step(rig):
    async def prepare(_profile):
        raise UsageError(message("No model."), message("Choose one."))

    rig.parts = replace(rig.parts, prepare=prepare)
    rig.start()
    assert await rig.end() == 1
    assert rig.launcher.launched == []
    assert str(rig.record.failure.text) == "No model."
    assert str(rig.record.failure.next_step) == "Choose one."
    assert rig.seen == [S.STARTING, S.FAILED]


async def test_a_profile_that_cannot_be_loaded_fails_at_once(rig):
    def load(_id):
        raise UsageError(message("There is no such profile."))

    rig.parts = replace(rig.parts, load_profile=load)
    rig.start()
    assert await rig.end() == 1
    assert str(rig.record.failure.text) == "There is no such profile."
    assert str(rig.record.failure.next_step)


async def test_a_port_in_use_fails_before_anything_is_launched(rig):
    async def used(endpoint):
        return endpoint.port == 18999

    rig.parts = replace(rig.parts, port_in_use=used)
    rig.start()
    assert await rig.end() == 1
    assert rig.launcher.launched == []
    assert rig.record.failure.text.params == {"port": 18999}
    assert rig.record.failure.finding_id == "port-in-use"
    assert rig.record.failure.params == (("port", "18999"),)
    assert rig.record.failure.fixes == ("cfg-change-port",)
    assert rig.record.failure.permanent
    assert str(rig.record.failure.next_step)


async def test_a_program_that_cannot_be_launched_fails_at_once(rig):
    rig.launcher.launch_error = HostError(message("No such file."), message("Install it."))
    rig.start()
    assert await rig.end() == 1
    assert rig.seen == [S.STARTING, S.FAILED]
    assert str(rig.record.failure.text) == "No such file."


async def test_a_fault_of_our_own_ends_the_server_and_says_so(rig):
    class Bug:
        id = "x"

        def log_meter(self):
            return None

        def phase_of(self, _line):
            return None

        def parse_metrics(self, _text):
            raise ZeroDivisionError("bug")

    rig.parts = replace(rig.parts, engine_for=lambda _p: Bug())

    def launch(server, output):
        rig.becomes_ready(server, output)
        rig.launcher.orphans["run1"] = {server.pid: set()}

    rig.launcher.on_launch = launch
    rig.start()
    assert await rig.end() == 70
    assert rig.launcher.sent == [(1000, StopSignal.TERM)]
    assert rig.record.state is S.FAILED
    assert "ZeroDivisionError" in str(rig.record.failure.text)


async def test_a_second_supervisor_leaves_everything_alone(rig):
    rig.lock.free = False
    assert await supervise("main", rig.parts) == 3
    assert not rig.layout.folder("main").exists()
    assert rig.lock.releases == 0


async def test_desired_stopped_at_start_only_sweeps(rig):
    write_desired(rig.layout, Desired.STOPPED, "s1")
    rig.start()
    assert await rig.end() == 0
    assert rig.launcher.launched == []
    assert (rig.record.state, rig.record.request_id) == (S.STOPPED, "s1")


async def test_leftovers_of_the_last_run_are_swept_before_the_start(rig):
    rig.start()
    await rig.until_state(S.READY)
    rig.task.cancel()  # as good as kill -9: nothing is tidied up
    await asyncio.gather(rig.task, return_exceptions=True)
    assert rig.record.state is S.READY
    rig.launcher.orphans["run1"] = {41: set(), 42: {StopSignal.TERM}}
    rig.launcher.orphan_parents = {42: 41}
    rig.launcher.shared = ("/dev/shm/psm_1",)
    rig.launcher.on_launch = lambda *_: None
    rig.http.health = None
    rig.start()
    await rig.until(lambda r: r.run_id == "run2" and r.state is S.STARTING)
    assert rig.launcher.orphans["run1"] == {}
    assert rig.launcher.sent == [(41, StopSignal.TERM), (42, StopSignal.KILL)]
    assert rig.launcher.removed == ["/dev/shm/psm_1"]


async def test_a_request_while_it_ends_is_carried_out_by_the_same_process(rig):
    rig.launcher.ignores = (StopSignal.TERM,)
    rig.start()
    await rig.until_state(S.READY)
    write_desired(rig.layout, Desired.STOPPED, "stop")
    await rig.until_state(S.STOPPING)
    write_desired(rig.layout, Desired.RUNNING, "again")
    await rig.until(lambda r: r.state is S.READY and r.run_id == "run2")
    assert rig.record.request_id == "again"
    assert rig.lock.releases == 1
    assert rig.seen[3:7] == [S.STOPPING, S.STOPPED, S.STARTING, S.LOADING]


async def test_a_new_request_ends_the_back_off(rig):
    rig.start()
    await rig.until_state(S.READY)
    for number in (2, 3):
        rig.server.end(ExitStatus(1))
        await rig.until(lambda r, n=number: r.state is S.READY and r.run_id == f"run{n}")
    rig.server.end(ExitStatus(1))
    await rig.until_state(S.BACKOFF)
    began_s = rig.clock.now()
    write_desired(rig.layout, Desired.RUNNING, "now")
    await rig.until(lambda r: r.run_id == "run4")
    assert rig.clock.now() - began_s < 2
    assert rig.record.request_id == "now"


async def test_timings_of_a_success_are_expected_the_next_time(rig):
    def slow(server, output):
        rig.becomes_ready(server, output)
        rig.http.health = None
        asyncio.get_running_loop().create_task(later())

    async def later():
        await rig.clock.sleep(20)
        rig.http.health = 200

    rig.launcher.on_launch = slow
    rig.start()
    await rig.until_state(S.READY)
    stored = json.loads(rig.layout.timings("main").read_text())
    assert stored["phases"]["weights"] == pytest.approx(20, abs=2)
    write_desired(rig.layout, Desired.STOPPED)
    await rig.end()
    write_desired(rig.layout, Desired.RUNNING, "r2")
    rig.http.health = None
    rig.start()
    await rig.until_state(S.READY)
    weights = next(p for p in rig.record.phases if p.phase is Phase.WEIGHTS)
    assert weights.expected_s == stored["phases"]["weights"]


async def test_heartbeat_every_five_seconds(rig):
    rig.start()
    await rig.until_state(S.READY)
    for _ in range(4):
        await rig.clock.sleep(10)
        assert rig.clock.now() - rig.record.updated_at_s <= 5.5


async def test_environment_that_did_not_arrive_is_told(rig):
    rig.launcher.environ = {"TWINRIG_RUN_ID": "run1", "WANTED": "other"}
    rig.start()
    await rig.until_state(S.READY)
    assert rig.record.environment_mismatch == ("WANTED",)


async def test_shared_memory_is_written_down_and_removed_after_the_end(rig):
    rig.launcher.shared = ("/dev/shm/psm_a",)
    rig.start()
    await rig.until(lambda r: r.shared_memory == ("/dev/shm/psm_a",))
    write_desired(rig.layout, Desired.STOPPED)
    await rig.end()
    assert rig.launcher.removed == ["/dev/shm/psm_a"]
    assert rig.record.shared_memory == ()


async def test_processes_that_cannot_be_ended_fail_the_stop_with_their_pids(rig):
    rig.start()
    await rig.until_state(S.READY)
    rig.launcher.orphans["run1"] = {77: {StopSignal.TERM, StopSignal.KILL}}
    write_desired(rig.layout, Desired.STOPPED)
    began_s = rig.clock.now()
    assert await rig.end() == 1
    assert rig.record.failure.text.params == {"pids": "77"}
    assert rig.clock.now() - began_s < 31


@pytest.mark.parametrize(
    "wish", [b"", b"\x00\xff\xfe", b"[]", b'{"schema_version": 99}', b"x" * 5_000_000]
)
async def test_a_wish_that_cannot_be_read_starts_nothing_and_is_left_untouched(rig, wish):
    path = rig.layout.desired("main")
    write_atomic(path, wish)
    rig.start()
    assert await rig.end() == 1
    assert rig.launcher.launched == []
    assert path.read_bytes() == wish
    failure = rig.record.failure
    assert str(path) in str(failure.text)
    assert str(failure.next_step)


async def test_a_wish_that_gets_damaged_later_changes_nothing(rig):
    write_desired(rig.layout, Desired.RUNNING)
    rig.start()
    await rig.until_state(S.READY)
    write_atomic(rig.layout.desired("main"), b"\x00")
    await rig.clock.sleep(10)
    assert rig.record.state is S.READY
    assert own_log(rig.layout).count("is damaged") == 1
    write_desired(rig.layout, Desired.STOPPED)
    assert await rig.end() == 0


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x00\x01\xff",
        b'{"run_id": "old-run", "state"',
        b'{"schema_version": 2, "run_id": "old-run"}',
    ],
)
async def test_a_damaged_state_file_is_kept_aside_and_its_run_is_still_swept(rig, text):
    write_atomic(rig.layout.state("main"), text)
    rig.launcher.orphans["old-run"] = {9: set()}
    rig.start()
    await rig.until_state(S.READY)
    aside = list(rig.layout.folder("main").glob("state.json.damaged-*"))
    assert [path.read_bytes() for path in aside] == [text]
    assert (rig.launcher.orphans["old-run"] == {}) is (b"old-run" in text)


async def test_a_folder_that_cannot_be_written_is_an_error_not_a_silent_server(rig, capsys):
    folder = rig.layout.folder("main")
    folder.parent.mkdir(parents=True)
    folder.write_text("a file where the folder should be")
    assert await supervise("main", rig.parts) == 3
    assert rig.launcher.launched == []
    assert "cannot be kept" in capsys.readouterr().err
    assert rig.lock.held is False


async def test_a_full_disk_later_does_not_end_the_server(rig, monkeypatch):
    rig.start()
    await rig.until_state(S.READY)

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("twinrig.supervisor.record_store.write_atomic", full)
        await rig.clock.sleep(60)
    assert own_log(rig.layout).count("No space left") == 1
    stale_s = rig.record.updated_at_s
    await rig.clock.sleep(6)
    assert rig.record.updated_at_s > stale_s
    assert rig.record.state is S.READY
    assert len(rig.launcher.servers) == 1


async def test_the_record_never_holds_the_key(rig):
    rig.start()
    await rig.until_state(S.READY)
    everything = b"".join(p.read_bytes() for p in rig.layout.folder("main").iterdir())
    assert b"secret-key" not in everything
    assert make_profile().id == "main"
