"""The same logs as other tools hand them over: recoded, folded, prefixed, and cut anywhere.

Every labelled sample of every kind, every look-alike, and the logs recorded from a real vLLM. A
log that lost its decisive line may become unknown; it must not become surely something else.
"""

from __future__ import annotations

import io
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.rule_samples import SAMPLES, SHIPPED
from twinrig.diagnosis.explain import Report
from twinrig.services.diagnoser import Diagnoser

DIAGNOSER = Diagnoser(SHIPPED)
RECORDED = Path(__file__).parents[2] / "fixtures" / "vllm"
WIDTH = 80
MOST_WRONG = 0.02
LEAST_RIGHT = 0.97
LEAST_RIGHT_FOLDED = 0.9
"""Most samples are one to three lines: nobody can tell such a piece to be folded. Logs of the
usual length keep the first limit (the narrow window, where every line has a prefix, shows it)."""
FOLDED = ("hard fold", "word fold", "folded in compose")
SURE = ("high", "medium")
Change = Callable[[str], bytes]


@dataclass(frozen=True)
class Log:
    """``kind`` "" = healthy or of an unknown cause; ``not_kind`` is what it only looks like."""

    name: str
    text: str
    context: Mapping[str, str]
    kind: str = ""
    not_kind: str = ""


def told(data: bytes, context: Mapping[str, str]) -> Report:
    return DIAGNOSER.diagnose(io.BytesIO(data), context)


def sure_of(report: Report) -> str:
    first = report.findings[0] if report.findings else None
    return first.kind.id if first and first.confidence in SURE and first.kind.catalogued else ""


def _logs() -> list[Log]:
    logs = []
    for number, sample in enumerate(SAMPLES):
        context = {**sample.context, "exit": sample.exit}
        name = f"{sample}-{number}"
        if sample.wanted:
            kind = SHIPPED.kind(sample.kind)
            known = sample.kind if kind and kind.catalogued else ""
            logs.append(Log(name, "\n".join(sample.lines), context, kind=known))
        else:
            logs.append(Log(name, "\n".join(sample.lines), context, not_kind=sample.kind))
    for path in sorted(RECORDED.glob("*.log")):
        data = path.read_bytes()
        logs.append(Log(path.name, data.decode("utf-8"), {}, kind=sure_of(told(data, {}))))
    return logs


LOGS = _logs()


def each_line(text: str, change: Callable[[int, str], str]) -> bytes:
    return "\n".join(change(i, x) for i, x in enumerate(text.split("\n"))).encode()


def hard_fold(text: str) -> bytes:
    return each_line(
        text,
        lambda _, x: "\n".join(x[i : i + WIDTH] for i in range(0, max(1, len(x)), WIDTH)),
    )


def word_fold(text: str) -> bytes:
    """As rich does in tabbyAPI."""
    return each_line(
        text,
        lambda _, x: "\n".join(
            textwrap.wrap(x, WIDTH, replace_whitespace=False, break_on_hyphens=False) or [""]
        ),
    )


def journal(text: str) -> bytes:
    return each_line(text, lambda i, x: f"Oct 02 21:{i // 60 % 60:02}:{i % 60:02} pc vllm[8]: {x}")


def journal_iso(text: str) -> bytes:
    head = "2026-10-02T21:{:02}:{:02}.123456+09:00 pc python[8]: {}"
    return each_line(text, lambda i, x: head.format(i // 60 % 60, i % 60, x))


def compose(text: str) -> bytes:
    return each_line(text, lambda _, x: f"vllm-server-1         | {x}")


def docker(text: str) -> bytes:
    head = "2026-10-02T21:{:02}:{:02}.123456789Z {}"
    return each_line(text, lambda i, x: head.format(i // 60 % 60, i % 60, x))


CHANGES: dict[str, Change] = {
    "utf-16": lambda t: t.encode("utf-16"),
    "utf-16-le without a mark": lambda t: t.encode("utf-16-le"),
    "crlf": lambda t: t.replace("\n", "\r\n").encode(),
    "utf-16 and crlf": lambda t: t.replace("\n", "\r\n").encode("utf-16"),
    "hard fold": hard_fold,
    "word fold": word_fold,
    "journal": journal,
    "journal iso": journal_iso,
    "compose": compose,
    "docker": docker,
    "colours": lambda t: each_line(t, lambda _, x: f"\x1b[36m{x[:20]}\x1b[0;0m{x[20:]}"),
    "folded in compose": lambda t: compose(hard_fold(t).decode()),
    "journal in a narrow window": lambda t: hard_fold(journal(t).decode()),
}


def cuts(text: str, tenths: int) -> Iterator[bytes]:
    """The beginning of a log, by characters and by lines."""
    lines = text.split("\n")
    yield text[: len(text) * tenths // 10].encode()
    yield "\n".join(lines[: max(1, len(lines) * tenths // 10)]).encode()


def wrong(log: Log, report: Report) -> bool:
    """Surely something that it is not."""
    sure = sure_of(report)
    if log.not_kind:
        return sure == log.not_kind
    return sure not in ("", log.kind)


def test_there_is_something_to_perturb() -> None:
    assert len(LOGS) > 250
    assert len({log.kind for log in LOGS}) > 100
    assert sum(bool(log.not_kind) for log in LOGS) > 50


@pytest.mark.parametrize("name", CHANGES)
def test_another_coat_changes_nothing(name: str) -> None:
    outcome: Counter[str] = Counter()
    for log in LOGS:
        report = told(CHANGES[name](log.text), log.context)
        first = report.findings[0].kind.id if report.findings else ""
        outcome["right" if first == log.kind else "other"] += bool(log.kind)
        if wrong(log, report):
            outcome["wrong"] += 1
            print(f"{log.name}: {sure_of(report)}")
    kinds = sum(bool(log.kind) for log in LOGS)
    print(f"{name}: {dict(outcome)} of {len(LOGS)}")
    assert outcome["wrong"] <= MOST_WRONG * len(LOGS)
    least = LEAST_RIGHT_FOLDED if name in FOLDED else LEAST_RIGHT
    assert outcome["right"] >= least * kinds


@pytest.mark.parametrize("tenths", range(1, 10))
def test_a_log_that_was_cut_is_rarely_surely_something_else(tenths: int) -> None:
    number = bad = 0
    for log in LOGS:
        for data in cuts(log.text, tenths):
            number += 1
            report = told(data, log.context)
            if wrong(log, report):
                bad += 1
                print(f"{log.name}: {sure_of(report)}")
    print(f"cut: {bad} of {number}")
    assert bad <= MOST_WRONG * number
