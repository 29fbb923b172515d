from __future__ import annotations

import json
from pathlib import Path

import pytest

from service_fakes import FolderHost
from twinrig.services.sampler_defaults import parse_samplers, read_samplers, request_options


def test_the_models_own_values() -> None:
    data = json.dumps({"temperature": 1.0, "top_k": 20, "top_p": 0.95, "eos_token_id": [1, 2]})
    assert parse_samplers(data.encode()) == {"temperature": 1.0, "top_k": 20, "top_p": 0.95}


def test_a_model_that_wants_no_sampling() -> None:
    assert parse_samplers(b'{"do_sample": false, "temperature": 0.6}') == {"temperature": 0.0}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"temperature": "hot"}',
        b'{"temperature": true}',
        b'{"temperature": 99}',
        b'{"top_p": NaN}',
        b'{"top_k": -1}',
        b"[" * 100_000,
    ],
)
def test_damage_is_left_out(data: bytes) -> None:
    assert parse_samplers(data) == {}


def test_a_request_tells_neutral_values_too_since_a_server_has_defaults_of_its_own() -> None:
    options = request_options({"temperature": 1, "top_k": 0.0, "nonsense": 5})
    assert options == {"temperature": 1.0, "top_k": 0}
    assert isinstance(options["top_k"], int)


async def test_reading_the_folder(tmp_path: Path) -> None:
    host = FolderHost(tmp_path)
    folder = tmp_path / "home/me/model"
    folder.mkdir(parents=True)
    assert await read_samplers(host, "/home/me/model") == {}
    (folder / "generation_config.json").write_text('{"top_k": 64}')
    assert await read_samplers(host, "/home/me/model/") == {"top_k": 64}
    assert await read_samplers(host, "~/model") == {"top_k": 64}
    host.reachable = False
    assert await read_samplers(host, "/home/me/model") == {}
