"""What an unknown cause proposes for the next start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.rule_samples import SHIPPED
from twinrig.diagnosis.explain import diagnose, explain_exit
from twinrig.diagnosis.next_probe import (
    ALONE,
    BLOCKING,
    TALKING,
    UNKNOWN_CAUSE,
    finding_of_failure,
    next_probes,
)

TWO = {"tensor_parallel": "2"}


@pytest.mark.parametrize(
    ("line", "facts", "expected"),
    [
        ("KeyError: 'odd'", {}, ()),
        ("KeyError: 'odd'", {"tensor_parallel": "1"}, ()),
        ("KeyError: 'odd'", TWO, (TALKING, ALONE)),
        ("", TWO, (TALKING, ALONE)),
        ("RuntimeError: CUDA error: an illegal memory access", {}, (BLOCKING,)),
        ("RuntimeError: CUDA error: odd", TWO, (BLOCKING, TALKING, ALONE)),
        ("DistBackendError: NCCL error: remote process exited", TWO, (TALKING, ALONE)),
        ("NCCL error: odd", {**TWO, "NCCL_DEBUG": "info"}, (ALONE,)),
        ("NCCL error: odd", {**TWO, "NCCL_DEBUG": "WARN"}, (TALKING, ALONE)),
        ("CUDA error: odd", {"CUDA_LAUNCH_BLOCKING": "1"}, ()),
        ("CUDA error: odd", {"CUDA_LAUNCH_BLOCKING": "0"}, (BLOCKING,)),
    ],
)
def test_what_is_proposed(line: str, facts: dict[str, str], expected: tuple[str, ...]) -> None:
    assert next_probes(line, facts) == expected


def test_only_an_unknown_cause_proposes_anything() -> None:
    port = ["OSError: [Errno 98] Address already in use"]
    assert diagnose(port, "exit code 1", SHIPPED, TWO).next_probes == ()
    assert diagnose(["INFO: fine"], "", SHIPPED, TWO).next_probes == ()
    wanted = {**TWO, "stop_requested": "true"}
    assert diagnose(["ValueError: odd"], "", SHIPPED, wanted).next_probes == ()
    assert diagnose(["ValueError: odd"], "", SHIPPED, TWO).next_probes == (TALKING, ALONE)


def test_the_failure_of_the_supervisor_carries_them() -> None:
    failure = explain_exit(["ValueError: odd"], "exit code 1", SHIPPED, TWO)
    assert (failure.finding_id, failure.fixes) == ("", (TALKING, ALONE))
    finding = finding_of_failure(failure)
    assert finding is not None
    assert (finding.id, finding.fixes) == (UNKNOWN_CAUSE, (TALKING, ALONE))
    assert finding_of_failure(replace(failure, fixes=())) is None
    known = explain_exit(["OSError: [Errno 98] Address already in use"], "1", SHIPPED, TWO)
    found = finding_of_failure(known)
    assert found is not None and found.id == "port-in-use" and found.params == known.params
