from __future__ import annotations

import pytest

from twinrig.domain.ini_text import read_ini
from twinrig.domain.wsl_config import (
    ConfigFile,
    idle_timeout_ms,
    networking_mode,
    number,
    size_bytes,
    switch,
    unreadable_entries,
)

TEXT = "[wsl2]\r\n# 日本語\r\nmemory=8GB\r\n"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (TEXT.encode(), "utf-8"),
        (b"\xef\xbb\xbf" + TEXT.encode(), "utf-8"),
        (("\ufeff" + TEXT).encode("utf-16-le"), "utf-16-le"),
        (("\ufeff" + TEXT).encode("utf-16-be"), "utf-16-be"),
        (TEXT.encode("cp932"), "latin-1"),
        (b"\xff\xfe\x00", "latin-1"),
        (b"", "utf-8"),
    ],
)
def test_every_encoding_gives_its_bytes_back(data: bytes, encoding: str) -> None:
    file = ConfigFile.of("C:\\Users\\u\\.wslconfig", data)

    assert file.encoding == encoding
    assert file.text.encode(file.encoding) == data
    assert ConfigFile.from_json(file.to_json()) == file


def test_all_readable_encodings_mean_the_same() -> None:
    for data in (TEXT.encode(), ("\ufeff" + TEXT).encode(), ("\ufeff" + TEXT).encode("utf-16-le")):
        assert ConfigFile.of("x", data).ini().value("WSL2", "Memory") == "8GB"


def test_a_missing_file_is_told_apart_from_an_empty_one() -> None:
    missing, empty = ConfigFile.of("x", None), ConfigFile.of("x", b"")

    assert (missing.exists, missing.sha256) == (False, "")
    assert empty.exists and len(empty.sha256) == 64


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"path": 1}', "nonsense"])
def test_what_is_no_answer_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        ConfigFile.from_json(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8GB", 8 * 1024**3),
        ("512MB", 512 * 1024**2),
        ("8589934592", 8589934592),
        ("0", 0),
        ("8 GB", None),
        ("8gb", None),
        ("8.5GB", None),
        ("half", None),
        ("", None),
    ],
)
def test_sizes(text: str, expected: int | None) -> None:
    assert size_bytes(text) == expected


def test_numbers_and_switches() -> None:
    assert [number(t) for t in ("-1", "60000", "0x10", "1s", "", "1.5")] == [
        *(-1, 60000, 16),
        *(None, None, None),
    ]
    assert [switch(t, True) for t in (None, "False", "0", "no", "TRUE")] == [
        *(True, False, False),
        *(True, True),
    ]


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("", "nat"),
        ("[wsl2]\nnetworkingMode=Mirrored\n", "mirrored"),
        ("[experimental]\nnetworkingmode=mirrored\n", "mirrored"),
        ("[wsl2]\nnetworkingMode=NAT\n[experimental]\nnetworkingMode=mirrored\n", "nat"),
        ("[wsl2]\nnetworkingMode=mirored\n", "nat"),
        ("networkingMode=mirrored\n", "nat"),
    ],
)
def test_networking_mode(text: str, mode: str) -> None:
    assert networking_mode(read_ini(text)) == mode


def test_idle_time_outs() -> None:
    config = read_ini("[general]\ninstanceIdleTimeout = -1\n[wsl2]\nvmIdleTimeout=soon\n")

    assert idle_timeout_ms(config, "general", "instanceIdleTimeout", 15000) == -1
    assert idle_timeout_ms(config, "wsl2", "vmIdleTimeout", 60000) == 60000


def test_entries_that_count_nothing_are_named_and_unknown_keys_are_not() -> None:
    text = (
        "memory=8GB\n[wsl2]\nmemory=8 gb\nswap=4GB\nprocessors=all\nlocalhostForwarding=yes\n"
        "networkingMode=mirored\nsomethingNew=maybe\n[future]\nkey=value\n"
    )

    assert [entry.line_no for entry in unreadable_entries(read_ini(text))] == [1, 3, 5, 6, 7]
