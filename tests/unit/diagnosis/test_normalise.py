"""Lines of a log, whatever wrote them and however they came."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinrig.diagnosis.normalise import (
    LogDecoder,
    clean,
    cleaned,
    decode_log,
    is_info,
    is_warning,
    plain,
    role,
    starts_record,
    without_transport,
)

ERROR = "RuntimeError: UVA is not available"


@pytest.mark.parametrize(
    "line",
    [
        ERROR,
        f"(Worker_TP0 pid=7266) ERROR 10-02 21:04:17 [multiproc_executor.py:868] {ERROR}",
        f"(VllmWorker rank=0 pid=9356) ERROR 04-30 21:05:27 [multiproc_executor.py:753] {ERROR}",
        f"(EngineCore_DP0 pid=12) {ERROR}",
        f"ERROR 01-15 02:47:32 multiproc_worker_utils.py:226] {ERROR}",
        f"ERROR 09-13 21:05:10 [core.py:610] {ERROR}",
        f"Oct 02 21:04:17 my-pc vllm[812]: (Worker pid=1) {ERROR}",
        f"2026-10-02T21:04:17+0200 my-pc vllm[812]: {ERROR}",
        f"server-1  | (Worker pid=1) {ERROR}",
        f"\x1b[31m(Worker_TP0 pid=1)\x1b[0;0m \x1b[1;31m{ERROR}\x1b[0m",
        f"\x1b]0;title\x07{ERROR}",
        f"old progress 10%\rold progress 20%\r{ERROR}",
        ERROR + "\r",
        ERROR + "  ",
        "\0".join(ERROR) + "\0",
    ],
)
def test_the_message_alone_is_left(line: str) -> None:
    assert plain(line) == ERROR


def test_text_that_only_looks_like_a_prefix_stays() -> None:
    for line in ("(see page 3)", "ERRORS: something", "  Value error, x", "a | b"):
        assert plain(line) == line


def test_role() -> None:
    assert role("(Worker_TP1 pid=615) INFO x") == "Worker_TP1"
    assert role("(VllmWorker rank=1 pid=9510) x") == "VllmWorker"
    assert role("INFO:     x") == ""


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\nb", ["a", "b"]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"10%\r20%\rdone\nb", ["10%\r20%\rdone", "b"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        ("エラー a\nb\n".encode("utf-16"), ["エラー a", "b"]),
        ("plain words\nb\n".encode("utf-16-le"), ["plain words", "b"]),
        ("plain words\nb\n".encode("utf-16-be"), ["plain words", "b"]),
        (b"a\xff\nb", ["a�", "b"]),
    ],
)
def test_files_are_decoded(data: bytes, lines: list[str]) -> None:
    assert decode_log(data) == lines


@settings(deadline=None)
@given(st.binary())
def test_no_file_raises(data: bytes) -> None:
    lines = decode_log(data)
    assert all("\n" not in line for line in lines)
    for line in lines:
        plain(line)


@settings(deadline=None)
@given(st.text())
def test_cleaning_removes_and_never_moves_line_feeds(text: str) -> None:
    assert clean(text).count("\n") == text.replace("\0", "").count("\n") or "\x1b" in text


def test_level_info_is_told_by_the_beginning_alone() -> None:
    info = [
        "(APIServer pid=1629) INFO 11-29 12:29:05 [x.py:1] text",
        'INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK',
        "PC-01:21412:21412 [0] NCCL INFO Bootstrap: x",
    ]
    other = [
        "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "(EngineCore pid=1) ERROR 11-29 12:29:05 [x.py:1] see INFO above",
        "ERROR:    [Errno 98] x",
        "",
    ]
    assert all(is_info(line) for line in info)
    assert not any(is_info(line) for line in other)


def test_level_warning_of_both_engines() -> None:
    assert is_warning("(APIServer pid=1629) WARNING 11-29 12:29:05 [x.py:1] text")
    assert is_warning("2026-08-28 20:15:01.830 WARNING:  Please note")
    assert is_warning("2026-08-28 20:15:01.830 | WARNING  | Please note")
    assert not is_warning("RuntimeError: see the WARNING above")


@pytest.mark.parametrize("size", [1, 3, 7, 100, 5000])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16"])
def test_a_log_may_come_in_pieces(size: int, encoding: str) -> None:
    text = "エラー one\r\ntwo words and more\n\nlast" * 40
    data = text.encode(encoding)
    decoder = LogDecoder()
    lines = [
        line for at in range(0, len(data), size) for line in decoder.feed(data[at : at + size])
    ]
    assert lines + decoder.finish() == decode_log(data)
    assert decode_log(data) == text.replace("\r\n", "\n").split("\n")


@pytest.mark.parametrize(
    "prefix",
    [
        "Oct 02 21:04:17 my-pc vllm[812]: ",
        "Oct  2 21:04:17 my-pc kernel: ",
        "2026-10-02T21:04:17+0200 my-pc vllm[812]: ",
        "2026-10-02T21:04:17.123456+09:00 my-pc tabby.sh[812]: ",
        "server-1  | ",
        "vllm      | ",
        "2026-10-02T21:04:17.123456789Z ",
    ],
)
def test_foreign_prefixes_of_most_lines_go(prefix: str) -> None:
    lines = ["  Value error, x", "(Worker pid=1) y", "", "Last Result: 1", "RuntimeError: a_b: c"]
    assert without_transport([prefix + line for line in lines]) == lines
    assert without_transport(lines) is lines


def test_a_table_keeps_its_bars() -> None:
    lines = ["2026-07-18 20:15:00.744 | INFO     | x", "| a | b |", "+---+---+"]
    assert without_transport(lines) == lines


def test_cleaning_keeps_the_number_of_lines() -> None:
    lines = ["\x1b]0;never ended", "a\nb", "c\r", "d\r\n"]
    assert len(cleaned(lines)) == len(lines)
    assert cleaned(["\x1b[31mred\x1b[0m", "x\0y"]) == ["red", "xy"]


def test_records_begin_with_a_prefix() -> None:
    for line in ("(Worker pid=1) x", "ERROR 09-13 21:05:10 [core.py:610] x", "[rank0]: x"):
        assert starts_record(line)
    assert starts_record("2026-08-28 20:15:01.830 WARNING:  Please note")
    assert not starts_record("work.") and not starts_record("  File x")
