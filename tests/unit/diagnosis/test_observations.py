"""Speeds, stalls, facts, conditions, timeline: what no single line tells."""

from __future__ import annotations

import pytest

from fixtures.rule_samples import LINES, SHIPPED, expanded
from twinrig.diagnosis.conditions import Condition, Verdict, judge_all, parts
from twinrig.diagnosis.crashes import asynchronous_note, crash_place
from twinrig.diagnosis.explain import Report, diagnose
from twinrig.diagnosis.facts import FactBook
from twinrig.diagnosis.timeline import clock_of, timeline


def report(text: str, **context: str) -> Report:
    return diagnose(expanded(text), "", SHIPPED, context)


def test_speeds_come_in_order_and_speculation_is_none() -> None:
    text = (
        "$READY\n$STATS 23.1 1 0\n"
        "INFO 1 SpecDecoding metrics: Mean acceptance length: 2.89, Accepted throughput: 59.80"
        " tokens/s, Drafted throughput: 95.10 tokens/s\n$STATS 0.0 0 0\n"
        "INFO 1 Avg prompt throughput: 9.1 tokens/s, Avg generation throughput: 7.5 tokens/s,"
        " Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.1%"
    )
    assert report(text).speeds_tps == (23.1, 0.0, 7.5)


def test_speeds_of_tabbyapi_also_folded() -> None:
    line = (
        "$TINFO Metrics (ID: 7b1d): 300 tokens generated in 7.1 seconds (Queue: 0.0 s, Process: 0"
        " cached tokens and 900 new tokens at 2011.4 T/s, Generate: 43.2 T/s, Context: 900 tokens)"
    )
    assert report(line).speeds_tps == (43.2,)
    (whole,) = expanded(line)
    folded = [whole[at : at + 80] for at in range(0, len(whole), 80)]
    assert diagnose(folded, "", SHIPPED).speeds_tps == (43.2,)
    assert report(line.replace("43.2", "Indeterminate")).speeds_tps == ()


def test_silence_of_two_ranks_counts_once() -> None:
    ranks = "\n".join(LINES["STALL"].replace("EngineCore", f"Worker_TP{n % 2}") for n in range(4))
    assert report(f"$VLLM 0.27.1\n$READY\n{ranks}").findings == ()
    assert report(f"$VLLM 0.27.1\n$READY\n{ranks}\n{ranks}").findings != ()


def test_progress_between_ends_a_silence() -> None:
    progress = "\n".join(f"Loading shard {n}" for n in range(12))
    text = f"$VLLM 0.27.1\n$NCCL\n$REDUCE\n$STALL\n$STALL\n{progress}\n$STALL\n$STALL\n$READY"
    assert report(text).findings == ()


def test_the_first_requests_after_a_start_may_be_slow() -> None:
    slow = {"expected_tps": "22", "shared_gpu_memory_gib": "3.0"}
    assert report("$READY\n$STATS 1.0 1 0\n$STATS 21.0 1 0\n$STATS 22.0 1 0", **slow).findings == ()


@pytest.mark.parametrize(
    ("text", "ready"),
    [
        ("$VLLM 0.27.1\n$READY", True),
        ("$TABBY 1.4.2\n$TREADY", True),
        ("$VLLM 0.27.1\n$LOAD", False),
        (
            "$READY\nERROR:    [Errno 98] error while attempting to bind on address ('0', 8):"
            " address already in use",
            False,
        ),
        ("Last Result: 267009 (0x41301)", True),
    ],
)
def test_readiness(text: str, ready: bool) -> None:
    assert report(text).server_ready is ready


def test_facts_are_read_from_the_log_and_context_wins() -> None:
    facts = report("NCCL_P2P_DISABLE=1 vllm serve x -tp 2\n$VLLM 0.28.0\n$LOAD", vllm="0.9").facts
    assert facts["NCCL_P2P_DISABLE"] == "1" and facts["tensor_parallel"] == "2"
    assert facts["vllm"] == "0.9" and facts["engine"] == "vllm"


def test_advice_sets_no_variable() -> None:
    book = FactBook({})
    book.read_environment("RuntimeError: x (run with NCCL_DEBUG=INFO for details)")
    book.read_environment("Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid it")
    assert dict(book.facts()) == {}
    book.read_environment("PC:1:1 [0] NCCL INFO NCCL_CUMEM_ENABLE set by environment to 0.")
    book.read_environment("PYTORCH_ALLOC_CONF=expandable_segments:True python main.py")
    assert book.facts()["NCCL_CUMEM_ENABLE"] == "0"
    assert "expandable_segments" in book.facts()["allocator"]


@pytest.mark.parametrize(
    ("operator", "value", "given", "verdict"),
    [
        ("below", "1.1.0", "1.0.9+cu128", Verdict.HOLDS),
        ("below", "1.1.0", "1.1.0", Verdict.FAILS),
        ("below", "0.30", "0.9", Verdict.HOLDS),
        ("below", "2.7", "2.7.3.0", Verdict.FAILS),
        ("below", "2.7", "unclear", Verdict.UNKNOWN),
        ("at_least", "0.5", "3.1", Verdict.HOLDS),
        ("is", "wsl2", "WSL2", Verdict.HOLDS),
        ("is", "wsl2", None, Verdict.UNKNOWN),
        ("given", "", None, Verdict.FAILS),
        ("given", "", "x", Verdict.HOLDS),
        ("is_true", "", "True", Verdict.HOLDS),
        ("is_false", "", "false", Verdict.HOLDS),
        ("contains", "segments", "expandable_segments:True", Verdict.HOLDS),
        ("matches", "^[^0]", "0", Verdict.FAILS),
    ],
)
def test_conditions(operator: str, value: str, given: str | None, verdict: Verdict) -> None:
    facts = {} if given is None else {"f": given}
    assert Condition("f", operator, value).judge(facts) is verdict
    if verdict is Verdict.UNKNOWN:
        assert Condition("f", operator, value, required=True).judge(facts) is Verdict.FAILS


def test_conditions_together() -> None:
    yes, no, open_ = (Condition(n, "is", "1") for n in ("a", "b", "c"))
    facts = {"a": "1", "b": "2"}
    assert judge_all([yes, open_], facts) is Verdict.UNKNOWN
    assert judge_all([yes, open_, no], facts) is Verdict.FAILS
    assert judge_all([yes], facts) is judge_all([], facts) is Verdict.HOLDS
    assert parts("v1") is None and parts(" 1.4.2+cu128") == (1, 4, 2)


def test_a_missing_fact_lowers_the_confidence() -> None:
    text = "$VLLM 0.28.0\nRuntimeError: UVA is not available"
    (unsure,) = report(text).findings
    assert unsure.confidence == "medium" and "platform" in str(unsure.why)
    (sure,) = report(text, platform="wsl2").findings
    assert sure.confidence == "high" and "platform=wsl2" in str(sure.why)


def test_the_fix_follows_the_version() -> None:
    text = "RuntimeError: UVA is not available"
    old, new = report(text, vllm="0.23.0").findings[0], report(text, vllm="0.28.0").findings[0]
    assert old.finding.fixes[0] == "env-vllm-runner-v1"
    assert new.finding.fixes[0] == "env-vllm-pin-memory"


def test_leftovers_never_suggest_a_lower_share() -> None:
    line = (
        "ValueError: Free memory on device cuda:0 (3.02/23.99 GiB) on startup is less than desired"
        " GPU memory utilization (0.92, 22.07 GiB)."
    )
    found = report(line, leftover_processes="VLLM::EngineCore 6612").findings
    assert found[0].kind.id == "vllm-orphan-workers"
    assert "cfg-lower-gpu-util" not in found[0].finding.fixes
    assert report(line).findings[0].finding.fixes[0] == "cfg-lower-gpu-util"


def test_a_place_of_an_asynchronous_fault() -> None:
    assert crash_place("GPU assert: an illegal memory access ... /x/rep_pen.cu 133") == "rep_pen.cu"
    assert crash_place("CUDA error: an illegal memory access was encountered") == "?"
    assert crash_place("ValueError: x.py:3") == ""
    assert asynchronous_note(["ValueError: x"]) is None


def test_two_crashes_in_one_log() -> None:
    start = "INFO 1 [api_server.py:1] vLLM API server version 0.27.1"
    crash = "GPU assert: an illegal memory access was encountered /x/{} 133"
    one = [start, crash.format("rep_pen.cu")]
    two = [*one, start, crash.format("gather.cu")]
    assert "only where it was noticed" in str(diagnose(one, "", SHIPPED).notes[0])
    assert "different places" in str(diagnose(two, "", SHIPPED).notes[0])


@pytest.mark.parametrize(
    ("line", "clock"),
    [
        ("(Worker pid=1) ERROR 09-12 21:04:38 [x.py:1] y", (9, 12, 21, 4, 38)),
        ("2026-09-01 20:15:01.055 | INFO | x", (9, 1, 20, 15, 1)),
        ("[Sat Sep 12 21:04:38 2026] misc dxg: dxgk: x", (9, 12, 21, 4, 38)),
        ("[  412.77] misc dxg: dxgk: x", None),
        ("RuntimeError: x", None),
    ],
)
def test_clocks(line: str, clock: tuple[int, ...] | None) -> None:
    assert clock_of(line) == clock


def test_one_timeline_of_log_kernel_and_windows() -> None:
    lines = expanded(
        "$VLLM 0.27.1\n$LOAD\n$LOADED\nRuntimeError: CUDA driver error: device not ready"
    )
    found = diagnose(lines, "", SHIPPED)
    moments = timeline(
        (),
        found.findings,
        "[Sat Sep 12 21:04:50 2026] misc dxg: dxgk: dxgkio_make_resident: Ioctl failed: -12\nnoise",
        "2026-09-12 21:05:30 Event ID: 4101",
    )
    assert [m.source for m in moments] == ["log", "kernel", "windows"]
    whole = timeline((), found.findings) + tuple(found.moments)
    assert any(m.line_no == 4 for m in whole)
    merged = diagnose(
        lines,
        "",
        SHIPPED,
        {
            "dmesg": "[Sat Sep 12 21:04:50 2026] misc dxg: dxgk: dxgkio_make_resident:"
            " Ioctl failed: -12"
        },
    ).moments
    assert [m.source for m in merged] == ["log", "kernel", "log", "log"]
    assert [m.at for m in merged[:3]] == ["09-12 21:04:14", "09-12 21:04:50", "09-12 21:05:14"]


def test_what_only_happens_under_wsl_is_a_guess_where_nothing_speaks_of_wsl() -> None:
    linux = "$VLLM 0.28.0\n$NCCL\nRuntimeError: UVA is not available"
    spawn = (
        "WARNING 1 [x.py:1] We must use the `spawn` multiprocessing start method. Reasons: WSL is"
        " detected and NVML is not compatible with fork"
    )
    plain = report(linux)
    assert (plain.kind, plain.findings[0].confidence) == ("unknown", "low")
    assert plain.root is not None and plain.root.line_no == 3
    assert report(f"{spawn}\n{linux}").findings[0].confidence == "high"


def test_versions_of_the_context_have_two_names() -> None:
    text = "$TP\n$TREADY\nGPU assert: an illegal memory access was encountered /x/rep_pen.cu 133"
    assert report(text, exllamav3_version="0.0.43").findings[0].kind.id == "exl3-tp-hostptr"
    assert report(text, exllamav3_version="1.4.2").findings == ()
