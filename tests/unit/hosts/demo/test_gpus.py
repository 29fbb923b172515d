"""DemoGpuProbe and the load file between server and cards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from twinrig.hosts.demo.gpus import DemoGpuProbe
from twinrig.hosts.demo.load import (
    LOAD_FILE,
    MAX_BYTES,
    DemoLoad,
    load_files,
    newest_load,
    read_load,
    remove_load,
    write_load,
)
from twinrig.hosts.demo.physics import CARD_TOTAL_BYTES, IDLE_USED_BYTES, MIB

LOAD = DemoLoad(1000.0, 7, (11_000_000_000, 10_000_000_000), (67.0, 70.0), False, 120.0, "r", 18080)


class HandClock:
    def __init__(self) -> None:
        self.time_s = 1000.0

    def __call__(self) -> float:
        return self.time_s


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def place(root: Path, profile: str = "one", below: str = "") -> Path:
    return root / "servers" / profile / below / LOAD_FILE


def test_the_cards_are_two_simulated_ones(tmp_path, clock) -> None:
    cards = DemoGpuProbe(tmp_path, clock).devices()
    assert [card.name for card in cards] == ["NVIDIA GeForce RTX 5070"] * 2
    assert all(card.simulated for card in cards)
    assert all(card.uuid.startswith("GPU-demo") for card in cards)
    assert len({card.uuid for card in cards}) == 2
    driver = DemoGpuProbe(tmp_path, clock).driver()
    assert driver.driver_version is not None
    assert driver.driver_version.startswith("591.")
    assert driver.cuda_version == (13, 1)


def test_without_a_server_the_cards_idle(tmp_path, clock) -> None:
    probe = DemoGpuProbe(tmp_path, clock)
    for _ in range(60):
        first, second = probe.sample()
        clock.time_s += 1.0
        assert first.utilisation_percent is not None
        assert 0 <= first.utilisation_percent <= 4
        assert second.utilisation_percent == 0
        assert abs((first.memory_used_bytes or 0) - IDLE_USED_BYTES[0]) <= 3 * MIB
        assert second.memory_used_bytes == IDLE_USED_BYTES[1]
        assert second.power_w is not None
        assert 8 < second.power_w < 20
        assert first.throttle_reasons == ("idle",)
        assert first.pcie_generation == 1
        assert first.memory_total_bytes == CARD_TOTAL_BYTES
        assert not first.stale


def test_a_loaded_server_shows_on_both_cards(tmp_path, clock) -> None:
    probe = DemoGpuProbe(tmp_path, clock)
    write_load(place(tmp_path), LOAD)
    first, second = probe.sample()
    assert abs((first.utilisation_percent or 0) - 67) <= 2
    assert abs((second.utilisation_percent or 0) - 70) <= 2
    assert second.memory_used_bytes == LOAD.used_bytes[1]
    assert (first.power_w or 0) > 120
    assert (first.temperature_c or 0) > 50  # it has been at work for two minutes
    assert (first.clock_sm_mhz or 0) > 2500
    assert first.pcie_generation == 5
    assert first.throttle_reasons == ()


def test_a_layer_split_reads_about_half_and_half(tmp_path, clock) -> None:
    probe = DemoGpuProbe(tmp_path, clock)
    readings = []
    for _ in range(120):
        split = replace(LOAD, at_s=clock.time_s, busy_percent=(49.0, 48.0), alternating=True)
        write_load(place(tmp_path), split)
        readings.append([s.utilisation_percent or 0 for s in probe.sample()])
        clock.time_s += 1.0137
    assert all(sum(pair) <= 105 for pair in readings)
    assert all(40 <= value <= 57 for pair in readings for value in pair)
    for card in (0, 1):
        mean = sum(pair[card] for pair in readings) / len(readings)
        assert mean == pytest.approx(48.5, abs=1.5)
    assert len({pair[0] for pair in readings}) > 2  # it moves


def test_a_stale_file_means_idle(tmp_path, clock) -> None:
    probe = DemoGpuProbe(tmp_path, clock)
    write_load(place(tmp_path), LOAD)
    clock.time_s += 3.5
    assert (probe.sample()[1].utilisation_percent, probe.sample()[1].memory_used_bytes) == (
        0,
        IDLE_USED_BYTES[1],
    )


def test_the_same_seed_gives_the_same_samples(tmp_path, clock) -> None:
    write_load(place(tmp_path), LOAD)
    one, two, other = (DemoGpuProbe(tmp_path, clock, seed) for seed in (1, 1, 2))
    assert one.sample() == two.sample()
    assert one.sample() != other.sample()


def test_close_is_harmless(tmp_path, clock) -> None:
    probe = DemoGpuProbe(tmp_path, clock)
    probe.close()
    probe.close()
    assert len(probe.sample()) == 2


def test_files_are_found_in_the_servers_folder_and_in_run_folders(tmp_path) -> None:
    paths = [place(tmp_path, "one"), place(tmp_path, "two", "run")]
    for number, path in enumerate(paths):
        write_load(path, replace(LOAD, at_s=1000.0 + number))
    assert sorted(load_files(tmp_path)) == sorted(paths)
    newest = newest_load(load_files(tmp_path), 1001.0)
    assert newest is not None
    assert newest.at_s == 1001.0


def test_round_trip_and_removal(tmp_path) -> None:
    path = place(tmp_path)
    write_load(path, LOAD)
    assert read_load(path) == LOAD
    assert [p.name for p in path.parent.iterdir()] == [LOAD_FILE]
    remove_load(path)
    remove_load(path)
    assert read_load(path) is None


GOOD = json.loads(json.dumps({**LOAD.__dict__}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\x00\xff" * 50,
        b"{}",
        b"[" * 9000,
        b" " * (MAX_BYTES + 1),
        json.dumps({**GOOD, "used_bytes": [1]}).encode(),
        json.dumps({**GOOD, "busy_percent": ["a", "b"]}).encode(),
        json.dumps({**GOOD, "at_s": None}).encode(),
        json.dumps({**GOOD, "used_bytes": [1e999, 1]}).encode(),
    ],
)
def test_a_damaged_file_means_idle_not_a_crash(tmp_path, clock, data) -> None:
    path = place(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    assert read_load(path) is None
    assert DemoGpuProbe(tmp_path, clock).sample()[1].utilisation_percent == 0


def test_percentages_out_of_range_are_bounded(tmp_path) -> None:
    path = place(tmp_path)
    write_load(path, replace(LOAD, busy_percent=(-5.0, 250.0)))
    load = read_load(path)
    assert load is not None
    assert load.busy_percent == (0.0, 100.0)


def test_a_folder_that_cannot_be_made_costs_the_update_only(tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    write_load(tmp_path / "file" / LOAD_FILE, LOAD)
    assert (tmp_path / "file").read_text() == "x"
