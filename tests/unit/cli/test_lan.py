"""``fix lan-open`` and ``lan-close``: previewed, allowed by Windows, asked from outside."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.memory_host import host_error
from fixtures.windows_side import RecordingElevation
from twinrig import assets
from twinrig.cli.main import main
from twinrig.composition.targets import open_workbench
from twinrig.domain.elevation import ElevationCancelledError
from twinrig.domain.ports import HttpResponse
from twinrig.domain.profile import Network
from twinrig.fixes.registry import load_fixes
from twinrig.hosts.paths import find_paths
from twinrig.messages import message
from twinrig.services.fixer import Fixer
from twinrig.services.workbench import Workbench

Run = Callable[..., tuple[int, str]]


class Outside:
    """HTTP as another device would ask; ``status`` None: nobody answers."""

    def __init__(self) -> None:
        self.status: int | None = 401

    async def get(self, url: str, *, timeout_s: float, token: str | None = None) -> HttpResponse:
        assert token is None
        if self.status is None:
            raise host_error("nobody answers")
        return HttpResponse(self.status, b"")

    async def close(self) -> None:
        return


@pytest.fixture
def elevation() -> RecordingElevation:
    return RecordingElevation()


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def run(
    twinrig_home: Path,
    capsys: pytest.CaptureFixture[str],
    elevation: RecordingElevation,
    outside: Outside,
) -> Run:
    """The command line over a demo machine whose Windows can be changed."""
    environ = {"TWINRIG_HOME": str(twinrig_home), "PATH": "/usr/bin:/bin"}
    paths = find_paths(environ)

    def opened(target: str) -> Workbench:
        bench = open_workbench(target, paths, environ)
        fixer = Fixer(
            bench.host,
            bench.profiles,
            bench.journal,
            bench.preflight,
            load_fixes(assets.read_text("advice/fixes.yaml")),
            bench.clock,
            "demo",
            elevation=elevation,
        )
        return replace(bench, fixer=fixer, http=outside)  # type: ignore[arg-type]

    bench = opened("demo")
    draft = bench.profiles.draft(
        "vllm", name="Big", target="demo", model_path="/models/big", gpu_count=2, on_wsl=True
    )
    bench.profiles.save(replace(draft, network=Network(port=8123, key_name="lan")))

    def call(*argv: str) -> tuple[int, str]:
        code = main(["--target", "demo", *argv], opened, environ=environ)
        return code, "".join(capsys.readouterr())

    return call


def test_nothing_is_done_unasked(run: Run, elevation: RecordingElevation) -> None:
    code, text = run("fix", "lan-open")

    assert code == 1
    assert "netsh interface portproxy add v4tov4" in text and "as administrator" in text
    assert "/metrics" in text and "unencrypted" in text
    assert "for this computer only" in text
    assert elevation.asked == 0


def test_opened_asked_from_outside_and_taken_back(run: Run, elevation: RecordingElevation) -> None:
    code, text = run("fix", "lan-open", "--yes", "--json")
    data = json.loads(text)

    assert code == 0
    assert data["lan"]["urls"] == ["http://192.168.1.20:8123/v1"]
    assert data["lan"]["answer"] == "guarded"
    assert [action.task.value for action in elevation.actions] == ["open-nat"]
    assert run("undo", data["fixes"][0]["entry"], "--yes")[0] == 0
    assert [action.task.value for action in elevation.actions] == ["open-nat", "close-nat"]
    assert "for this computer only" in run("fix", "lan-close")[1]


def test_closing_is_a_change_like_any_other(run: Run, elevation: RecordingElevation) -> None:
    run("fix", "lan-open", "--yes")
    code, text = run("fix", "lan-close", "--yes")

    assert code == 0 and "for this computer only" in text
    assert [action.task.value for action in elevation.actions] == ["open-nat", "close-nat"]


@pytest.mark.parametrize(("status", "words"), [(200, "WITHOUT the key"), (None, "Nothing answers")])
def test_what_other_devices_find_is_told_as_it_is(
    run: Run, outside: Outside, status: int | None, words: str
) -> None:
    outside.status = status
    assert words in run("fix", "lan-open", "--yes")[1]


def test_no_at_windows_question_leaves_the_profile_as_it_was(
    run: Run, elevation: RecordingElevation
) -> None:
    elevation.error = ElevationCancelledError(message("You did not allow it."))
    code, text = run("fix", "lan-open", "--yes")

    assert code == 1
    assert "You did not allow it" in text and "for this computer only" in text


def test_without_a_key_it_is_refused(run: Run, elevation: RecordingElevation) -> None:
    run("profiles", "key", "big", "--clear")
    code, text = run("fix", "lan-open", "--yes")

    assert code == 2 and "has no key" in text
    assert elevation.asked == 0


def told(elevation: RecordingElevation) -> list[tuple[str, str]]:
    return [(a.task.value, dict(a.params)["port"]) for a in elevation.actions]


def move(run: Run, port: int) -> None:
    assert run("profiles", "edit", "big", "set", f"network.port={port}")[0] == 0


def test_another_port_leaves_nothing_of_the_earlier_one(
    run: Run, elevation: RecordingElevation
) -> None:
    run("fix", "lan-open", "--yes")
    move(run, 8124)
    data = json.loads(run("fix", "lan-open", "--yes", "--json")[1])

    assert told(elevation) == [
        *(("open-nat", "8123"), ("close-nat", "8123"), ("open-nat", "8124"))
    ], "the one that closes takes the rule along, so it comes first"
    entry = data["fixes"][0]["entry"]
    elevation.actions.clear()
    assert run("undo", entry, "--yes")[0] == 0
    assert told(elevation) == [("close-nat", "8124"), ("close-nat", "8123")]


def test_an_end_closes_the_earlier_ports_too(run: Run, elevation: RecordingElevation) -> None:
    run("fix", "lan-open", "--yes")
    move(run, 8124)
    elevation.actions.clear()
    assert run("fix", "lan-close", "--yes")[0] == 0
    assert told(elevation) == [("close-nat", "8124"), ("close-nat", "8123")]
    run("fix", "lan-open", "--yes")
    assert told(elevation)[2:] == [("open-nat", "8124")], "what is closed is not closed again"


def test_the_port_of_another_profile_stays_open(run: Run, elevation: RecordingElevation) -> None:
    run("fix", "lan-open", "--yes")
    move(run, 8124)
    run("profiles", "copy", "big", "Other")
    run("profiles", "edit", "other", "set", "network.port=8123", "network.host=127.0.0.1")
    assert run("fix", "lan-open", "--profile", "other", "--yes")[0] == 0
    elevation.actions.clear()
    assert run("fix", "lan-close", "--profile", "big", "--yes")[0] == 0
    assert told(elevation) == [("close-nat", "8124")]
