"""Probes of limits, sessions, shells, holders, drop-ins and hosts, on a tree that is a machine."""

from __future__ import annotations

import base64
import os
import pwd
import sys
from pathlib import Path

import pytest

from twinrig.checks.gpu_links import parse_links

from .test_probe_script import ask, program, put

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the script is for Linux")


def lines(name: str, root: Path, **how: object) -> list[str]:
    output = ask(name, sysroot=str(root), **how)[name]  # type: ignore[arg-type]
    assert output.returncode == 0, output.stderr
    return output.stdout.splitlines()


def test_limits_of_a_started_process(tmp_path: Path) -> None:
    put(
        tmp_path,
        "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max open files            1024                 524288               files     \n"
        "Max locked memory         8388608              unlimited            bytes     \n",
    )
    assert lines("limits", tmp_path) == ["files 1024 524288", "memlock 8388608 unlimited"]


def test_session_with_and_without_lingering(tmp_path: Path) -> None:
    user = pwd.getpwuid(os.getuid()).pw_name
    assert lines("session", tmp_path) == ["systemd=no", "linger=no", f"user={user}"]
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    put(tmp_path, f"var/lib/systemd/linger/{user}", "")
    assert lines("session", tmp_path) == ["systemd=yes", "linger=yes", f"user={user}"]


def test_settings_of_shells_and_logins(tmp_path: Path) -> None:
    put(tmp_path, "etc/environment", 'NCCL_P2P_DISABLE="1"\nEDITOR=vi\n')
    put(
        tmp_path,
        "home/.bashrc",
        "# export NCCL_DEBUG=INFO\n  export PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'\n"
        "export MY_SECRET=hunter2\nalias x='NCCL_DEBUG=INFO y'\n",
    )
    put(tmp_path, "home/.config/fish/config.fish", "set -gx CUDA_VISIBLE_DEVICES 0,1\n")
    home = {"HOME": str(tmp_path / "home")}
    assert lines("shell_settings", tmp_path, env=home) == [
        "checked=yes",
        "set /etc/environment NCCL_P2P_DISABLE=1",
        "set /home/.bashrc PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "set /home/.config/fish/config.fish CUDA_VISIBLE_DEVICES=0,1",
    ]


def test_drop_ins_are_told_with_their_hash(tmp_path: Path) -> None:
    put(tmp_path, "etc/ld.so.conf.d/ld.wsl.conf", "/usr/lib/wsl/lib\n")
    found = lines("drop_ins", tmp_path)
    assert len(found) == 4 and found[0] == "absent /etc/security/limits.d/60-twinrig.conf"
    assert found[3].startswith("sha256 ") and found[3].endswith(" /etc/ld.so.conf.d/ld.wsl.conf")


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("127.0.0.1 localhost\n", "no"),
        ("127.0.1.1\tpc.lan pc\n", "yes"),
        ("# 127.0.1.1 pc\n", "no"),
        ("127.0.1.1 PC\n", "yes"),
        ("127.0.1.1 pcx xpc\n", "no"),
    ],
)
def test_own_name_in_the_hosts_file(tmp_path: Path, text: str, known: str) -> None:
    put(tmp_path, "proc/sys/kernel/hostname", "pc\n")
    put(tmp_path, "etc/hosts", text)
    found = lines("hosts", tmp_path)
    assert found[:2] == ["hostname=pc", f"known={known}"]
    assert base64.b64decode(found[3].removeprefix("base64=")).decode() == text


def test_programs_on_the_cards_and_open_devices(tmp_path: Path) -> None:
    program(
        tmp_path / "bin",
        "nvidia-smi",
        "echo '812, 9500, /usr/bin/python3'; echo '9, [N/A], /x y'; echo 'No running processes'",
    )
    put(tmp_path, "proc/4711/cmdline", "python3\0train.py\0")
    (tmp_path / "proc/4711/fd").mkdir(parents=True)
    (tmp_path / "proc/4711/fd/5").symlink_to("/dev/dxg")
    (tmp_path / "proc/4712/fd").mkdir(parents=True)
    (tmp_path / "proc/4712/fd/5").symlink_to("/dev/null")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    assert lines("holders", tmp_path, path=path) == [
        "app 812 9500 /usr/bin/python3",
        "app 9 - /x y",
        "open 4711 - python3 train.py ",
        "checked=yes",
    ]


def test_config_of_the_model_in_one_line(tmp_path: Path) -> None:
    put(tmp_path, "model/config.json", '{\n\t"a": 1,\r\n "b": 2\n}\n')
    found = lines("model_config", tmp_path, model_path=str(tmp_path / "model"))
    assert found == ['{  "a": 1,   "b": 2 } ']
    assert lines("model_config", tmp_path, model_path=str(tmp_path / "none")) == []


def test_driver_that_does_not_know_the_newer_columns(tmp_path: Path) -> None:
    program(
        tmp_path / "bin",
        "nvidia-smi",
        'case $1 in *power.default_limit*) echo \'Field "pcie.link.gen.max" is not a valid field '
        "to query.'; exit 2 ;; *) echo '0, GPU-1, RTX, 24576, 1, 515.10, 8.6' ;; esac",
    )
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    output = ask("gpu", path=path, sysroot=str(tmp_path))["gpu"]
    assert output.returncode == 0 and parse_links(output) == ()


def test_shared_memory_that_a_process_uses_is_marked(tmp_path: Path) -> None:
    put(tmp_path, "dev/shm/nccl-abc", "x")
    put(
        tmp_path,
        "proc/7/maps",
        "7f00-7f01 rw-s 00000000 00:1a 12 /dev/shm/nccl-abc\n7f02 r-x /lib/x\n",
    )
    found = [line for line in lines("shm", tmp_path) if "nccl" in line]
    assert found == ["mapped /dev/shm/nccl-abc", f"left 1 {tmp_path}/dev/shm/nccl-abc"]
