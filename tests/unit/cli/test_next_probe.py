"""An unknown cause: the next start is made to tell more, by the verbs of every other fix."""

from __future__ import annotations

import json
import re
import time

import pytest

from twinrig import assets
from twinrig.cli.main import main
from twinrig.composition.targets import open_workbench
from twinrig.diagnosis.explain import explain_exit
from twinrig.diagnosis.rule_files import load_shipped
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Failure, ServerRecord
from twinrig.hosts.paths import find_paths

TWO = {"tensor_parallel": "2"}


@pytest.fixture
def rig(twinrig_home, capsys):
    environ = {"TWINRIG_HOME": str(twinrig_home), "PATH": "/usr/bin:/bin"}
    paths = find_paths(environ)

    def call(*words: str) -> tuple[int, str]:
        argv = ["--target", "demo", *words]
        code = main(argv, lambda target: open_workbench(target, paths, environ), environ=environ)
        return code, "".join(capsys.readouterr())

    def ended(failure: Failure, state: ServerState = ServerState.FAILED) -> None:
        now_s = time.time()
        record = ServerRecord("rig", "demo", "demo", "run", state, now_s, 999_999, failure=failure)
        path = paths.target_state("demo") / "servers" / "rig" / "state.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(record.to_json())

    assert call("profiles", "new", "Rig")[0] == 0
    call.ended = ended
    return call


def unknown() -> Failure:
    rules = load_shipped(assets.read_text)
    return explain_exit(["RuntimeError: NCCL error: odd"], "exit code 1", rules, TWO)


def test_it_is_offered_applied_and_taken_back(rig) -> None:
    rig.ended(unknown())
    code, told = rig("fix")
    assert code == 1
    assert "env-nccl-debug-info" in told
    assert "NCCL_DEBUG" in told, "the exact difference is shown before anything is changed"
    assert "NCCL_DEBUG" not in rig("profiles", "show", "rig")[1]
    _, told = rig("fix", "env-nccl-debug-info", "--yes", "--json")
    (done,) = json.loads(told)["fixes"]
    assert (done["applied"], done["finding"]) == (True, "unknown-cause")
    assert "NCCL_DEBUG" in rig("profiles", "show", "rig")[1]
    code, told = rig("doctor", "--check", "diagnostic-settings")
    assert code == 1 and "still in force: NCCL_DEBUG" in re.sub(r"\s+", " ", told)
    assert rig("undo", done["entry"], "--yes")[0] == 0
    assert "NCCL_DEBUG" not in rig("profiles", "show", "rig")[1]
    assert rig("doctor", "--check", "diagnostic-settings")[0] == 0


def test_nothing_is_offered_for_a_server_that_did_not_fail(rig) -> None:
    rig.ended(unknown(), ServerState.STOPPED)
    assert "env-nccl-debug-info" not in rig("fix")[1]


def test_all_means_the_findings_of_the_machine_not_experiments(rig) -> None:
    rig.ended(unknown())
    rig("fix", "--all", "--yes")
    assert "NCCL_DEBUG" not in rig("profiles", "show", "rig")[1]
