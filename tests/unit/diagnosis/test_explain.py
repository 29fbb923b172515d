"""The order of decision, conditions of rules, and honesty about what is not known."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.rule_samples import SAMPLES, SHIPPED
from twinrig.diagnosis import explain
from twinrig.diagnosis.explain import Diagnosis, explain_exit, is_permanent
from twinrig.diagnosis.normalise import decode_log
from twinrig.diagnosis.rules import Rules
from twinrig.diagnosis.scan import LogScan
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Failure, ServerRecord

WORKER = "(Worker_TP0 pid=7) ERROR 10-02 21:04:17 [multiproc_executor.py:868] "
READY = "INFO:     Application startup complete."
OOM = WORKER + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB."
LOADED = "(Worker_TP0 pid=7) INFO 1 Model loading took 9.5 GiB memory and 30 seconds"
CAPTURE = "Capturing CUDA graphs (decode, FULL):  37%|███  | 19/51"
CAPTURED = "(Worker pid=1) INFO 1 Graph capturing finished in 5 secs"
TAIL = [
    "(EngineCore pid=5) ERROR 10-02 21:04:18 [core.py:994] EngineCore failed to start.",
    "Process EngineCore:",
    "Traceback (most recent call last):",
    "Exception: WorkerProc initialization failed due to an exception in a background process.",
    "RuntimeError: Engine core initialization failed. See root cause above.",
]

RECORDED = [
    ("err-empty-dir", "model-path-missing", "Value error, Invalid repository ID"),
    ("err-gpu-util", "vram-startup-not-free", "Available memory on node 0"),
    ("err-kv-too-small", "kv-max-len", "To serve at least one request"),
    ("err-maxlen", "max-len-over-model", "User-specified max_model_len"),
    ("err-port-in-use", "port-in-use", "OSError: [Errno 98] Address already in use"),
    ("err-tp3", "tp-not-divisible", "attention heads (4) must be divisible"),
    ("err-unknown-option", "bad-cli-argument", "unrecognized arguments"),
    ("err-wrong-path", "model-path-missing", "HFValidationError: Repo id must be"),
    ("tp2-kill9-worker", "worker-killed", "VllmWorker-1 died unexpectedly (exit code: -9)"),
    ("kill9-apiserver", "vllm-orphan-workers", "EngineCore: trigger received signal"),
]


def diagnose(lines: list[str], exit_text: str, rules: Rules) -> tuple[Diagnosis, ...]:
    return explain.diagnose(lines, exit_text, rules).findings


@pytest.mark.parametrize(("name", "finding", "line"), RECORDED)
def test_recorded_failures_of_vllm(
    recorded: Path, rules: Rules, name: str, finding: str, line: str
) -> None:
    lines = decode_log((recorded / f"{name}.log").read_bytes())
    failure = explain_exit(lines, "exit code 1", rules)
    assert failure.finding_id == finding
    assert line in failure.root_cause_line
    assert failure.log_line_no is not None
    assert lines[failure.log_line_no - 1] == failure.root_cause_line
    first = next(i for i, text in enumerate(lines, 1) if line in text)
    assert failure.log_line_no == first, "the first occurrence over all processes"
    assert failure.fixes and "?" not in str(failure.text) + str(failure.next_step)


def test_a_dead_worker_without_an_exit_code_is_the_line_shown(recorded: Path, rules: Rules) -> None:
    """vLLM 0.24 on two cards, one worker ended with SIGKILL: nothing in the log tells why."""
    lines = decode_log((recorded / "tp2-kill9-worker-cuda.log").read_bytes())
    failure = explain_exit(lines, "exit code 0", rules)
    assert not failure.finding_id
    assert "Worker proc VllmWorker-1 died unexpectedly" in failure.root_cause_line


def test_recorded_values_reach_the_user(recorded: Path, rules: Rules) -> None:
    def failure(name: str) -> Failure:
        return explain_exit(decode_log((recorded / f"{name}.log").read_bytes()), "", rules)

    assert "1024 or less" in str(failure("err-kv-too-small").next_step)
    assert dict(failure("err-kv-too-small").params)["estimated"] == "1120"
    assert "0.92" in str(failure("err-gpu-util").next_step)
    assert "2048 or less" in str(failure("err-maxlen").next_step)
    assert "/home/user/models/no-such-model" in str(failure("err-wrong-path").text)
    assert "/home/user/models/empty" in str(failure("err-empty-dir").text)
    assert "4 attention heads" in str(failure("err-tp3").text)


def test_a_cpu_build_that_cannot_bind_threads_is_told_without_a_catalogue_id(
    recorded: Path, rules: Rules
) -> None:
    lines = decode_log((recorded / "err-tp2-cpu-binding.log").read_bytes())
    failure = explain_exit(lines, "exit code 1", rules)
    assert failure.finding_id == ""
    assert "2 workers" in str(failure.text)
    assert "Not enough allowed NUMA nodes" in failure.root_cause_line
    assert is_permanent(failure)


@pytest.mark.parametrize("name", ["start-compile-serve-ctrlc", "ctrlc-during-load"])
def test_a_wanted_stop_raises_no_finding(recorded: Path, rules: Rules, name: str) -> None:
    lines = decode_log((recorded / f"{name}.log").read_bytes())
    report = explain.diagnose(lines, "exit code 0", rules, {"stop_requested": "true"})
    assert report.findings == () and report.kind == "healthy"
    assert explain_exit(lines, "exit code 0", rules).finding_id == ""


def test_what_was_only_a_warning_did_not_end_the_server() -> None:
    warning = "(APIServer pid=1) WARNING 1-1 [x.py:1] Temporary failure in name resolution"
    failure = explain_exit([warning, "KeyError: 'odd'"], "exit code 1", SHIPPED)
    assert failure.finding_id == "" and failure.log_line_no == 2
    library = (
        "(EngineCore pid=1) WARNING 1-1 [x.py:1] Failed to import from vllm._C:"
        " ImportError('libcudart.so.13: cannot open shared object file')"
    )
    assert explain_exit([library], "exit code 1", SHIPPED).finding_id == "cudart13-missing"


def test_a_value_is_computed_for_the_user() -> None:
    line = (
        "ValueError: Free memory on device (10.21/11.94 GiB) on startup is less than desired"
        " GPU memory utilization (0.92, 10.98 GiB)."
    )
    failure = explain_exit([line], "exit code 1", SHIPPED)
    assert "10.21 of 11.94 GiB" in str(failure.text)
    assert "0.82" in str(failure.next_step)
    assert dict(failure.params)["suggested_share"] == "0.82"


@pytest.mark.parametrize(
    ("lines", "finding"),
    [
        ([OOM], "vram-oom-load"),
        ([LOADED, OOM], "kv-no-memory"),
        ([LOADED, CAPTURE, OOM], "vram-oom-graphs"),
        ([LOADED, CAPTURE, CAPTURED, READY, OOM], "vram-oom-runtime"),
        (
            [
                WORKER + '  File "/x/vllm/model_executor/offloader/uva.py", line 3, in pin_memory',
                WORKER + "torch.AcceleratorError: CUDA error: out of memory",
            ],
            "pinned-memory-limit",
        ),
    ],
)
def test_out_of_memory_goes_by_the_phase(lines: list[str], finding: str) -> None:
    assert explain_exit([*lines, *TAIL], "exit code 1", SHIPPED).finding_id == finding


def test_pinned_memory_being_off_is_no_hint_at_pinning() -> None:
    warning = "(Worker pid=1) WARNING 1 Using 'pin_memory=False' as WSL is detected."
    assert explain_exit([warning, OOM], "exit code 1", SHIPPED).finding_id == "vram-oom-load"


def test_an_earlier_tier_beats_an_earlier_line() -> None:
    lines = [OOM, "PC:1:2 [0] transport/p2p.cc:1 NCCL WARN Cuda failure 1 'invalid argument'"]
    found = diagnose(lines, "exit code 1", SHIPPED)
    assert found[0].finding.id == "nccl-cumem-wsl"
    assert "vram-oom-load" in [d.finding.id for d in found]


def test_within_a_tier_the_earlier_line_wins() -> None:
    first = "AssertionError: 151655 is not divisible by 2"
    second = "OSError: [Errno 98] Address already in use"
    for lines, finding in (([first, second], "tp-not-divisible"), ([second, first], "port-in-use")):
        assert explain_exit(lines, "exit code 1", SHIPPED).finding_id == finding


def test_what_the_start_survived_explains_no_later_end() -> None:
    early = "PC:1:2 [0] transport/p2p.cc:1 NCCL WARN Cuda failure 1 'invalid argument'"
    lines = [early, READY, WORKER + "KeyError: 'odd'"]
    failure = explain_exit(lines, "exit code 1", SHIPPED)
    assert failure.finding_id == ""
    assert failure.log_line_no == 3


def test_more_specific_evidence_rules_a_guess_out() -> None:
    generic = "RuntimeError: NCCL error: unhandled cuda error"
    shm = "NCCL WARN Error: failed to extend /dev/shm/nccl-x to 9637888 bytes"
    assert explain_exit([generic, shm], "1", SHIPPED).finding_id == "shm-too-small"
    driver = "UserWarning: The NVIDIA driver on your system is too old (found version 12040)"
    lost = "RuntimeError: No CUDA GPUs are available"
    failure = explain_exit([driver, lost], "1", SHIPPED)
    assert failure.finding_id == "driver-too-old" and "12.4" in str(failure.text)


STALL = "(EngineCore pid=1) INFO 1 [x.py:1] No available shared memory broadcast block found"
NCCL = "(Worker_TP0 pid=7) INFO 1 [pynccl.py:111] vLLM is using nccl==2.28.9"


def test_one_long_silence_is_healthy_three_before_the_weights_are_not() -> None:
    assert diagnose([NCCL, STALL, STALL], "signal 15", SHIPPED) == ()
    found = diagnose([NCCL, STALL, STALL, STALL], "signal 15", SHIPPED)
    assert [d.finding.id for d in found] == ["nccl-p2p-hang", "shm-broadcast-stall"]
    assert found[0].line_no == 2, "where the silence began"
    weights = "(Worker_TP0 pid=7) INFO 1 Starting to load model /m..."
    found = diagnose([NCCL, weights, STALL, STALL, STALL], "signal 15", SHIPPED)
    assert [d.finding.id for d in found] == ["shm-broadcast-stall"]
    assert diagnose([NCCL, weights, STALL, STALL], "signal 15", SHIPPED) == ()


def test_killed_while_loading_is_told_with_low_confidence() -> None:
    failure = explain_exit(["INFO:     x"], "signal 9", SHIPPED)
    assert (failure.finding_id, failure.confidence) == ("ram-oom-killed", "low")
    assert failure.log_line_no is None and failure.root_cause_line == ""
    later = explain_exit([READY], "signal 9", SHIPPED)
    assert later.finding_id == ""
    assert explain_exit(["INFO:     x"], "exit code 9", SHIPPED).finding_id == ""


def test_a_native_crash_of_a_worker_is_not_called_a_kill() -> None:
    line = "Worker proc VllmWorker-0 died unexpectedly (exit code: -11), shutting down executor."
    failure = explain_exit([line, *TAIL], "exit code 1", SHIPPED)
    assert failure.finding_id == ""
    assert failure.root_cause_line == line


def test_unknown_says_so_and_shows_the_first_real_exception() -> None:
    lines = [
        "(APIServer pid=1) WARNING 1 Found ulimit of 20000 and failed to automatically increase"
        " ... `OSError: [Errno 24] Too many open files`",
        TAIL[0],
        WORKER + "Traceback (most recent call last):",
        WORKER + '  File "/x.py", line 3, in f',
        WORKER + "AttributeError: 'Qwen2Tokenizer' object has no attribute 'x'",
        *TAIL,
    ]
    failure = explain_exit(lines, "exit code 1", SHIPPED)
    assert failure.finding_id == "" and failure.confidence == ""
    assert "not known" in str(failure.text) and "exit code 1" in str(failure.text)
    assert "'Qwen2Tokenizer' object has no attribute" in str(failure.text)
    assert failure.log_line_no == 5 and failure.root_cause_line == lines[4]
    assert "line 5" in str(failure.next_step)
    assert not is_permanent(failure)


def test_only_wrappers_is_unknown_without_a_line() -> None:
    failure = explain_exit(TAIL, "exit code 1", SHIPPED)
    assert failure.finding_id == "" and failure.log_line_no is None
    assert "does not say why" in str(failure.text)


@pytest.mark.parametrize("lines", [[], [""], ["INFO:     all is well"]])
def test_an_empty_log_is_unknown(lines: list[str]) -> None:
    failure = explain_exit(lines, "exit code 0", SHIPPED)
    assert failure.finding_id == "" and "exit code 0" in str(failure.text)


def test_braces_in_a_log_line_do_no_harm() -> None:
    failure = explain_exit(["ValueError: {not} a {0} field %s"], "exit code 1", SHIPPED)
    assert "{not} a {0} field %s" in str(failure.text)


def test_lines_may_carry_their_ends_and_utf16_noise() -> None:
    line = "\0".join("OSError: [Errno 98] Address already in use") + "\0\r\n"
    failure = explain_exit(["x\n", line], "exit code 1", SHIPPED)
    assert (failure.finding_id, failure.log_line_no) == ("port-in-use", 2)


def test_a_message_after_a_progress_bar_is_seen() -> None:
    line = "Loading: 10%\rLoading: 20%\rRuntimeError: UVA is not available"
    assert explain_exit([line], "exit code 1", SHIPPED).finding_id == "vllm-uva-wsl"


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.text()
        | st.sampled_from([line for s in SAMPLES for line in s.lines])
        | st.sampled_from(TAIL),
        max_size=30,
    ),
    st.text(max_size=20),
)
def test_no_log_raises(lines: list[str], exit_text: str) -> None:
    failure = explain_exit(lines, exit_text, SHIPPED)
    assert str(failure.text) and str(failure.next_step)
    if failure.log_line_no is not None:
        assert 1 <= failure.log_line_no <= len(lines)


def test_a_failure_survives_the_state_file() -> None:
    failure = explain_exit(
        ["OSError: [Errno 98] Address already in use", OOM], "exit code 1", SHIPPED
    )
    record = ServerRecord("p", "local", "vllm", "r", ServerState.FAILED, 1.0, 2, failure=failure)
    assert ServerRecord.from_json(record.to_json(), "state.json").failure == failure


def test_a_long_log_is_read_fast_and_flat(recorded: Path) -> None:
    sample = (recorded / "start-compile-serve-ctrlc.log").read_text().split("\n")
    serving = [line for line in sample if "HTTP/1.1" in line or "throughput" in line]
    lines = serving * (60_000 // len(serving)) + ["KeyError: 'odd'"]
    size = sum(len(line) + 1 for line in lines)
    start = time.process_time()
    failure = explain_exit(lines, "exit code 1", SHIPPED)
    speed = size / (time.process_time() - start) / 1e6
    assert failure.log_line_no == len(lines)
    assert speed > 8, f"{speed:.0f} MB/s; the budget of 20 is measured on an idle machine"
    peaks = []
    for times in (1, 3):
        scan = LogScan(SHIPPED)
        tracemalloc.start()
        for _ in range(times):
            for at in range(0, len(lines), 4000):
                scan.feed(lines[at : at + 4000])
        scan.finish()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 6_000_000, "100,000 speeds are kept, and no lines"
