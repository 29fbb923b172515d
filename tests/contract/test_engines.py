"""What every engine owes: one suite for the replaying tabbyAPI and for a real vLLM.

tabbyAPI's stand-in has the log forms of three versions; those are reconstructions from its source.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contract.engine_rigs import (
    KEY,
    EngineRig,
    FormerTabbyRig,
    NewTabbyRig,
    OldTabbyRig,
    VllmRig,
)

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.timeout(900),
]
REAL = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("TWINRIG_REAL_VLLM"), reason="TWINRIG_REAL_VLLM names no environment"
    ),
]


@pytest.fixture(
    params=[
        pytest.param(OldTabbyRig, id="tabby-2024-03"),
        pytest.param(FormerTabbyRig, id="tabby-2024-08"),
        pytest.param(NewTabbyRig, id="tabby-2026-08"),
        pytest.param(VllmRig, id="vllm", marks=REAL),
    ]
)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineRig]:
    made = request.param(tmp_path)
    yield made
    made.close()


def wait_for(what: Callable[[], bool], limit_s: float = 300.0) -> None:
    deadline = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow  # an engine that lives and serves nobody is watched for a minute
def test_from_start_to_stop(rig: EngineRig) -> None:
    rig.write_profile()
    rig.store_key()
    started = rig.twinrig("start", "main")
    assert started.returncode == 0, started.stdout + started.stderr
    record = rig.record()
    phases = [phase["phase"] for phase in record["phases"]]
    assert phases[-3:] == ["listen", "probe", "serve"]
    assert "weights" in phases and record["environment_mismatch"] == []

    assert rig.complete("")[0] == 401
    assert rig.complete("wrong")[0] == 401
    before = rig.metrics()
    status, tokens = rig.complete(KEY)
    assert (status, tokens > 0) == (200, True)
    told = before.generation_tokens or 0

    def counted() -> bool:
        now = rig.metrics().generation_tokens
        return now is not None and now >= told + tokens

    wait_for(counted, 60)
    assert KEY not in rig.log

    rig.make_ill()
    wait_for(lambda: rig.record()["restarts"] == 1 and rig.record()["state"] == "ready")
    assert rig.complete(KEY)[0] == 200

    stopped = rig.twinrig("stop", "main")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    wait_for(lambda: rig.processes() == {}, 30)
    assert rig.record()["state"] == "stopped"


def test_a_taken_port_is_told_before_anything_loads(rig: EngineRig) -> None:
    rig.write_profile()
    with socket.create_server(("127.0.0.1", rig.port)):
        failed = rig.twinrig("start", "main")
    assert failed.returncode == 1
    failure = rig.record()["failure"]
    assert failure["finding_id"] == "port-in-use" and failure["next_step"]
    assert str(rig.port) in failed.stdout + failed.stderr


def test_a_model_that_is_not_there_is_the_cause_that_is_named(rig: EngineRig) -> None:
    rig.write_profile(missing_model=True)
    failed = rig.twinrig("start", "main")
    assert failed.returncode == 1
    failure = rig.record()["failure"]
    assert failure["finding_id"] == "model-path-missing" and failure["next_step"]
