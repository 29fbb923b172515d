"""Which line is shown when nothing else is known."""

from __future__ import annotations

import pytest

from twinrig.diagnosis.explain import diagnose
from twinrig.diagnosis.root_cause import RootCause
from twinrig.diagnosis.rules import Rules
from twinrig.diagnosis.scan import LogScan


def find_root_cause(lines: list[str], rules: Rules) -> RootCause | None:
    scan = LogScan(rules)
    scan.feed(lines)
    return scan.finish().root


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: x",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "(Worker_TP0 pid=1) ERROR 09-05 21:05:49 [m.py:679] ValueError: There is no module",
        "AssertionError",
        "[rank1]: torch.distributed.DistBackendError: NCCL error in: x",
        "  Value error, something odd [type=value_error]",
        "vllm: error: something",
        "free(): double free detected in tcache 2",
        "(Worker_TP0 pid=1) !!!!!!! Segfault encountered !!!!!!!",
        "Fatal Python error: Segmentation fault",
        "Killed",
    ],
)
def test_real_errors(rules: Rules, line: str) -> None:
    found = find_root_cause(["fine", line, "KeyError: 'later'"], rules)
    assert found is not None
    assert (found.line_no, found.line) == (2, line)


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: Engine core initialization failed. See root cause above.",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        "RuntimeError: cancelled",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "The above exception was the direct cause of the following exception:",
        "asyncio.exceptions.CancelledError",
        "INFO:     ValueError: quoted at level INFO",
        "(APIServer pid=1) INFO 11-29 12:29:05 [x.py:1] ValueError: x",
        "(APIServer pid=1) ERROR 11-29 12:34:37 [s.py:1] Error with model error=ErrorInfo(x)",
        '  File "/x/errors.py", line 3, in raise_Error',
        "    raise ValueError(x)",
        "torch/_x.py:53: FutureWarning: Exception: deprecated",
        "no errors today",
    ],
)
def test_wrappers_and_noise(rules: Rules, line: str) -> None:
    assert find_root_cause([line], rules) is None


def test_a_dead_worker_is_better_than_nothing(rules: Rules) -> None:
    dead = "Worker proc VllmWorker-0 died unexpectedly (exit code: None), shutting down executor."
    found = find_root_cause([dead, "RuntimeError: cancelled"], rules)
    assert found is not None and found.line == dead
    real = find_root_cause([dead, "RuntimeError: cancelled", "KeyError: 'x'"], rules)
    assert real is not None and real.line_no == 3


def test_colours_are_not_shown_and_numbers_count_line_feeds(rules: Rules) -> None:
    lines = ["10%\r20%\r30%", "", "50%\r\x1b[31mValueError: x\x1b[0m"]
    found = find_root_cause(lines, rules)
    assert found is not None and (found.line_no, found.line) == (3, "ValueError: x")


def test_of_a_server_that_was_ready_the_later_error_counts(rules: Rules) -> None:
    lines = ["ValueError: first", "INFO:     Application startup complete.", "KeyError: 'second'"]
    found = find_root_cause(lines, rules)
    assert found is not None and found.line_no == 3
    assert find_root_cause(lines[:2], rules) == RootCause(1, "ValueError: first")


def test_of_several_runs_the_last_counts(rules: Rules) -> None:
    start = "INFO 1 [api_server.py:1] vLLM API server version 0.27.1"
    lines = [start, "ValueError: first", start, "KeyError: 'second'"]
    found = find_root_cause(lines, rules)
    assert found is not None and found.line_no == 4
    assert find_root_cause([*lines[:3], "fine"], rules) is None


def test_of_short_runs_in_a_long_log_the_last_counts(rules: Rules) -> None:
    """Many runs stand in one block of lines, and each has a first exception of its own."""
    start = "INFO 1 [api_server.py:1] vLLM API server version 0.27.1"
    ready = "INFO:     Application startup complete."
    run = [start, "fine", "ValueError: odd", "OSError: later", *["fine"] * 16]
    found = find_root_cause(run * 200, rules)
    assert found is not None and found.line_no == 199 * len(run) + 3
    late = ["ValueError: while it loads", *["fine"] * 600, ready, "fine", "KeyError: 'odd'"]
    found = find_root_cause(late, rules)
    assert found is not None and found.line == "KeyError: 'odd'"


@pytest.mark.parametrize(
    ("who", "answer", "shown"),
    [
        ("(APIServer pid=1) ", "400 Bad Request", False),
        ("", "422 Unprocessable Entity", False),
        ("(APIServer pid=1) ", "500 Internal Server Error", True),
        ("(APIServer pid=1) ", "404 Not Found", True),
        ("(Worker_TP0 pid=1) ", "400 Bad Request", True),
    ],
)
def test_a_refused_request_ended_nothing(rules: Rules, who: str, answer: str, shown: bool) -> None:
    lines = [
        "INFO:     Application startup complete.",
        f"{who}ERROR 10-04 11:05:00 [x.py:2] ValueError: at most 1 image(s) may be provided.",
        f'INFO:     127.0.0.1:5121 - "POST /v1/chat/completions HTTP/1.1" {answer}',
    ]
    assert (find_root_cause(lines, rules) is not None) is shown
    assert find_root_cause(lines[1:], rules) is not None  # not known to be ready
    assert find_root_cause([*lines, "KeyError: 'later'"], rules) is not None


def test_an_echo_of_a_wanted_stop_is_none(rules: Rules) -> None:
    stop = "(APIServer pid=1) INFO 1 [x.py:1] [shutdown] API server: shutdown triggered"
    lines = ["INFO:     Application startup complete.", stop, "ValueError: late"]
    assert find_root_cause(lines, rules) is None
    assert diagnose(lines, "", rules).kind == "healthy"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Error code: Wsl/Service/CreateInstance/CreateVm/0x80070057", True),
        ("Last Result: 0x800706BA", True),
        ("Last Result: 267009 (0x41301)", False),
        ("Last Result: 0x0", False),
        ("[ 9.1] misc dxg: dxgk: dxgkio_create_allocation: Ioctl failed: -75", True),
        ("[ 1.1] misc dxg: dxgk: dxgkio_query_adapter_info: Ioctl failed: -22", False),
        ("GPU assert: an illegal memory access was encountered /x/parallel/gather.cu 472", True),
    ],
)
def test_native_lines(rules: Rules, line: str, shown: bool) -> None:
    found = find_root_cause([line], rules)
    assert (found is not None) is shown
