"""The demo server's configuration file: every fault named, nothing guessed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twinrig.domain.errors import ProfileError
from twinrig.files import FileTooLargeError
from twinrig.hosts.demo.config import DemoConfig, load_config, parse_config


def faults(values: object) -> dict[str, str]:
    with pytest.raises(ProfileError) as caught:
        parse_config(json.dumps(values), "x.json")
    return {error.path: str(error.text) for error in caught.value.errors}


def test_an_empty_object_gives_the_defaults() -> None:
    assert parse_config("{}", "x.json") == DemoConfig()


def test_no_file_gives_both_cards() -> None:
    assert load_config(None).card_count == 2


def test_values_are_taken() -> None:
    config = parse_config(
        json.dumps({"port": 1234, "speed_scale": 3, "fault": "hang", "pipeline_parallel_size": 2}),
        "x.json",
    )
    assert (config.port, config.speed_scale, config.fault) == (1234, 3, "hang")
    assert config.card_count == 2


def test_all_faults_come_at_once() -> None:
    found = faults(
        {
            "port": 0,
            "host": 5,
            "colour": "red",
            "max_num_seqs": True,
            "gpu_memory_utilization": 1.5,
            "fault": "flood",
            "context_length": 1.5,
        }
    )
    assert set(found) == {
        "port",
        "host",
        "colour",
        "max_num_seqs",
        "gpu_memory_utilization",
        "fault",
        "context_length",
    }
    assert found["port"] == "must be from 1 to 65535"
    assert found["colour"] == "is not known"


def test_nan_is_out_of_range() -> None:
    assert "speed_scale" in faults({"speed_scale": float("nan")})


def test_four_cards_are_too_many() -> None:
    assert "pipeline_parallel_size" in faults(
        {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}
    )


@pytest.mark.parametrize("data", ["", "{", "[]", "3", "null", "[" * 100_000, b"\xff\xfe\x00"])
def test_damaged_files(data) -> None:
    with pytest.raises(ProfileError):
        parse_config(data, "x.json")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b" " * (5 * 1024 * 1024))
    with pytest.raises(FileTooLargeError):
        load_config(str(path))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_config(str(tmp_path / "none.json"))
