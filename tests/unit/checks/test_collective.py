from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fixtures.standard_machine import (
    COLLECTIVE,
    answer,
    facts,
    missing_program,
    on_linux,
    profile_with,
    timed_out,
)
from twinrig.checks import collective
from twinrig.checks.collective import CHECK, FIXES, judge
from twinrig.domain.checks import CheckResult, Facts, Status
from twinrig.domain.collective import FULL_SIZES_BYTES, parse_report, step_plans

HEALTHY = json.loads(COLLECTIVE)
CUDA_ERROR = (
    "NCCL error in: ProcessGroupNCCL.cpp:3330, unhandled cuda error (run with NCCL_DEBUG=INFO "
    "for details), NCCL version 2.28.9\nncclUnhandledCudaError: Call to CUDA function failed."
)


def with_report(base: Facts | None = None, **changes: Any) -> Facts:
    """The standard machine with a changed report."""
    text = json.dumps({**HEALTHY, **changes})
    base = facts() if base is None else base
    return replace(base, probes={**base.probes, "collective": answer("collective", text)})


def failing(
    error: str = "",
    *,
    ended: str = "failed",
    log: tuple[str, ...] = (),
    bad_from: int = 0,
    status: str = "error",
    base: Facts | None = None,
    peers: tuple[Mapping[str, Any], ...] = (),
) -> Facts:
    """Rank 0 raised ``error``; all-reduces are bad from ``bad_from`` bytes on."""
    ranks = [dict(rank) for rank in HEALTHY["ranks"]]
    if error:
        ranks[0] |= {"error": {"type": "DistBackendError", "text": error}, "exit": 1}
    steps = [
        {**s, "status": status, "wrong": 3 if status == "wrong" else 0, "seconds": None}
        if s["bytes"] >= bad_from
        else s
        for s in HEALTHY["steps"]
    ]
    return with_report(
        base, ended=ended, ranks=ranks, steps=steps, log=list(log), peers=list(peers)
    )


def found(result: CheckResult) -> str:
    assert result.status is Status.FAIL and result.finding is not None
    assert result.finding.id in CHECK.findings
    assert result.finding.fixes == FIXES[result.finding.id]
    assert result.evidence and all(item.text for item in result.evidence)
    return result.finding.id


def test_healthy_pair_passes_with_speed_and_transport() -> None:
    result = judge(facts())

    assert result.status is Status.PASS and result.finding is None
    assert dict(result.summary.params)["mbps"] == "9970"
    assert dict(result.summary.params)["transport"] == "SHM/direct/direct"
    assert "all_reduce  float16  67108864 B  ok  9970.3 MB/s" in result.evidence[0].text


@pytest.mark.parametrize(
    ("kind", "text", "log"),
    [
        (
            "nccl-duplicate-gpu",
            "NCCL error in: x.cpp:1, invalid usage, NCCL version 2.28.9\nncclInvalidUsage: This "
            "usually reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected "
            ": rank 1 and rank 0 both on CUDA device 1e0",
            (),
        ),
        (
            "nccl-duplicate-gpu",
            "NCCL error: invalid usage",
            ("NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device b3000",),
        ),
        ("tp-exceeds-gpus", "rank 1 needs CUDA device 1, but 1 are visible", ()),
        (
            "shm-too-small",
            "unhandled system error",
            (
                "NCCL WARN Error: failed to extend /dev/shm/nccl-aBcDeF to 9637892 bytes, error: "
                "No space left on device (28)",
            ),
        ),
        (
            "shm-too-small",
            "Error while creating shared memory segment /dev/shm/nccl-aBcDeF (size 9637888)",
            (),
        ),
        ("pidfd-getfd-denied", "RuntimeError: pidfd_getfd: Operation not permitted", ()),
        (
            "nccl-mempool-unsupported",
            CUDA_ERROR,
            ("init.cc:437 NCCL WARN Cuda failure 'operation not supported'",),
        ),
        (
            "nccl-ifname-wrong",
            "internal error",
            ("NCCL WARN Bootstrap : no socket interface found",),
        ),
        (
            "nccl-ifname-wrong",
            "DistNetworkError: The client socket has failed to connect to any network address of "
            "(rig, 29500)",
            (),
        ),
        (
            "nccl-lib-mismatch",
            "ImportError: libtorch_cuda.so: undefined symbol: ncclCommWindowRegister",
            (),
        ),
        ("cuda-ipc-unsupported-wsl", "CUDA error: invalid resource handle", ()),
        (
            "nccl-cumem-host",
            "Last error:\nCuda failure 2 'out of memory'",
            ("NCCL WARN Cuda failure 2 'out of memory'", "transport/shm.cc:590 -> 1"),
        ),
        ("nccl-cumem-wsl", CUDA_ERROR, ("NCCL WARN Cuda failure 1 'invalid argument'",)),
        ("nccl-cumem-wsl", CUDA_ERROR, ("NCCL WARN Cuda failure 999 'unknown error'",)),
    ],
)
def test_signatures_of_the_catalogue(kind: str, text: str, log: tuple[str, ...]) -> None:
    assert found(judge(failing(text, log=log))) == kind


def test_cuda_error_of_a_native_machine_is_not_blamed_on_wsl() -> None:
    assert found(judge(failing(CUDA_ERROR, base=on_linux()))) == "nccl-collective-failed"


def test_cause_that_is_switched_off_already_is_ruled_out() -> None:
    cumem = facts(profile=profile_with(env={"NCCL_CUMEM_ENABLE": "0"}))
    assert found(judge(failing(CUDA_ERROR, base=cumem))) == "nccl-collective-failed"
    host = facts(profile=profile_with(env={"NCCL_CUMEM_HOST_ENABLE": "0"}))
    memory = "Cuda failure 2 'out of memory'"
    assert found(judge(failing(f"{memory} unhandled cuda error", base=host))) == "nccl-cumem-wsl"


def test_large_only_fault_needs_the_sizes() -> None:
    text = "CUDA error: an illegal memory access was encountered"
    result = judge(failing(text, bad_from=524288))

    assert found(result) == "nccl-large-collective"
    assert result.finding is not None
    assert result.finding.param("largest_ok_bytes") == "262144"
    assert result.finding.param("first_bad_bytes") == "524288"
    # At every size it is something else.
    assert found(judge(failing(text))) != "nccl-large-collective"
    assert found(judge(failing(text, bad_from=262144))) != "nccl-large-collective"


@pytest.mark.parametrize("log", [(), ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",)])
def test_hang_over_peer_access_or_before_any_channel(log: tuple[str, ...]) -> None:
    assert found(judge(failing(ended="hang", status="hang", log=log))) == "nccl-p2p-hang"


def test_hang_over_shared_memory_is_not_blamed_on_peer_access() -> None:
    log = ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",)
    result = judge(failing(ended="hang", status="hang", log=log))
    assert found(result) == "nccl-collective-failed"


def test_wrong_values_over_peer_access() -> None:
    log = ("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",)
    result = judge(failing(ended="complete", status="wrong", log=log))

    assert found(result) == "p2p-reported-not-usable"
    assert "wrong values: 3" in result.evidence[0].text


def pair(status: str, reported: bool = True) -> dict[str, Any]:
    return {"source": 0, "target": 1, "reported": reported, "status": status}


@pytest.mark.parametrize("status", ["wrong", "hang", "error"])
def test_bad_copy_beside_a_working_nccl_warns_about_the_engines_own_kernels(status: str) -> None:
    result = judge(with_report(peers=[pair(status)]))

    assert result.status is Status.WARN and result.finding is not None
    assert result.finding.id == "p2p-reported-not-usable"
    assert result.finding.fixes[0] == "flag-disable-custom-ar"


def test_bad_copy_matters_neither_unreported_nor_with_own_kernels_off() -> None:
    assert judge(with_report(peers=[pair("wrong", reported=False)])).status is Status.PASS
    off = facts(profile=profile_with(disable_custom_all_reduce=True))
    assert judge(with_report(off, peers=[pair("wrong")])).status is Status.PASS


@pytest.mark.parametrize(
    "text",
    [
        "ModuleNotFoundError: No module named 'torch'",
        "torch sees no CUDA device",
        "CUDA out of memory. Tried to allocate 64.00 MiB.",
    ],
)
def test_what_says_nothing_about_the_cards_is_no_finding(text: str) -> None:
    result = judge(failing(text))
    assert result.status is Status.ERROR and result.finding is None and result.next_step


def test_run_that_was_only_slow_is_no_finding() -> None:
    assert judge(failing(ended="late", status="late")).status is Status.ERROR


@pytest.mark.parametrize(
    "output",
    [
        timed_out("collective"),
        missing_program("collective"),
        answer("collective", "{}"),
        answer("collective", "no json"),
        answer("collective", "", code=1),
        answer("collective", json.dumps({**HEALTHY, "schema": 2})),
    ],
)
def test_could_not_tell(output: Any) -> None:
    result = judge(facts(output))
    assert result.status is Status.ERROR and result.finding is None


def test_every_kind_has_words_and_fixes() -> None:
    report = parse_report(HEALTHY)
    for kind in FIXES:
        assert str(collective._words(kind, report))
        assert FIXES[kind]


def test_sizes_span_both_protocols_and_dtypes() -> None:
    plans = step_plans()
    assert min(FULL_SIZES_BYTES) == 8 and max(FULL_SIZES_BYTES) == 64 << 20
    assert 262144 in FULL_SIZES_BYTES and 524288 in FULL_SIZES_BYTES
    assert {p.op for p in plans} == {"all_reduce", "all_gather", "broadcast", "send_recv", "gather"}
    assert {p.dtype for p in plans} == {"float16", "bfloat16", "float32", "int32"}
    assert next(p for p in plans if p.op == "gather").size_bytes == 248_320 * 2


def test_way_over_the_network_is_told_as_slow() -> None:
    text = COLLECTIVE.replace("via SHM/direct/direct", "via NET/Socket/0")
    result = judge(facts(answer("collective", text)))

    assert result.status is Status.WARN and result.finding is not None
    assert result.finding.id == "nccl-slow-transport"
    assert result.finding.fixes == ("env-nccl-shm-on", "nccl-experiment")
    mixed = COLLECTIVE.replace('"]}', '", "Channel 01 : 1[1] -> 0[0] via NET/Socket/0"]}')
    assert judge(facts(answer("collective", mixed))).status is Status.PASS
