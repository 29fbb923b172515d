from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.bench_results import MTP, NO_DRAFT, Measured, result
from twinrig.services.bench_store import (
    KEPT,
    BenchmarkStore,
    csv_of,
    difference,
    last_like,
    result_from_json,
    result_to_json,
)

TP = result("TP", NO_DRAFT, {1: (24, 25, 26), 8: Measured((118, 120, 123), stagger=0.03)})
DIED = result("MTP", MTP, {1: Measured((), fault="The reply was cut off.", failures=1)})


@pytest.fixture
def store(tmp_path: Path) -> BenchmarkStore:
    return BenchmarkStore(tmp_path / "benchmarks.json")


def test_what_is_kept_comes_back_the_same(store: BenchmarkStore) -> None:
    assert store.all() == ()
    assert store.add((TP, DIED))
    again = BenchmarkStore(store._path).all()
    assert again == (TP, DIED)
    assert str(again[1].loads[0].fault) == "The reply was cut off."


def test_only_the_newest_are_kept(store: BenchmarkStore) -> None:
    many = [replace(TP, id=str(number)) for number in range(KEPT + 5)]
    assert store.add(many[:3]) and store.add(many[3:])
    assert [r.id for r in store.all()] == [str(n) for n in range(5, KEPT + 5)]
    assert store._path.stat().st_size < 1024 * 1024


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"schema_version": 1}', '{"results": []}', "[" * 90_000]
)
def test_a_damaged_file_is_told_and_left_alone(store: BenchmarkStore, text: str) -> None:
    store._path.write_text(text)
    assert store.all() == ()
    assert "damaged" in str(store.problem())
    assert not store.add((TP,))
    assert store._path.read_text() == text


def test_a_file_of_a_newer_twinrig_is_left_alone(store: BenchmarkStore) -> None:
    store._path.write_text('{"schema_version": 2, "results": []}')
    assert store.all() == () and not store.add((TP,))
    assert "another version" in str(store.problem())


def test_entries_that_are_none_are_left_out(store: BenchmarkStore) -> None:
    good = result_to_json(TP)
    broken = json.loads(json.dumps(good))
    broken["loads"][0]["figures"]["generation_tps"]["median"] = float("nan")
    entries = [good, 5, {}, {**good, "loads": 3}, {**good, "taken_at_s": "soon"}, broken]
    store._path.write_text(json.dumps({"schema_version": 1, "results": entries}))
    assert store.all() == (TP,)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = BenchmarkStore(tmp_path / "file" / "benchmarks.json")
    assert not store.add((TP,))
    assert store.problem() is not None


def test_difference_names_what_was_changed() -> None:
    other = replace(DIED, engine_version="1.5.0")
    assert difference(TP, other) == (
        ("engine.version", "1.4.2", "1.5.0"),
        ("settings.draft_mode", "disabled", "mtp"),
    )
    assert difference(TP, TP) == ()
    bare = replace(TP, settings={})
    assert ("settings.tensor_parallel", None, True) in difference(bare, TP)


def test_the_last_result_is_of_the_same_profile_else_of_the_same_model() -> None:
    old = replace(TP, id="old", group="g0", taken_at_s=1.0)
    older_other = replace(DIED, id="other", group="g0", taken_at_s=2.0)
    elsewhere = replace(TP, id="elsewhere", group="g1", machine="another", taken_at_s=3.0)
    later = replace(TP, id="later", group="g9", taken_at_s=9e9)
    results = (old, older_other, elsewhere, TP, later)
    assert last_like(results, TP) == old
    assert last_like((older_other, elsewhere, TP), TP) == older_other
    assert last_like((TP, elsewhere), TP) is None
    in_turns = replace(TP, id="x")
    assert last_like((in_turns, TP), TP) is None


def test_csv_has_a_line_for_each_load_and_a_spread_beside_each_figure() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_of((TP, DIED)))))
    assert len(rows) == 3
    eight = rows[1]
    assert (eight["streams"], eight["generation_tps"], eight["generation_tps_spread"]) == (
        "8",
        "120",
        "4.8",
    )
    assert eight["stagger"] == "0.03" and eight["prompt_tps"] == ""
    assert eight["gpu1_load_percent"] == "70" and eight["time_utc"] == "1970-01-12T13:46:40+00:00"
    assert json.loads(eight["settings"])["settings.draft_mode"] == "disabled"
    assert rows[2]["failures"] == "1" and rows[2]["generation_tps"] == ""


def test_json_is_plain_data() -> None:
    assert result_from_json(json.loads(json.dumps(result_to_json(TP)))) == TP
