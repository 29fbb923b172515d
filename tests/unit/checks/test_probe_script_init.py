"""Probes of systemd, addresses and ``/etc/wsl.conf``, by a real bash."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from pathlib import Path

import pytest

from fixtures.standard_machine import facts
from twinrig.fixes.wsl_systemd import wsl_conf

from .test_probe_script import ask, program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the script is for Linux")


def test_systemd_is_told_by_its_own_folder(tmp_path: Path) -> None:
    assert ask("init", sysroot=str(tmp_path))["init"].stdout == "systemd=no\n"
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert ask("init", sysroot=str(tmp_path))["init"].stdout == "systemd=yes\n"


def addresses(folder: Path) -> list[str]:
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    output = ask("address", path=path)["address"]
    assert output.returncode == 0
    return output.stdout.splitlines()


def test_the_own_interface_comes_first_and_each_address_once(tmp_path: Path) -> None:
    line = "2: eth0    inet 172.20.1.5/20 brd 172.20.15.255 scope global eth0"
    program(tmp_path / "bin", "ip", f"echo '{line}'")
    program(tmp_path / "bin", "hostname", "echo '172.17.0.1 172.20.1.5 fd00::1 127.0.0.1 '")

    assert addresses(tmp_path) == ["address 172.20.1.5", "address 172.17.0.1"]


def test_without_an_interface_of_that_name_all_addresses_are_told(tmp_path: Path) -> None:
    program(tmp_path / "bin", "ip", 'echo "Device \\"eth0\\" does not exist." >&2; exit 1')
    program(tmp_path / "bin", "hostname", "echo '192.168.1.20 '")

    assert addresses(tmp_path) == ["address 192.168.1.20"]


@pytest.mark.parametrize(
    "data",
    [b"[boot]\r\nsystemd=true\r\n", "# 設定\n[user]\ndefault=u".encode(), b"", b"\xff\xfe\x00"],
)
def test_the_file_comes_over_byte_by_byte(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/wsl.conf").write_bytes(data)
    output = ask("wsl_conf", sysroot=str(tmp_path))["wsl_conf"]
    told = wsl_conf(facts(output))

    assert told.exists and told.text.encode(told.encoding) == data
    assert told.sha256 == hashlib.sha256(data).hexdigest()
    assert base64.b64encode(data).decode() in output.stdout


def test_a_missing_file_is_absent(tmp_path: Path) -> None:
    output = ask("wsl_conf", sysroot=str(tmp_path))["wsl_conf"]

    assert output.stdout == "absent\n"
    assert not wsl_conf(facts(output)).exists
