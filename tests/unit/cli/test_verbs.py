"""Verbs that start no server, run on the demo rig as the command line runs them."""

from __future__ import annotations

import io
import json
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.pictures import picture
from twinrig.cli.main import main
from twinrig.composition.targets import open_workbench
from twinrig.domain.errors import HostError, UsageError
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Failure, ServerRecord
from twinrig.hosts.paths import find_paths
from twinrig.messages import message
from twinrig.services.recording import encode

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(twinrig_home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    environ = {"TWINRIG_HOME": str(twinrig_home), "PATH": "/usr/bin:/bin"}
    paths = find_paths(environ)

    def call(*argv: str, target: str = "demo") -> tuple[int, str]:
        code = main(
            ["--target", target, *argv],
            lambda wanted: open_workbench(wanted, paths, environ),
            environ=environ,
        )
        return code, "".join(capsys.readouterr())

    return call


def as_json(run: Run, *argv: str) -> tuple[int, dict]:
    code, text = run(*argv, "--json")
    return code, json.loads(text)


def test_doctor_without_a_profile(run: Run) -> None:
    code, text = run("doctor")
    assert code == 0
    assert text.startswith("Demo rig: simulated cards")
    assert "NVIDIA cards are visible" in text
    assert "\x1b[" not in text


def test_doctor_finds_the_problem_with_a_profile(run: Run) -> None:
    run("profiles", "new", "Demo")
    code, data = as_json(run, "doctor")
    assert (code, data["demo"], data["profile"]) == (1, True, "demo")
    failed = [r for r in data["results"] if r["status"] == "fail"]
    assert [r["check_id"] for r in failed] == ["ptrace-scope"]
    assert "sysctl-ptrace-0" in failed[0]["finding"]["fixes"]


def test_doctor_can_run_one_check(run: Run) -> None:
    code, data = as_json(run, "doctor", "--check", "gpu-visible")
    assert (code, [r["check_id"] for r in data["results"]]) == (0, ["gpu-visible"])
    code, data = as_json(run, "doctor", "--check", "no-such-check")
    assert code == 2
    assert "gpu-visible" in data["error"]["next_step"]


def test_fix_previews_and_changes_nothing_without_a_yes(run: Run) -> None:
    run("profiles", "new", "Demo")
    code, text = run("fix", "sysctl-ptrace-0")
    assert code == 1
    assert "kernel.yama.ptrace_scope = 0" in text
    assert "Nothing was changed." in text
    assert run("undo")[1].splitlines()[-1] == "No fix has changed anything yet."


def test_fix_proves_and_undo_takes_back(run: Run) -> None:
    run("profiles", "new", "Demo")
    code, data = as_json(run, "fix", "--all", "--yes")
    assert code == 0
    (done,) = data["fixes"]
    assert (done["applied"], done["proven"]) == (True, True)
    assert run("doctor")[0] == 0
    code, data = as_json(run, "undo")
    assert [(e["id"], e["undone_at_s"]) for e in data["entries"]] == [(done["entry"], None)]
    assert run("undo", done["entry"])[0] == 0
    assert run("doctor")[0] == 1
    assert run("undo", done["entry"])[0] == 2
    assert run("undo", "nonsense")[0] == 2


def test_fix_by_finding_and_unknown_ids(run: Run) -> None:
    assert run("fix", "--all")[1].splitlines()[-1] == "There is nothing to fix."
    run("profiles", "new", "Demo")
    code, data = as_json(run, "fix")
    assert code == 1
    ids = [f["fix_id"] for f in data["fixes"]]
    assert "sysctl-ptrace-0" in ids
    code, data = as_json(run, "fix", "made-up")
    assert code == 2
    assert "sysctl-ptrace-0" in data["error"]["next_step"]


def test_profiles_life(run: Run, tmp_path: Path) -> None:
    assert "no profiles yet" in run("profiles")[1]
    code, made = as_json(run, "profiles", "new", "My first", "--set", "context_length=8192")
    assert (code, made["id"], made["settings"]["context_length"]) == (0, "my-first", 8192)
    code, edited = as_json(run, "profiles", "edit", "my-first", "set", "max_num_seqs=2", "env.A=1")
    assert (edited["settings"]["max_num_seqs"], edited["env"]["A"]["value"]) == (2, "1")
    assert run("profiles", "restore", "my-first")[0] == 0
    assert as_json(run, "profiles", "show", "my-first")[1] == made
    out = tmp_path / "shared.yaml"
    assert run("profiles", "export", "my-first", str(out))[0] == 0
    assert run("profiles", "export", "my-first", str(out))[0] == 1
    assert run("profiles", "import", str(out))[0] == 1
    assert run("profiles", "import", str(out), "--as", "second")[0] == 0
    assert run("profiles", "delete", "second")[0] == 0
    assert run("profiles", "restore", "second")[0] == 0
    code, listing = as_json(run, "profiles", "list")
    assert (code, [p["id"] for p in listing["profiles"]]) == (0, ["my-first", "second"])
    assert run("profiles", "show", "none")[0] == 2


def test_bad_edits_are_all_told_and_change_nothing(run: Run, twinrig_home: Path) -> None:
    run("profiles", "new", "P")
    before = (twinrig_home / "config/profiles/p.yaml").read_bytes()
    code, data = as_json(run, "profiles", "edit", "p", "set", "context_length=x", "nonsense=1")
    assert code == 2
    assert [f["path"] for f in data["error"]["fields"]] == [
        "settings.context_length",
        "settings.nonsense",
    ]
    code, text = run("profiles", "edit", "p", "set", "env.HF_TOKEN=abc")
    assert code == 2
    assert "profiles key" in text
    assert (twinrig_home / "config/profiles/p.yaml").read_bytes() == before


def test_broken_files_are_listed_with_their_faults(run: Run, twinrig_home: Path) -> None:
    run("profiles", "new", "P")
    good = (twinrig_home / "config/profiles/p.yaml").read_text()
    (twinrig_home / "config/profiles/bad.yaml").write_text(good.replace("0.88", "no"))
    (twinrig_home / "config/profiles/worse.yaml").write_bytes(b"\xff\x00")
    code, text = run("profiles")
    assert code == 1
    assert "gpu_memory_utilization" in text
    assert "worse.yaml" in text
    assert text.splitlines()[1].startswith("p  ")
    assert run("profiles", "edit", "bad", "set", "gpu_memory_utilization=0.8")[0] == 0
    assert run("profiles", "show", "bad")[0] == 0


def test_an_edit_never_drops_what_could_not_be_read(run: Run, twinrig_home: Path) -> None:
    run("profiles", "new", "P")
    path = twinrig_home / "config/profiles/p.yaml"
    text = re.sub(r"port: \d+", 'port: "many"', path.read_text()) + 'colour: "red"\n'
    path.write_text(text)
    code, data = as_json(run, "profiles", "edit", "p", "set", "network.port=18081")
    assert (code, [f["path"] for f in data["error"]["fields"]]) == (2, ["colour"])
    assert path.read_text() == text
    path.write_text(text.replace('colour: "red"\n', ""))
    assert run("profiles", "edit", "p", "set", "max_num_seqs=2")[0] == 2
    assert run("profiles", "edit", "p", "set", "network.port=18081")[0] == 0


def test_paths_are_those_of_this_terminal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("profiles", "new", "P", "--model", "models/tiny", "--environment", "env", target="local")
    made = json.loads(run("profiles", "show", "p", "--json", target="local")[1])
    assert made["model"]["path"] == str(tmp_path / "models/tiny")
    assert made["engine"]["environment"] == str(tmp_path / "env")
    run("profiles", "new", "Q", "--model", "~/models/x")
    assert as_json(run, "profiles", "show", "q")[1]["model"]["path"] == "/home/demo/models/x"


def test_a_taken_port_is_told_and_left_to_its_owner(run: Run) -> None:
    with socket.socket() as owner:
        owner.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            owner.bind(("127.0.0.1", 18080))
            owner.listen()
        except OSError:
            pass  # somebody else has it: just as good
        text = run("profiles", "new", "P")[1]
    port = as_json(run, "profiles", "show", "p")[1]["network"]["port"]
    assert 18080 < port < 18130
    assert f"Port 18080 is in use; the new profile uses {port}." in text


def test_up_prints_no_json(run: Run) -> None:
    code, data = as_json(run, "up")
    assert code == 2
    assert "doctor" in data["error"]["next_step"]


def test_status_and_stop_of_nothing(run: Run) -> None:
    assert run("status")[0] == 0
    code, text = run("stop")
    assert code == 2
    assert "profiles new" in text
    run("profiles", "new", "P")
    assert "was not running" in run("stop")[1]
    code, data = as_json(run, "status", "p")
    assert (code, data["status"]["record"], data["status"]["supervisor_alive"]) == (0, None, False)


def test_several_profiles_must_be_named(run: Run) -> None:
    run("profiles", "new", "A")
    run("profiles", "new", "B")
    code, data = as_json(run, "start")
    assert code == 2
    assert data["error"]["next_step"] == "Profiles: a, b"


def test_watch_writes_lines_and_a_record(run: Run, tmp_path: Path) -> None:
    sink = tmp_path / "record.jsonl"
    code, text = run("watch", "--seconds", "0", "--record", str(sink))
    assert code == 0
    assert "[Demo rig]" in text
    assert "No server" in text
    head, line = sink.read_text().splitlines()
    assert json.loads(head) == {"twinrig_recording": 1}
    assert json.loads(line)["demo"] is True
    code, text = run("watch", "--once", "--json")
    told = json.loads(text)
    assert len(told["samples"]) == 2 and told["verdict"]["id"] == "stopped"
    assert run("watch", "--record", "/nowhere/x")[0] == 2


def test_watch_replays_a_recording(run: Run, tmp_path: Path) -> None:
    sink = tmp_path / "record.jsonl"
    with sink.open("w") as out:
        out.write('{"twinrig_recording": 1}\n')
        for loads, moment in (((67, 70), 0), ((66, 71), 0.01), ((20, 90), 0.02)):
            out.write(encode(picture(loads, at_s=1.8e9 + moment)) + "\n")
    code, text = run("watch", "--replay", str(sink))
    assert code == 0 and "0: 67 %" in text and "1: 90 %" in text
    assert "the cards are being watched" in text
    code, text = run("watch", "--replay", str(sink), "--json")
    assert [
        json.loads(line)["samples"][0]["utilisation_percent"] for line in text.splitlines()
    ] == [
        67,
        66,
        20,
    ]
    assert run("watch", "--replay", str(tmp_path / "none"))[0] == 2
    sink.write_text("no recording")
    assert "is not a recording" in run("watch", "--replay", str(sink))[1]


def test_key_needs_a_place_that_lasts(
    run: Run, twinrig_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    run("profiles", "new", "P")
    monkeypatch.setattr("sys.stdin", io.StringIO("my-secret-key\n"))
    code, text = run("profiles", "key", "p")
    assert code == 3
    assert "--in-file" in text
    assert as_json(run, "profiles", "show", "p")[1]["network"]["key_name"] == ""
    monkeypatch.setattr("sys.stdin", io.StringIO("my-secret-key\n"))
    code, text = run("profiles", "key", "p", "--in-file")
    assert code == 0
    assert "my-secret-key" not in text
    secrets = twinrig_home / "config/secrets.json"
    assert json.loads(secrets.read_text()) == {"p": "my-secret-key"}
    assert secrets.stat().st_mode & 0o777 == 0o600
    assert "my-secret-key" not in (twinrig_home / "config/profiles/p.yaml").read_text()
    assert as_json(run, "profiles", "show", "p")[1]["network"]["key_name"] == "p"
    assert run("profiles", "key", "p", "--clear")[0] == 0
    assert json.loads(secrets.read_text()) == {}
    assert as_json(run, "profiles", "show", "p")[1]["network"]["key_name"] == ""


def test_wsl_says_what_to_use_instead(run: Run) -> None:
    code, text = run("doctor", target="wsl")
    assert code == 3
    assert "The target wsl needs Windows." in text
    assert "--target local" in text


@pytest.mark.parametrize(
    "argv",
    [
        ["nonsense"],
        ["--target", "moon", "doctor"],
        ["watch", "--seconds", "-1"],
        ["fix", "a", "b"],
        ["profiles", "edit", "p"],
        ["watch", "--seconds", "nan"],
    ],
)
def test_wrong_usage_is_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    def never(_: str) -> object:
        raise AssertionError("opened")

    assert main(argv, never) == 2  # type: ignore[arg-type]
    assert "usage:" in capsys.readouterr().err


def test_help_and_options_after_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def opened(target: str) -> object:
        asked.append(target)
        raise UsageError(message("stop here"))

    assert main(["--help"], opened) == 0  # type: ignore[arg-type]
    assert "Exit codes" in capsys.readouterr().out
    for argv in (["status", "--target", "demo"], ["--target", "demo", "status"], ["status"]):
        assert main(argv, opened) == 2  # type: ignore[arg-type]
    assert asked == ["demo", "demo", "auto"]


def test_supervise_and_demo_server_get_the_process() -> None:
    calls: list[object] = []
    stopped = ServerRecord("one", "demo", "demo", "run", ServerState.STOPPED, 1.0, 1)
    keep = {
        "supervise": lambda t, p: calls.append((t, p)) or (7, stopped),
        "demo_server": lambda c: calls.append(c) or 8,
    }
    assert main(["--target", "demo", "supervise", "one"], None, **keep) == 7  # type: ignore[arg-type]
    assert main(["demo-server", "--config", "f"], None, **keep) == 8  # type: ignore[arg-type]
    assert calls == [("demo", "one"), "f"]


def test_a_supervisor_that_cannot_begin_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(_target: str, _profile: str) -> int:
        raise UsageError(message("There is no such thing."))

    assert main(["supervise", "one"], None, supervise=refuse) == 2  # type: ignore[arg-type]
    assert capsys.readouterr().err == "There is no such thing.\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (BrokenPipeError(), 0), (HostError(message("x")), 3)],
)
def test_interruptions(error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(_: str) -> object:
        raise error

    monkeypatch.setattr("twinrig.cli.main._close_output", lambda: None)
    assert main(["status"], opened) == code  # type: ignore[arg-type]


def test_ctrl_c_is_the_way_out_of_watch() -> None:
    def opened(_: str) -> object:
        raise KeyboardInterrupt

    assert main(["watch"], opened) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words",
    [("nonsense",), ("status", "--nonsense"), ("doctor", "--profile"), ("profiles", "show"), ()],
)
def test_wrong_words_are_one_json_document_too(run: Run, words: tuple[str, ...]) -> None:
    code, text = run("--json", *words)
    assert code == 2
    assert json.loads(text)["error"]["text"]


def test_wrong_words_go_to_the_error_stream_otherwise(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--nonsense"], lambda _: pytest.fail("opened")) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "usage: twinrig" in told.err and "--nonsense" in told.err
    assert told.err.endswith("Next: See twinrig --help.\n")


@pytest.mark.parametrize("verb", ["status", "stop", "free", "load", "start", "restart", "switch"])
def test_a_name_that_was_mistyped_is_no_server_at_rest(run: Run, verb: str) -> None:
    run("profiles", "new", "Demo")
    code, text = run(verb, "dmeo")
    assert code == 2
    assert "There is no profile dmeo." in text
    assert "demo" in text


def test_a_server_whose_profile_is_gone_is_still_shown(run: Run, twinrig_home: Path) -> None:
    record = ServerRecord("gone", "demo", "demo", "run", ServerState.STOPPED, 1.0, 1)
    path = twinrig_home / "state" / "demo" / "servers" / "gone" / "state.json"
    path.parent.mkdir(parents=True)
    path.write_text(record.to_json())
    assert run("status", "gone")[0] == 0
    code, text = run("stop", "gone")
    assert code == 0 and "gone was not running." in text


class FullDisk(io.StringIO):
    def write(self, _text: str) -> int:
        raise OSError(28, "No space left on device")


def test_output_that_cannot_be_written_is_a_sentence_and_could_not_tell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("twinrig.cli.main._close_output", lambda: None)
    monkeypatch.setattr("sys.stdout", FullDisk())

    def refuse(_target: str):
        raise HostError(message("Nobody there."), message("Try later."))

    assert main(["--json", "status"], refuse, environ={}) == 3
    assert "No space left on device" in capsys.readouterr().err


def test_a_supervisor_in_the_foreground_says_why_it_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failure = Failure(message("The port is taken."), message("Choose another one."))
    failed = ServerRecord("one", "demo", "demo", "run", ServerState.FAILED, 1.0, 1, failure=failure)
    for end, words in (((1, failed), "The port is taken."), ((3, None), "Another supervisor")):
        code = main(["supervise", "one"], None, supervise=lambda _t, _p, end=end: end)  # type: ignore[arg-type]
        assert code == end[0]
        assert words in "".join(capsys.readouterr())
        main(["--json", "supervise", "one"], None, supervise=lambda _t, _p, end=end: end)  # type: ignore[arg-type]
        assert words in json.dumps(json.loads(capsys.readouterr().out))


def test_a_fault_of_twinrig_itself_is_kept_and_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept: list[BaseException] = []

    def explode(_target: str):
        raise RuntimeError("a bug")

    code = main(
        ["status"], explode, environ={}, keep_fault=lambda e: kept.append(e) or "/x/last-fault.txt"
    )
    told = capsys.readouterr().err
    assert code == 3
    assert isinstance(kept[0], RuntimeError)
    assert "a bug" in told and "/x/last-fault.txt" in told and "Traceback" not in told


def test_a_status_that_cannot_be_read_is_not_called_stopped(run: Run, twinrig_home: Path) -> None:
    run("profiles", "new", "Demo")
    record = twinrig_home / "state" / "demo" / "servers" / "demo" / "state.json"
    record.parent.mkdir(parents=True)
    record.write_bytes(b"\x00")
    code, data = as_json(run, "status")
    assert code == 3
    assert "state.json" in data["status"]["problem"]


def test_stop_without_a_server_asks_for_no_name(run: Run) -> None:
    run("profiles", "new", "One")
    run("profiles", "new", "Two")
    code, text = run("stop")
    assert code == 0 and "No server runs" in text
    code, data = as_json(run, "stop")
    assert (code, data) == (0, {"profile_id": None, "record": None})


@pytest.mark.parametrize(
    ("verb", "says"),
    [("start", "not stopped by this"), ("load", "not stopped by this"), ("restart", "half done")],
)
def test_an_interrupted_verb_says_where_to_look(
    verb: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_target: str):
        raise KeyboardInterrupt

    assert main([verb, "demo"], interrupted, environ={}) == 130
    told = capsys.readouterr().out
    assert says in told and "twinrig status" in told
