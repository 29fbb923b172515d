"""Measurements on disk: found again only for the same machine, version, model and settings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from twinrig.domain.gpu import GpuInfo
from twinrig.domain.memory import GIB, Measurement
from twinrig.services.calibration import (
    KEPT,
    CalibrationStore,
    machine_key,
    make_measurement,
    match,
    settings_key,
)
from twinrig.sizing.start_log import StartFigures

ONE = Measurement(
    "2x 3090", "vllm", "0.32.0", "/m", 5.0, 8 * GIB, 11 * GIB, 2 * GIB, 9, (1, 2), "k"
)


@pytest.fixture
def store(tmp_path: Path) -> CalibrationStore:
    return CalibrationStore(tmp_path / "state" / "calibration.json")


def test_what_is_stored_is_found_again(store) -> None:
    assert store.all() == ()
    assert store.add(ONE)
    assert store.find("2x 3090", "vllm", "0.32.0", "/m", "k") == ONE
    assert store.like(replace(ONE, taken_at_s=0.0, overhead_bytes=None)) == ONE


@pytest.mark.parametrize(
    "change",
    [
        {"machine": "2x 4090"},
        {"engine_version": "0.33.0"},
        {"model": "/other"},
        {"settings_key": "other"},
        {"engine_id": "tabbyapi"},
    ],
)
def test_another_machine_version_model_or_setting_is_not_it(store, change) -> None:
    store.add(ONE)
    assert store.like(replace(ONE, **change)) is None
    store.add(replace(ONE, **change))
    assert len(store.all()) == 2


def test_the_newest_replaces_its_like(store) -> None:
    store.add(ONE)
    newer = replace(ONE, taken_at_s=6.0, overhead_bytes=3 * GIB)
    store.add(newer)
    assert store.all() == (newer,)


def test_old_ones_go_at_last(store) -> None:
    for number in range(KEPT + 3):
        store.add(replace(ONE, model=f"/m{number}"))
    kept = store.all()
    assert len(kept) == KEPT
    assert kept[0].model == "/m3"


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"measurements": 5}', "[" * 99_999])
def test_a_damaged_file_is_told_and_left_alone(tmp_path, text) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(text)
    store = CalibrationStore(path)
    assert store.all() == ()
    assert "damaged" in str(store.problem())
    assert not store.add(ONE)
    assert path.read_text() == text


def test_binary_and_huge_files_are_told(tmp_path) -> None:
    path = tmp_path / "calibration.json"
    for data in (b"\x00\xff" * 50, b" " * (5 * 2**20)):
        path.write_bytes(data)
        store = CalibrationStore(path)
        assert store.all() == ()
        assert store.problem() is not None


def test_a_newer_file_is_left_alone(tmp_path) -> None:
    path = tmp_path / "calibration.json"
    text = json.dumps({"schema_version": 99, "measurements": []})
    path.write_text(text)
    store = CalibrationStore(path)
    assert store.all() == ()
    assert "another version" in str(store.problem())
    assert not store.add(ONE)
    assert path.read_text() == text


def test_entries_that_are_not_ours_are_skipped(store, tmp_path) -> None:
    store.add(ONE)
    path = tmp_path / "state" / "calibration.json"
    data = json.loads(path.read_text())
    data["measurements"] += [7, {}, {"taken_at_s": "x"}, {"taken_at_s": 1, "weights_bytes": -1}]
    data["measurements"] += [
        {"taken_at_s": 1, "machine": 5},
        {"taken_at_s": 1, "used_bytes": [1.5]},
    ]
    path.write_text(json.dumps(data))
    assert store.all() == (ONE,)


def test_a_folder_that_cannot_be_written_is_told(tmp_path) -> None:
    (tmp_path / "state").write_text("a file where a folder should be")
    store = CalibrationStore(tmp_path / "state" / "calibration.json")
    assert not store.add(ONE)
    assert store.problem() is not None


def test_the_overhead_is_what_is_left_of_the_share() -> None:
    figures = StartFigures(weights_bytes=8 * GIB, pool_bytes=11 * GIB, capacity_tokens=7)
    found = make_measurement(figures, ONE, 21 * GIB)
    assert found is not None
    assert (found.overhead_bytes, found.kv_pool_bytes, found.capacity_tokens) == (
        2 * GIB,
        11 * GIB,
        7,
    )
    assert make_measurement(figures, ONE, None).overhead_bytes is None
    assert make_measurement(figures, ONE, 10 * GIB).overhead_bytes is None
    assert make_measurement(StartFigures(), ONE, 21 * GIB) is None


def test_keys() -> None:
    gpus = [GpuInfo(i, f"u{i}", "RTX", 12) for i in range(2)]
    assert machine_key(gpus) == "RTX 12; RTX 12"
    assert machine_key(gpus) != machine_key(gpus[:1])
    plain = settings_key({"context_length": 5, "max_num_seqs": 8})
    assert plain == settings_key({"max_num_seqs": 8, "context_length": 9})
    assert plain != settings_key({"max_num_seqs": 9})


def test_a_match_ignores_what_the_engine_does_anyway() -> None:
    kept = replace(ONE, settings_key=settings_key({"max_num_seqs": 8, "enforce_eager": False}))
    asked = {"max_num_seqs": 8, "tensor_parallel_size": 1, "language_model_only": False}
    wanted = replace(ONE, settings_key=settings_key(asked), model="/m/")
    assert match((kept,), wanted) == kept
    assert match((kept,), replace(wanted, engine_version="")) == kept
    two = replace(wanted, settings_key=settings_key({**asked, "tensor_parallel_size": 2}))
    assert match((kept,), two) is None
    assert match((kept,), replace(wanted, machine="other")) is None
    assert match((kept,), replace(wanted, engine_version="0.1")) is None
    newer = replace(kept, taken_at_s=9.0)
    assert match((kept, newer), wanted) == newer
    assert match((replace(kept, settings_key="{"),), wanted) is None
