"""``twinrig diagnose`` as other programs and people call it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from fixtures.rule_samples import SHIPPED
from twinrig.cli.diagnose import fix_titles
from twinrig.cli.main import main
from twinrig.composition.targets import open_workbench
from twinrig.diagnosis.next_probe import ALONE, BLOCKING, TALKING
from twinrig.hosts.paths import find_paths
from twinrig.services.workbench import Workbench

PORT = "OSError: [Errno 98] Address already in use"
READY = "INFO:     Application startup complete."


def no_bench(target: str) -> Workbench:
    raise AssertionError("a file needs no target")


def run(*words: str) -> int:
    return main(["diagnose", *words], no_bench, environ={})


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "x.log"


@pytest.mark.parametrize(
    ("text", "code", "kind"),
    [
        (PORT, 1, "failure"),
        (READY, 0, "healthy"),
        ("", 0, "healthy"),
        (f"{READY}\nKeyError: 'odd'", 3, "unknown"),
    ],
)
def test_exit_code_and_kind(
    log: Path, capsys: pytest.CaptureFixture[str], text: str, code: int, kind: str
) -> None:
    log.write_text(text)
    assert run(str(log), "--json") == code
    assert json.loads(capsys.readouterr().out)["kind"] == kind


def test_the_document(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    speed = (
        "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 21.5 tokens/s,"
        " Running: 1 reqs, Waiting: 0 reqs"
    )
    log.write_text("\n".join([READY, speed, PORT]))
    run(str(log), "--json")
    data = json.loads(capsys.readouterr().out)
    (finding,) = data["findings"]
    assert finding["id"] == "port-in-use" and finding["confidence"] == "high"
    assert finding["fixes"] == ["stop-old-server", "cfg-change-port"] and finding["line_no"] == 3
    assert data["root_cause"] == {"line_no": 3, "line": PORT}
    assert data["server_ready"] is False and data["tokens_per_second"] == [21.5]


def test_context_reaches_the_rules(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text("RuntimeError: NCCL error: unhandled cuda error")
    assert run(str(log)) == 1
    assert run(str(log), "--context", "NCCL_CUMEM_ENABLE=0") == 3
    assert run(str(log), "--context", "a=b", "--context", "stop_requested=true") == 0
    capsys.readouterr()
    assert run(str(log), "--context", "novalue") == 2
    assert "novalue" in capsys.readouterr().err


def test_text_for_people(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text("x\n" + PORT)
    run(str(log))
    told = capsys.readouterr().out
    for words in (
        "Another program uses the port",
        "port-in-use",
        f"2: {PORT}",
        "Line 2 of the log",
    ):
        assert words in told
    log.write_text(READY)
    run(str(log))
    assert "No fault was found" in capsys.readouterr().out
    log.write_text("KeyError: 'odd'")
    run(str(log))
    told = capsys.readouterr().out
    assert "not known" in told and "1: KeyError: 'odd'" in told


def test_text_names_what_can_be_done_and_how_to_ask_for_it(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_text(PORT)
    run(str(log))
    told = capsys.readouterr().out
    assert "What can be done:" in told
    assert "- Use another port  [cfg-change-port]" in told
    assert "For one start" not in told


def test_an_unknown_cause_tells_what_makes_the_next_log_tell_more(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_text("RuntimeError: CUDA error: odd thing in kernels.cu:7")
    words = ("--context", "tensor_parallel=2")
    assert run(str(log), *words) == 3
    told = capsys.readouterr().out
    assert "- Run CUDA step by step, for one diagnostic start" in told
    assert "[env-nccl-debug-info]" in told
    assert run(str(log), "--json", *words, "--context", "NCCL_DEBUG=INFO") == 3
    document = json.loads(capsys.readouterr().out)
    assert document["next_probes"] == ["env-cuda-launch-blocking", "cfg-tp-1"]


def test_every_fix_that_a_rule_or_probe_names_has_a_title() -> None:
    titles = fix_titles()
    named = {fix for kind in SHIPPED.kinds for fix in kind.fixes} | {BLOCKING, TALKING, ALONE}
    assert {fix for fix in named if not titles.get(fix)} == set()
    assert all(title != fix_id for fix_id, title in titles.items())


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Input:
        buffer = io.BytesIO(PORT.encode("utf-16"))

    monkeypatch.setattr(sys, "stdin", Input())
    assert run("-", "--json") == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["id"] == "port-in-use"


def test_a_file_that_cannot_be_read(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(log)) == 3
    assert "cannot be read" in capsys.readouterr().err
    assert run(str(log.parent)) == 3


def test_report_is_shown_or_written(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text(f"Your API key is: deadbeefdeadbeef\n{PORT}\n/home/taro/x")
    assert run(str(log), "--report") == 1
    shown = capsys.readouterr().out
    assert "port-in-use" in shown and "deadbeef" not in shown and "taro" not in shown
    target = log.with_name("report.txt")
    assert run(str(log), "--report", str(target)) == 1
    assert "port-in-use" in target.read_text() and "taro" not in target.read_text()


def test_a_report_is_one_json_document_too(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text(PORT)
    assert run(str(log), "--report", "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["kind"] == "failure" and "port-in-use" in shown["report"] and not shown["file"]
    target = log.with_name("report.txt")
    assert run(str(log), "--report", str(target), "--json") == 1
    assert json.loads(capsys.readouterr().out)["file"] == str(target)


def test_a_report_that_cannot_be_written(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text(PORT)
    assert run(str(log), "--report", str(log / "below" / "x")) == 3
    told = capsys.readouterr().err
    assert "cannot be written" in told and "Next: Choose another file name." in told


@pytest.mark.parametrize("named", [True, False])
def test_the_log_of_the_own_server(
    twinrig_home: Path, capsys: pytest.CaptureFixture[str], named: bool
) -> None:
    environ = {"TWINRIG_HOME": str(twinrig_home), "PATH": "/usr/bin:/bin"}
    paths = find_paths(environ)

    def call(*words: str) -> tuple[int, str]:
        code = main(
            ["--target", "demo", *words],
            lambda target: open_workbench(target, paths, environ),
            environ=environ,
        )
        return code, "".join(capsys.readouterr())

    words = ("diagnose", "--profile", "rig") if named else ("diagnose",)
    call("profiles", "new", "Rig")
    code, told = call(*words)
    assert code == 2 and "has not written a log yet" in told
    log = open_workbench("demo", paths, environ).layout.log("rig")
    log.parent.mkdir(parents=True)
    log.write_text(f"{PORT}\n/home/taro/x")
    code, told = call(*words)
    assert code == 1 and "port-in-use" in told
    code, told = call(*words, "--report")
    assert code == 1 and "## Settings" in told and 'id: "rig"' in told and "taro" not in told
    assert "## Checks" in told and ": gpu-visible" in told
