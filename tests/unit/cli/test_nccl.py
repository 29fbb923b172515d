"""``doctor --collective`` and ``fix nccl`` on the demo rig, whose two cards talk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from twinrig.cli.main import main
from twinrig.composition.targets import open_workbench
from twinrig.hosts.paths import find_paths

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(twinrig_home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    environ = {"TWINRIG_HOME": str(twinrig_home), "PATH": "/usr/bin:/bin"}
    paths = find_paths(environ)

    def call(*argv: str) -> tuple[int, str]:
        code = main(
            ["--target", "demo", *argv],
            lambda wanted: open_workbench(wanted, paths, environ),
            environ=environ,
        )
        return code, "".join(capsys.readouterr())

    return call


def test_collective_is_part_of_doctor_only_when_asked_for(run: Run) -> None:
    run("profiles", "new", "Demo")
    ids = [r["check_id"] for r in json.loads(run("doctor", "--json")[1])["results"]]
    assert "collective" not in ids
    data = json.loads(run("doctor", "--collective", "--json")[1])

    (result,) = [r for r in data["results"] if r["check_id"] == "collective"]
    assert result["status"] == "pass"
    assert len(data["results"]) == len(ids) + 1, "the demo engine has no compiled part"
    run("profiles", "new", "Real", "--engine", "vllm")
    results = json.loads(run("doctor", "--collective", "--profile", "real", "--json")[1])["results"]
    assert {"collective", "native-import"} <= {r["check_id"] for r in results}
    asked = ("doctor", "--collective", "--check", "port-free", "--profile", "real", "--json")
    some = json.loads(run(*asked)[1])["results"]
    assert "native-import" not in {r["check_id"] for r in some}
    figures = data["collective"]
    assert figures["passed"] and figures["transports"] == ["SHM/direct/direct"]
    assert {step["status"] for step in figures["steps"]} == {"ok"}
    assert 9000 < figures["bus_mbps"] < 10000
    assert [pair["reported"] for pair in figures["peers"]] == [False, False]


def test_one_check_alone_with_a_given_python(run: Run) -> None:
    code, text = run("doctor", "--check", "collective", "--python", "/x/bin/python")
    assert code == 0 and "All values right" in text


def test_third_rank_has_no_card(run: Run) -> None:
    code, text = run(
        "doctor", "--check", "collective", "--python", "/x/python", "--devices", "0,1,2"
    )
    assert code == 1 and "more ranks than cards" in text


def test_experiment_changes_nothing_where_nothing_is_needed(run: Run) -> None:
    code, text = run("fix", "nccl", "--engine", "vllm", "--python", "/x/python", "--json")
    data = json.loads(text)

    assert code == 0
    assert [trial["id"] for trial in data["trials"]] == ["empty"]
    assert not data["needed"] and data["chosen"] is None and not data["applied"]
    assert json.loads(run("undo", "--json")[1])["entries"] == []


def test_every_candidate_on_request(run: Run) -> None:
    code, text = run("fix", "nccl", "--all", "--engine", "tabbyapi", "--python", "/x/python")
    assert code == 0
    assert [line.split()[1].rstrip(":") for line in text.splitlines() if "/5  " in line] == [
        "empty",
        "E1",
        "E2",
        "E3",
        "E4",
    ]
    assert text.count("passed") == 5


@pytest.mark.parametrize(
    "argv",
    [
        ("fix", "nccl", "--python", "/x/python"),
        ("fix", "nccl", "--engine", "nonsense", "--python", "/x/python"),
        ("fix", "nccl", "--engine", "vllm", "--python", "relative/python"),
        ("fix", "nccl", "--engine", "vllm", "--python", "/p", "--env", "NO_SIGN"),
        ("doctor", "--collective", "--devices", "0;1"),
        ("doctor", "--collective", "--env", "1A=b"),
    ],
)
def test_wrong_usage(run: Run, argv: tuple[str, ...]) -> None:
    assert run(*argv)[0] == 2


def test_without_any_python_it_could_not_be_told(run: Run) -> None:
    assert run("fix", "nccl", "--engine", "vllm")[0] == 3
