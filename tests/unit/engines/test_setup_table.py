"""The shipped table of set-ups, which wheels go with which driver, and what is no table."""

from __future__ import annotations

import pytest

from twinrig import assets
from twinrig.engines.registry import load_engines
from twinrig.engines.setup_table import SETUP_TABLE, SetupTableError, fits, parse_setup

TABLE = parse_setup(assets.read_text(SETUP_TABLE))
ROW = "{version: '1', requires: [x], python: '>=3.10', needs_gib: 1, imports: [x], native: [y]"
BUILD = "builds: [{cuda: 12, driver: 525}]"


def test_every_real_engine_has_a_recipe() -> None:
    real = {e.id for e in load_engines(assets.read_text).values() if not e.simulated}
    assert set(TABLE) == real


@pytest.mark.parametrize("engine", ["vllm", "tabbyapi"])
@pytest.mark.parametrize(
    ("driver", "cuda"),
    [(524, None), (525, 12), (570, 12), (579, 12), (580, 13), (617, 13)],
)
def test_a_driver_gets_the_highest_cuda_that_it_runs(
    engine: str, driver: int, cuda: int | None
) -> None:
    build = TABLE[engine].build_for(driver)
    assert (build.cuda if build else None) == cuda


def test_a_source_is_pinned_and_a_package_is_too() -> None:
    assert len(TABLE["tabbyapi"].version) == 40
    assert {b.group for b in TABLE["tabbyapi"].builds} == {"cu12", "cu13"}
    assert TABLE["vllm"].requires == ("vllm=={version}",)
    for build in TABLE["vllm"].builds:
        assert all(f"cu{build.cuda}" in index for index in build.indexes)
        assert all(index.startswith("https://") for index in build.indexes)


@pytest.mark.parametrize(
    ("python", "wanted", "answer"),
    [
        ("3.12.3", ">=3.10,<3.14", True),
        ("3.9.18", ">=3.10,<3.14", False),
        ("3.14.0rc1", ">=3.10,<3.14", False),
        ("garbage", ">=3.10", False),
    ],
)
def test_ranges_of_python(python: str, wanted: str, answer: bool) -> None:
    assert fits(python, wanted) is answer


@pytest.mark.parametrize(
    "text",
    [
        "engines: {}",
        "schema_version: 1",
        f"schema_version: 1\nengines: {{a: {ROW}, builds: []}}}}",
        f"schema_version: 1\nengines: {{a: {ROW}, source: 'https://x', {BUILD}}}}}",
        f"schema_version: 1\nengines: {{a: {ROW.replace('[x]', 'x', 1)}, {BUILD}}}}}",
        f"schema_version: 1\nengines: {{a: {ROW.replace('>=3.10', '3.10 or so')}, {BUILD}}}}}",
        f"schema_version: 1\nengines: {{a: {ROW.replace(', needs_gib: 1', '')}, {BUILD}}}}}",
    ],
)
def test_what_is_no_table(text: str) -> None:
    with pytest.raises(SetupTableError):
        parse_setup(text)


def test_the_row_of_these_tests_is_one() -> None:
    assert parse_setup(f"schema_version: 1\nengines: {{a: {ROW}, {BUILD}}}}}")["a"].needs_bytes > 0
