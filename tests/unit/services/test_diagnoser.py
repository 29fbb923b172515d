"""A log of any size, from a file or a stream; the case of a server; its report."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fixtures.rule_samples import SHIPPED
from twinrig import assets
from twinrig.diagnosis.facts import FACT_PATTERNS, FactBook
from twinrig.domain.checks import CheckResult, Finding, Status
from twinrig.domain.errors import HostError, UsageError
from twinrig.domain.ports import CommandResult, ExitStatus
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Profile
from twinrig.engines.registry import load_engines
from twinrig.messages import message
from twinrig.services.case import Case, case_report, tail
from twinrig.services.diagnoser import CHUNK_BYTES, Diagnoser
from twinrig.services.journal import JournalEntry
from twinrig.services.redaction import Redactor
from twinrig.services.report import ReportParts, build_report
from twinrig.services.run_context import ExitExplainer, kernel_log, orphans_of, profile_facts

PORT = "OSError: [Errno 98] Address already in use"
ASSERT = "GPU assert: an illegal memory access was encountered /x/{file} 133"


@pytest.fixture(scope="module")
def diagnoser() -> Diagnoser:
    return Diagnoser.shipped(assets.read_text)


def profile(**values: object) -> Profile:
    made = Profile("p", "P", "local", EngineRef("vllm", "", "0.28.0"), ModelRef("/mnt/d/m"))
    return Profile(**{**made.__dict__, **values})


def test_line_numbers_hold_over_chunks(diagnoser: Diagnoser) -> None:
    filler = "".join(f"INFO:     line {n} of an ordinary log\n" for n in range(60_000))
    assert len(filler) > CHUNK_BYTES
    report = diagnoser.diagnose(io.BytesIO((filler + PORT + "\n").encode()))
    assert report.findings[0].kind.id == "port-in-use"
    assert report.findings[0].line_no == 60_001 and report.root is not None
    assert report.root.line == PORT


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"\xff" * 9000, b"x" * 300_000, b"\n" * 999])
def test_odd_files_are_no_fault(diagnoser: Diagnoser, data: bytes) -> None:
    report = diagnoser.diagnose(io.BytesIO(data))
    assert report.kind == "healthy" and report.findings == ()


def test_context_decides(diagnoser: Diagnoser) -> None:
    log = b"RuntimeError: NCCL error: unhandled cuda error\n"
    assert diagnoser.diagnose(io.BytesIO(log)).kind == "failure"
    assert diagnoser.diagnose(io.BytesIO(log), {"NCCL_CUMEM_ENABLE": "0"}).kind == "unknown"
    assert diagnoser.diagnose(io.BytesIO(log), {"stop_requested": "true"}).kind == "healthy"


def test_facts_of_a_profile() -> None:
    made = profile(
        env={"NCCL_P2P_DISABLE": EnvEntry("1")},
        settings={"tensor_parallel_size": 2, "enforce_eager": True},
    )
    facts = profile_facts(made, load_engines(assets.read_text)["vllm"], on_wsl=True)
    assert facts["NCCL_P2P_DISABLE"] == "1" and facts["platform"] == "wsl2"
    assert facts["noted.vllm"] == "0.28.0" and facts["model_path"] == "/mnt/d/m"
    assert facts["tensor_parallel"] == "2" and facts["config.enforce_eager"] == "true"
    assert facts["config.tensor_parallel"] == "true"
    assert profile_facts(profile(), None, on_wsl=False)["platform"] == "linux"


def test_the_log_knows_the_version_better_than_the_profile() -> None:
    """A profile that was made with an old version is not told to update a new one."""
    noted = {"noted.exllamav3": "0.0.43", "noted.vllm": "0.28.0"}
    book = FactBook(noted)
    assert book.facts()["exllamav3"] == "0.0.43" and book.knows("vllm")
    for pattern in FACT_PATTERNS:
        book.read(pattern, "INFO: exllamav3 version: 1.4.2")
    assert book.facts()["exllamav3"] == "1.4.2"
    assert book.facts()["vllm"] == "0.28.0"
    told = FactBook({**noted, "exllamav3": "1.6.0"})
    assert told.facts()["exllamav3"] == "1.6.0"


class Kernel:
    """A host that answers ``cat /proc/uptime`` and ``dmesg``."""

    def __init__(self, uptime: str, log: str, code: int | None = 0) -> None:
        self._answers = {"cat": uptime, "dmesg": log}
        self._code = code

    async def run(self, command: list[str], *, timeout_s: float) -> CommandResult:
        if self._code is None:
            raise HostError(message("gone"), message("wait"))
        text = self._answers[command[0]].encode()
        return CommandResult(tuple(command), self._code, text, b"", 0.1)


KILLED = "Out of memory: Killed process 6154 (python3)"


async def test_only_what_the_kernel_said_during_the_run_counts() -> None:
    log = f"[  100.5] {KILLED}\n[ 5000.5] usb 1-1: new device\n[ 5001.5] misc dxg: dxgk: x\nno time"
    assert await kernel_log(Kernel("6000.0 1.0", log), 2000) == "[ 5001.5] misc dxg: dxgk: x"
    assert KILLED in await kernel_log(Kernel("6000.0 1.0", log), 7000)
    assert await kernel_log(Kernel("odd", log), 7000) == ""
    assert await kernel_log(Kernel("6000.0 1.0", log, 1), 7000) == ""
    assert await kernel_log(Kernel("", "", None), 7000) == ""


def test_two_crashes_at_different_places_are_asynchronous() -> None:
    explain = ExitExplainer(SHIPPED, profile, on_wsl=True)
    first = explain([ASSERT.format(file="rep_pen.cu")], ExitStatus(134, None))
    assert "only where it was noticed" in str(first.why)
    same = explain([ASSERT.format(file="rep_pen.cu")], ExitStatus(134, None))
    assert "different places" not in str(same.why)
    other = explain([ASSERT.format(file="gather.cu")], ExitStatus(134, None))
    assert "asynchronous" in str(other.why)
    for failure in (first, other):
        assert ".cu" not in str(failure.next_step), "a file is never named as the culprit"


def test_a_broken_profile_costs_facts_not_the_explanation() -> None:
    def broken() -> Profile:
        raise UsageError(message("broken"), message("mend"))

    failure = ExitExplainer(SHIPPED, broken, on_wsl=True)([PORT], ExitStatus(1, None))
    assert failure.finding_id == "port-in-use"


def test_the_report_holds_all_parts_and_no_secret(tmp_path: Path, diagnoser: Diagnoser) -> None:
    report = diagnoser.diagnose(io.BytesIO(PORT.encode()))
    check = CheckResult("gpu-driver", Status.FAIL, message("Old at /home/taro/x."), Finding("f"))
    entry = JournalEntry("1", 0.0, "local", "env-x", message("Set it"), Finding("f"))
    parts = ReportParts(
        report,
        ["Your API key is: deadbeefdeadbeef", "last line"],
        profile(env={"A": EnvEntry("1")}),
        [("vllm", "0.28.0")],
        [check],
        [entry],
        "vllm: failed",
    )
    text = build_report(parts, Redactor(), now_s=0.0)
    for word in ("1970-01-01", "vllm: 0.28.0", "port-in-use (high, line 1)", "stop-old-server"):
        assert word in text
    for word in ("gpu-driver [f]", "env-x: Set it", "last line", "/mnt/d/m", "vllm: failed"):
        assert word in text
    assert "deadbeef" not in text and "taro" not in text


def test_a_case_report_reads_the_end_of_the_log(tmp_path: Path, diagnoser: Diagnoser) -> None:
    log = tmp_path / "server.log"
    log.write_text("\n".join(f"line {n}" for n in range(100_000)) + "\n" + PORT)
    with log.open("rb") as source:
        report = diagnoser.diagnose(source)
    text = case_report(Case(str(log), {"vllm": "0.28.0"}, secrets=["line 99999"]), report)
    assert text.rstrip().endswith(PORT) and "line 99998" in text and "line 5000\n" not in text
    assert "line 99999" not in text
    assert tail(tmp_path / "none") == []
    log.write_text("short", encoding="utf-16")
    assert tail(log) == ["short"]


PS = """
    1     0 /sbin/init
  700     1 VLLM::EngineCore
  701   700 VLLM::Worker_TP0
  800     1 /v/bin/python /v/bin/vllm serve /m
  801   800 VLLM::EngineCore
  802   801 VLLM::Worker_TP0
  900   899 VLLM::Worker_TP1
odd line
"""
SHORT = (
    "ValueError: Free memory on device cuda:0 (3.20/24.00 GiB) on startup is less than desired"
    " GPU memory utilization (0.9, 21.60 GiB)."
)


class Machine:
    """A host that answers by program; every other program is missing."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers

    async def run(self, command: list[str], *, timeout_s: float) -> CommandResult:
        if command[0] not in self.answers:
            raise HostError(message("gone"), message("wait"))
        return CommandResult(tuple(command), 0, self.answers[command[0]].encode(), b"", 0.1)


def test_workers_of_a_living_server_are_nobodys_orphans() -> None:
    assert orphans_of(PS).splitlines() == [
        "700 VLLM::EngineCore",
        "701 VLLM::Worker_TP0",
        "900 VLLM::Worker_TP1",
    ]
    assert orphans_of("") == ""


async def test_workers_left_before_the_launch_explain_why_memory_is_not_free() -> None:
    host = Machine(ps=PS)
    explain = ExitExplainer(SHIPPED, profile, on_wsl=False, host=host)
    assert explain([SHORT], ExitStatus(1, None)).finding_id == "vram-startup-not-free"
    await explain.before_launch()
    assert explain([SHORT], ExitStatus(1, None)).finding_id == "vllm-orphan-workers"
    host.answers["ps"] = "1 0 /sbin/init"
    await explain.before_launch()
    assert explain([SHORT], ExitStatus(1, None)).finding_id == "vram-startup-not-free"


async def test_what_the_kernel_said_explains_an_exit_without_words() -> None:
    host = Machine(dmesg=f"[ 5990.5] {KILLED}", cat="6000.0 1.0")
    explain = ExitExplainer(SHIPPED, profile, on_wsl=False, host=host)
    guessed = explain(["INFO: fine"], ExitStatus(None, 9))
    await explain.look(60.0)
    told = explain(["INFO: fine"], ExitStatus(None, 9))
    assert told.finding_id == "ram-oom-killed"
    assert told.confidence == "high" and guessed.confidence != "high"
    await explain.before_launch()
    assert explain(["INFO: fine"], ExitStatus(None, 9)) == guessed, "of the last run only"


async def test_a_machine_that_tells_nothing_costs_nothing() -> None:
    for host in (None, Machine()):
        explain = ExitExplainer(SHIPPED, profile, on_wsl=False, host=host)
        await explain.before_launch()
        await explain.look(5.0)
        assert explain([PORT], ExitStatus(1, None)).finding_id == "port-in-use"
