from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from twinrig.cli.format import bar, duration, gib, number, sparkline
from twinrig.cli.plain import plain
from twinrig.domain.checks import CheckResult, Status
from twinrig.messages import Translator, message


def test_duration() -> None:
    assert [duration(s) for s in (-1, 0, 7.9, 60, 754, 3723)] == [
        "0:00",
        "0:00",
        "0:07",
        "1:00",
        "12:34",
        "1:02:03",
    ]


def test_unknown_is_never_zero() -> None:
    assert (gib(None), number(None, "%"), number(0, "%")) == ("n/a", "n/a", "0 %")
    assert bar(None, 4) == "····"
    assert bar(0, 4) == "░░░░"
    assert sparkline([None, 0.0, 5.0, 10.0]) == " ▁▅█"
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([]) == ""


def test_bar_stays_in_its_cells() -> None:
    assert [bar(x, 4) for x in (-1, 0.5, 2)] == ["░░░░", "██░░", "████"]
    assert bar(0.5, 4, unicode=False) == "##--"
    assert sparkline([0.0, 1.0], unicode=False) == ".@"


def test_gib() -> None:
    assert [gib(n) for n in (12 * 2**30, 2**20, 100, 0)] == [
        "12.0 GiB",
        "1 MiB",
        "1 MiB",
        "0.0 GiB",
    ]


@dataclass
class Odd:
    path: Path
    inner: object


def test_plain_makes_json_of_everything() -> None:
    result = CheckResult("gpu", Status.PASS, message("GPUs: {n}", n=2))
    value = {"r": result, "x": math.nan, "t": (1, None, True), "o": Odd(Path("/a"), 1j)}
    assert plain(value, Translator("en")) == {
        "r": {
            "check_id": "gpu",
            "status": "pass",
            "summary": "GPUs: 2",
            "finding": None,
            "evidence": [],
            "duration_s": 0.0,
            "next_step": None,
        },
        "x": None,
        "t": [1, None, True],
        "o": {"path": "/a", "inner": "1j"},
    }
