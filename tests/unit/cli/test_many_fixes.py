"""``fix --safe``, ``fix --finish`` and ``undo --all`` on the demo rig."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from twinrig.cli.main import main
from twinrig.composition.targets import open_workbench
from twinrig.domain.profile import EnvEntry
from twinrig.hosts.paths import find_paths
from twinrig.services.workbench import Workbench


class Rig:
    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._environ = {"TWINRIG_HOME": str(home), "PATH": "/usr/bin:/bin"}
        self._paths = find_paths(self._environ)
        self._capsys = capsys
        self("profiles", "new", "Demo")

    def bench(self, target: str = "demo") -> Workbench:
        return open_workbench(target, self._paths, self._environ)

    def __call__(self, *argv: str) -> tuple[int, str]:
        code = main(["--target", "demo", *argv], self.bench, environ=self._environ)
        return code, "".join(self._capsys.readouterr())

    def json(self, *argv: str) -> tuple[int, dict]:
        code, text = self(*argv, "--json")
        return code, json.loads(text)

    def leave_debugging_on(self) -> None:
        store = self.bench().profiles
        profile = store.load("demo")
        env = {**profile.env, "NCCL_DEBUG": EnvEntry("INFO")}
        store.save(replace(profile, env=env), replaces=profile)

    def env(self) -> set[str]:
        return set(self.bench().profiles.load("demo").env)

    def journal(self) -> Path:
        return next(self._paths.target_state("demo").rglob("journal.jsonl"))


@pytest.fixture
def rig(twinrig_home: Path, capsys: pytest.CaptureFixture[str]) -> Rig:
    return Rig(twinrig_home, capsys)


def test_safe_leaves_what_needs_a_look_alone(rig: Rig) -> None:
    code, data = rig.json("fix", "--safe", "--yes")  # the demo rig's finding needs root
    assert (code, data["fixes"]) == (0, [])
    assert rig("undo")[1].splitlines()[-1] == "No fix has changed anything yet."


def test_safe_shows_asks_and_does_nothing_without_an_answer(rig: Rig) -> None:
    rig.leave_debugging_on()
    code, text = rig("fix", "--safe")
    assert code == 1 and "NCCL_DEBUG" in text and 'Repeat with "--yes"' in text
    assert "NCCL_DEBUG" in rig.env()


def test_safe_applies_proves_and_undo_all_takes_back(rig: Rig) -> None:
    rig.leave_debugging_on()
    code, data = rig.json("fix", "--safe", "--yes")
    assert code == 0
    assert [(f["fix_id"], f["kept"]) for f in data["fixes"]] == [("env-diagnosis-off", True)]
    assert "NCCL_DEBUG" not in rig.env()

    rig("fix", "sysctl-ptrace-0", "--yes")
    code, text = rig("undo", "--all")
    assert code == 1 and "Nothing was changed." in text
    code, data = rig.json("undo", "--all", "--yes")
    assert code == 0 and len(data["undone"]) == 2 and data["kept"] == []
    assert "NCCL_DEBUG" in rig.env()
    assert rig("undo", "--all")[1].splitlines()[-1] == "There is nothing to take back."


def test_undo_all_tells_what_was_changed_meanwhile_and_takes_back_the_rest(rig: Rig) -> None:
    rig.leave_debugging_on()
    rig("fix", "--safe", "--yes")
    rig("fix", "sysctl-ptrace-0", "--yes")
    store = rig.bench().profiles
    profile = store.load("demo")
    env = {**profile.env, "NCCL_DEBUG": EnvEntry("TRACE")}
    store.save(replace(profile, env=env), replaces=profile)
    code, data = rig.json("undo", "--all", "--yes")

    assert code == 1 and len(data["undone"]) == 1 and len(data["kept"]) == 1
    assert "NCCL_DEBUG" in str(data["kept"])


def cut_off(rig: Rig, keep: Callable[[dict], bool]) -> str:
    """The journal as a crash leaves it: without the events that are not kept."""
    lines = [json.loads(line) for line in rig.journal().read_text().splitlines()]
    rig.journal().write_text("".join(json.dumps(e) + "\n" for e in lines if keep(e)))
    return str(lines[0]["id"])


def test_fix_that_was_cut_off_is_told_and_finished(rig: Rig) -> None:
    rig.leave_debugging_on()
    rig("fix", "--safe", "--yes")
    entry = cut_off(rig, lambda event: event["event"] in ("begin", "step"))

    _, text = rig("fix")
    assert "was cut off before it was done" in text and f"--finish {entry}" in text
    assert "not finished" in rig("undo")[1]
    code, data = rig.json("fix", "--finish")
    assert (code, data["finished"], data["proven"]) == (0, entry, True)
    assert "NCCL_DEBUG" not in rig.env()
    assert "cut off" not in rig("fix")[1]


def test_fix_that_was_cut_off_can_be_taken_back_instead(rig: Rig) -> None:
    rig.leave_debugging_on()
    rig("fix", "--safe", "--yes")
    entry = cut_off(rig, lambda event: event["event"] in ("begin", "step"))
    assert rig("undo", entry, "--yes")[0] == 0
    assert "NCCL_DEBUG" in rig.env()
    assert rig("fix", "--finish")[1].splitlines()[-1] == "No fix was cut off."


def test_unknown_entry_cannot_be_finished(rig: Rig) -> None:
    code, text = rig("fix", "--finish", "nonsense")
    assert code == 2 and "There is no change nonsense" in text
