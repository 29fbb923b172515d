"""``twinrig bench`` and ``twinrig chat`` as typed, against a server whose speed a test decides."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.bench_rig import BenchRig
from fixtures.reply_server import cut_after, events, reply_server
from twinrig.cli.main import main
from twinrig.services.fixer import Fixer

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[BenchRig]:
    with reply_server() as server:
        made = BenchRig(server, tmp_path)
        made.bench.target = "local"
        made.bench.label = "This computer"
        yield made


@pytest.fixture
def run(rig: BenchRig, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*argv: str) -> tuple[int, str]:
        code = main(["--target", "local", *argv], lambda _: rig.bench, environ={})
        told = capsys.readouterr()
        return code, told.out + told.err

    return call


def as_json(run: Run, *argv: str, code: int = 0) -> Any:
    got, text = run(*argv, "--json")
    assert got == code, text
    return json.loads(text)


def test_a_comparison_names_the_better_and_keeps_the_results(rig: BenchRig, run: Run) -> None:
    rig.add("quick", 1200.0)
    rig.add("slow", 400.0, share=0.5)
    code, text = run("bench", "--compare", "slow", "quick", "--users", "1", "--rounds", "1")
    assert code == 0, text
    assert "quick, if you use the server alone: it is the fastest." in text
    assert "one stream, short prompt, sampled" in text
    kept = as_json(run, "bench", "--list")["results"]
    assert [r["profile_id"] for r in kept] == ["slow", "quick"]


def test_one_profile_beside_its_last_measurement(rig: BenchRig, run: Run, tmp_path: Path) -> None:
    rig.add("one", 800.0)
    run("bench", "one", "--users", "1", "--rounds", "1")
    file = tmp_path / "out.csv"
    code, text = run("bench", "--users", "1", "--rounds", "1", "--csv", str(file))
    assert code == 0
    assert "Beside the last measurement:" in text and "The settings are the same." in text
    assert file.read_text().startswith("time_utc,profile,")


@pytest.mark.parametrize("place", ["folder", "file/out.csv"])
def test_a_file_that_cannot_be_written_is_told_before_measuring(
    rig: BenchRig, run: Run, tmp_path: Path, place: str
) -> None:
    rig.add("one", 800.0)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    code, text = run("bench", "one", "--users", "1", "--csv", str(tmp_path / place))
    assert code == 3
    assert "cannot be written" in text and "Next:" in text
    assert rig.server.asked == [], "nothing was measured for it"
    assert rig.controller.calls == []
    assert (tmp_path / "file").read_text() == "mine"


def test_what_is_in_the_file_stays_until_there_is_something_better(
    rig: BenchRig, run: Run, tmp_path: Path
) -> None:
    rig.add("one", 800.0)
    rig.controller.broken.add("one")
    file = tmp_path / "out.csv"
    file.write_text("earlier")
    assert run("bench", "one", "--users", "1", "--csv", str(file))[0] != 0
    assert file.read_text() == "earlier"


def test_json_of_one_profile(rig: BenchRig, run: Run) -> None:
    rig.add("one", 800.0)
    data = as_json(run, "bench", "one", "--users", "1", "--rounds", "2")
    assert data["measured"] and data["stored"]
    assert data["results"][0]["loads"][0]["figures"]["generation_tps"]["count"] == 2
    assert [a["use"] for a in data["advice"]] == ["alone"]


def test_a_server_in_use_is_asked_about_first(rig: BenchRig, run: Run) -> None:
    rig.add("one", 800.0)
    rig.controller.running, rig.running_requests = "one", 3
    rig.started_s += 60
    code, text = run("bench", "one", "--users", "1")
    assert code == 1
    assert "answering 3 requests" in text and '--yes" to agree' in text
    assert rig.server.asked == []
    assert as_json(run, "bench", "one", code=1)["measured"] is False


def test_loops_are_findings(rig: BenchRig, run: Run) -> None:
    rig.add("one", 2000.0)
    rig.loops.add("one")
    code, text = run("bench", "one", "--users", "1", "--rounds", "1")
    assert code == 1 and "loops: 1" in text


@pytest.mark.parametrize(
    "words",
    [
        ("bench", "--users", "0"),
        ("bench", "--compare", "one"),
        ("bench", "nobody"),
        ("bench", "--rounds", "0"),
        ("chat", "hello"),
        ("chat", "  "),
    ],
)
def test_wrong_usage(rig: BenchRig, run: Run, words: tuple[str, ...]) -> None:
    rig.add("one", 800.0)
    assert run(*words)[0] == 2
    assert rig.server.asked == []


def test_a_damaged_list_is_not_told_as_empty(rig: BenchRig, run: Run, tmp_path: Path) -> None:
    (tmp_path / "benchmarks.json").write_text("{")
    code, text = run("bench", "--list")
    assert code == 3 and "damaged" in text


def test_chat_prints_the_reply_and_its_figures(rig: BenchRig, run: Run) -> None:
    rig.add("one", 800.0)
    rig.controller.running = "one"
    rig.server.script = events(["<think>Hm</think>", "Two", " cards\x1b[2J"])
    code, text = run("chat", "What?", "--system", "Be brief.", "--max-tokens", "5")
    assert code == 0
    assert "Two cards[2J" in text and "\x1b" not in text
    assert "3 tokens" in text
    asked = rig.server.asked[0]
    assert [m["role"] for m in asked["messages"]] == ["system", "user"]
    assert asked["max_tokens"] == 5
    data = as_json(run, "chat", "What?")
    assert (data["reply"], data["thoughts"]) == ("Two cards\x1b[2J", "Hm")


def test_a_chat_that_is_cut_says_so(rig: BenchRig, run: Run) -> None:
    rig.add("one", 800.0)
    rig.controller.running = "one"
    rig.server.script = cut_after(["Once"])
    code, text = run("chat", "What?")
    assert code == 1 and "cut off" in text


def test_the_best_settings_are_applied_on_request(
    rig: BenchRig, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.make_virtual()
    rig.add("quick", 1500.0, share=0.7)
    rig.add("slow", 500.0, share=0.5)
    applied = []

    class Recorded(Fixer):
        def __init__(self) -> None: ...

        async def preview(self, plan):
            from twinrig.services.fix_steps import FixPreview

            return FixPreview(plan, ())

        async def apply(self, finding, plan, profile):
            from twinrig.services.fixer import FixOutcome

            applied.append((finding.id, plan.steps[0], profile.id))
            return FixOutcome("e1", True, False, (), plan.title)

    rig.bench.fixer = Recorded()
    words = ("bench", "--compare", "slow", "quick", "--users", "1", "--rounds", "1")
    data = as_json(run, *words, "--apply", "alone", "--yes")
    assert data["change"]["applied"] and data["change"]["entry"] == "e1"
    assert [r["profile_id"] for r in data["results"]] == ["slow", "quick"]
    ((finding, step, profile_id),) = applied
    assert (finding, profile_id, step.settings) == ("benchmark-choice", "slow", {"share": 0.7})
