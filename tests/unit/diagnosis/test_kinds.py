"""Every kind of the catalogue is told by its own lines, and not by those that look alike."""

from __future__ import annotations

import pytest

from fixtures.rule_samples import SAMPLES, SHIPPED, Sample
from twinrig.diagnosis.explain import Report, claims, diagnose
from twinrig.diagnosis.scan import LogScan

PREFIXES = {
    "vllm role": "(Worker_TP0 pid=7) {}",
    "vllm logger": "(Worker_TP0 pid=7) ERROR 10-02 21:04:17 [multiproc_executor.py:868] {}",
    "old vllm": "(VllmWorkerProcess pid=7) ERROR 10-02 21:04:17 multiproc_executor.py:226] {}",
    "journald": "Oct 02 21:04:17 my-pc vllm[812]: {}",
    "compose": "server-1  | {}",
    "docker": "2026-10-02T21:04:17.123456789Z {}",
    "colours": "\x1b[31m{}\x1b[0m",
    "carriage return": "{}\r",
}


def report(sample: Sample) -> Report:
    return diagnose(sample.lines, sample.exit, SHIPPED, sample.context)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.wanted], ids=str)
def test_is_told(sample: Sample) -> None:
    found = report(sample)
    assert found.findings, "nothing was found"
    first = found.findings[0]
    assert first.kind.id == sample.kind
    assert first.finding.fixes or not first.kind.catalogued
    for text in (first.text, first.next_step, first.why):
        assert str(text).endswith((".", "}")) or "known" in str(text)
    if first.line_no is not None:
        assert sample.lines[first.line_no - 1].startswith(first.line[:40])


@pytest.mark.parametrize("sample", [s for s in SAMPLES if not s.wanted], ids=str)
def test_a_look_alike_is_not_told(sample: Sample) -> None:
    found = report(sample)
    assert [d.kind.id for d in found.findings[:1]] != [sample.kind]


def test_every_signature_has_a_log_that_shows_it() -> None:
    held: set[int] = set()
    for sample in SAMPLES:
        if sample.wanted:
            scan = LogScan(SHIPPED, sample.context)
            scan.feed(sample.lines)
            kernel = sample.context.get("dmesg", "")
            scan.feed_beside(kernel.splitlines())
            held.update(id(s) for _, s, _ in claims(scan.finish(), sample.exit, SHIPPED))
    lost = [
        (k.id, k.signatures.index(s))
        for k in SHIPPED.kinds
        for s in k.signatures
        if id(s) not in held
    ]
    assert lost == []


def test_every_kind_with_look_alikes_has_a_log_of_one() -> None:
    refused = {s.kind for s in SAMPLES if not s.wanted}
    lost: list[str] = []
    for kind in SHIPPED.kinds:
        limits = any(
            s.excludes or s.not_near or s.near or s.absent or s.before or s.present
            for s in kind.signatures
        )
        needed = bool(kind.unless) or any(c.required for s in kind.signatures for c in s.when)
        if (limits or needed) and kind.catalogued and kind.id not in refused:
            lost.append(kind.id)
    assert lost == []


@pytest.mark.parametrize("name", PREFIXES)
def test_prefixes_change_nothing(name: str) -> None:
    wrong = []
    for sample in SAMPLES:
        if not sample.wanted or any("$" in line for line in sample.lines):
            continue
        transport = name in ("journald", "compose", "docker", "colours", "carriage return")
        single = len(sample.lines) == 1 and " INFO" not in sample.lines[0][:60]
        if not transport and not (single and sample.kind[:4] not in ("wsl-", "task", "wslc")):
            continue
        lines = [PREFIXES[name].format(line) for line in sample.lines]
        found = diagnose(lines, sample.exit, SHIPPED, sample.context).findings
        if not found or found[0].kind.id != sample.kind:
            wrong.append((sample.kind, lines[-1]))
    assert wrong == []
