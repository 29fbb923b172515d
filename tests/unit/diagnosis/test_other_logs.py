"""Logs written after the rules, by the catalogue and the engines' own words."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fixtures.rule_samples import SHIPPED
from twinrig.diagnosis.explain import Report, diagnose

FILE = Path(__file__).parents[2] / "fixtures" / "other_logs.yaml"
DATA = yaml.safe_load(FILE.read_text("utf-8"))
SURE = ("high", "medium")


def told(log: str) -> Report:
    for name, part in DATA["parts"].items():
        log = log.replace(f"${name}\n", part)
    assert "$" not in log
    return diagnose(log.rstrip("\n").split("\n"), "", SHIPPED)


def test_there_are_enough() -> None:
    wanted = [row["want"] for row in DATA["logs"]]
    assert len(wanted) >= 80
    assert wanted.count("healthy") >= 10
    assert wanted.count("unknown") >= 15


@pytest.mark.parametrize("row", DATA["logs"], ids=lambda row: row["want"])
def test_the_cause_or_none(row: dict[str, str]) -> None:
    report = told(row["log"])
    sure = [d.kind.id for d in report.findings if d.confidence in SURE]
    if row["want"] == "healthy":
        assert (report.kind, report.findings) == ("healthy", ())
    elif row["want"] == "unknown":
        assert (report.kind, sure) == ("unknown", [])
        assert report.root is not None
    else:
        assert report.findings[0].kind.id == row["want"]
        assert sure[:1] in ([], [row["want"]])
