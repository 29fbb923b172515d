"""Files between panel and supervisor: what is written is read back; damage is named, not read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.domain.errors import DamagedFileError, NewerSchemaError
from twinrig.domain.server import Phase, ServerState
from twinrig.domain.supervision import (
    Desired,
    DesiredState,
    Failure,
    PhaseTime,
    ServerRecord,
    StateLayout,
)
from twinrig.messages import message

FULL = ServerRecord(
    profile_id="qwen",
    target="local",
    engine_id="vllm",
    run_id="r-1",
    state=ServerState.FAILED,
    updated_at_s=1_800_000_000.5,
    supervisor_pid=4711,
    request_id="q-1",
    server_pid=4712,
    started_at_s=1.0,
    ready_at_s=2.0,
    phases=(PhaseTime(Phase.WEIGHTS, 1.5, 30.0, 0.25), PhaseTime(Phase.LISTEN, 1.75)),
    base_url="http://127.0.0.1:8000",
    metrics_url="http://127.0.0.1:8000/metrics",
    model_id="tiny",
    log_path="/x/server.log",
    restarts=2,
    quick_failures=1,
    next_restart_at_s=3.0,
    last_exit="signal 9",
    failure=Failure(
        message("The port {port} is taken.", port=8000),
        message("Choose another."),
        "port-taken",
        "high",
        "OSError: [Errno 98]",
        12,
        permanent=True,
        params=(("port", "8000"),),
        fixes=("use-port",),
    ),
    degraded_reason=message("because {why}", why=message("slow")),
    probe_prompt_tokens=7,
    probe_generation_tokens=8,
    environment_mismatch=("NCCL_P2P_DISABLE",),
    shared_memory=("/dev/shm/psm_1",),
    dropped_log_lines=3,
)
SMALL = ServerRecord("p", "demo", "demo", "r", ServerState.STARTING, 5.0, 1)


@pytest.mark.parametrize("record", [FULL, SMALL], ids=["full", "small"])
def test_a_record_is_read_back_as_it_was(record: ServerRecord) -> None:
    assert ServerRecord.from_json(record.to_json(), "state.json") == record
    assert ServerRecord.from_json(record.to_json().encode(), "state.json") == record


def test_keys_of_a_later_version_of_the_same_schema_are_ignored() -> None:
    data = {**json.loads(SMALL.to_json()), "added_later": [1]}
    assert ServerRecord.from_json(json.dumps(data), "x") == SMALL


def test_missing_optional_keys_read_as_their_defaults() -> None:
    data = json.loads(SMALL.to_json())
    needed = ("profile_id", "target", "engine_id", "run_id", "state", "updated_at_s")
    kept = {k: data[k] for k in (*needed, "supervisor_pid")}
    assert ServerRecord.from_json(json.dumps(kept), "x") == SMALL


def test_a_newer_file_is_named_and_not_called_damaged() -> None:
    data = {**json.loads(FULL.to_json()), "schema_version": 2, "state": "flying"}
    with pytest.raises(NewerSchemaError, match=r"/s/state\.json was written by a newer Twinrig"):
        ServerRecord.from_json(json.dumps(data), "/s/state.json")


DAMAGE: list[Any] = [
    b"",
    b"\x00" * 100,
    b"\xff\xfe{\x00}\x00",
    "{",
    FULL.to_json()[:-20],
    "[]",
    "null",
    "3",
    '"text"',
    "[" * 100_000,
]


@pytest.mark.parametrize("text", DAMAGE, ids=range(len(DAMAGE)))
def test_damage_is_named_with_the_file(text: str | bytes) -> None:
    for kind in (ServerRecord, DesiredState):
        with pytest.raises(DamagedFileError) as caught:
            kind.from_json(text, "/s/state.json")
        assert "/s/state.json is damaged" in str(caught.value)
        assert caught.value.next_step is not None


@pytest.mark.parametrize(
    "change",
    [
        {"state": "flying"},
        {"state": None},
        {"updated_at_s": "soon"},
        {"updated_at_s": None},
        {"updated_at_s": math.nan},
        {"updated_at_s": math.inf},
        {"started_at_s": [1]},
        {"supervisor_pid": "x"},
        {"server_pid": "x"},
        {"restarts": math.inf},
        {"restarts": None},
        {"probe_prompt_tokens": "many"},
        {"phases": 3},
        {"phases": [3]},
        {"phases": [{"phase": "flying", "started_at_s": 1}]},
        {"phases": [{"phase": "weights"}]},
        {"failure": {}},
        {"failure": "it broke"},
        {"degraded_reason": "slow"},
        {"environment_mismatch": None},
        {"base_url": 8000},
        {"log_path": None},
    ],
    ids=str,
)
def test_a_wrong_value_is_damage_not_a_later_crash(change: dict[str, Any]) -> None:
    data = {**json.loads(FULL.to_json()), **change}
    with pytest.raises(DamagedFileError):
        ServerRecord.from_json(json.dumps(data), "x")


@pytest.mark.parametrize("name", ["profile_id", "state", "updated_at_s", "run_id"])
def test_what_cannot_be_missing_is_damage_when_it_is(name: str) -> None:
    data = json.loads(FULL.to_json())
    del data[name]
    with pytest.raises(DamagedFileError):
        ServerRecord.from_json(json.dumps(data), "x")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
NAMES = sorted(json.loads(FULL.to_json()))


@given(st.dictionaries(st.sampled_from(NAMES), json_values))
def test_any_json_is_read_or_refused_but_never_crashes(change: dict[str, Any]) -> None:
    data = {**json.loads(FULL.to_json()), **change}
    try:
        record = ServerRecord.from_json(json.dumps(data), "x")
    except DamagedFileError:
        return
    assert ServerRecord.from_json(record.to_json(), "x") == record


WISH = DesiredState(Desired.RUNNING, "q-7", "panel", 12.5)


def test_a_wish_is_read_back_as_it_was() -> None:
    assert DesiredState.from_json(WISH.to_json(), "desired.json") == WISH


@pytest.mark.parametrize(
    "change",
    [
        {"desired": "maybe"},
        {"desired": None},
        {"requested_at_s": "x"},
        {"requested_at_s": math.inf},
    ],
)
def test_a_damaged_wish_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(DamagedFileError):
        DesiredState.from_json(json.dumps({**json.loads(WISH.to_json()), **change}), "x")


def test_a_newer_wish_is_refused_as_newer() -> None:
    data = {**json.loads(WISH.to_json()), "schema_version": 99}
    with pytest.raises(NewerSchemaError):
        DesiredState.from_json(json.dumps(data), "x")


def test_the_files_of_two_profiles_never_meet() -> None:
    layout = StateLayout(Path("/state/local"))
    files = [
        where(profile)
        for profile in ("a", "b")
        for where in (
            layout.desired,
            layout.state,
            layout.log,
            layout.supervisor_log,
            layout.timings,
        )
    ]
    assert len(set(files)) == 10
    assert all(path.is_relative_to("/state/local/servers") for path in files)
