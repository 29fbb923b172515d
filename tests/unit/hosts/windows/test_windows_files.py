from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from twinrig.domain.errors import ConflictError, HostError
from twinrig.hosts.windows.files import WindowsUserFiles

BYTES = "\ufeff[wsl2]\r\n# 設定\r\n".encode("utf-16-le")


@pytest.fixture
def files(tmp_path: Path) -> WindowsUserFiles:
    home = tmp_path / "山田 太郎"
    home.mkdir()
    return WindowsUserFiles(home)


async def test_bytes_are_written_and_read_as_they_are(files: WindowsUserFiles) -> None:
    path = str(files.config_path)
    assert await files.read_file(path) is None
    await files.write_file(path, BYTES, expected_sha256="")

    assert await files.read_file(path) == BYTES
    config = files.read_config()
    assert (config.encoding, config.sha256) == ("utf-16-le", hashlib.sha256(BYTES).hexdigest())
    await files.write_file(path, None, expected_sha256=config.sha256)
    assert not files.config_path.exists()
    await files.write_file(path, None)


async def test_a_file_that_changed_is_left_alone(files: WindowsUserFiles) -> None:
    files.config_path.write_bytes(b"mine")
    for expected in ("", hashlib.sha256(b"other").hexdigest()):
        with pytest.raises(ConflictError):
            await files.write_file(str(files.config_path), b"new", expected_sha256=expected)

    assert files.config_path.read_bytes() == b"mine"
    assert [p.name for p in files.config_path.parent.iterdir()] == [".wslconfig"]


async def test_no_file_outside_the_users_folder(files: WindowsUserFiles, tmp_path: Path) -> None:
    outside = tmp_path / "hosts"
    outside.write_text("x")
    for path in (str(outside), f"{files.config_path.parent}/../hosts", "relative"):
        with pytest.raises(HostError):
            await files.read_file(path)
        with pytest.raises(HostError):
            await files.write_file(path, b"")

    assert outside.read_text() == "x"


async def test_what_is_no_file_says_so(files: WindowsUserFiles) -> None:
    files.config_path.mkdir()
    with pytest.raises(HostError) as caught:
        await files.read_file(str(files.config_path))

    assert ".wslconfig" in str(caught.value.text)
