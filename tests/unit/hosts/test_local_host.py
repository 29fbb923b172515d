"""Commands and files on this machine."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time

import pytest

from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.ports import CommandResult, Script
from twinrig.hosts.local import root_steps
from twinrig.hosts.local.host import LocalHost
from twinrig.hosts.local.proc_table import read_entry


@pytest.fixture
def host(tmp_path):
    return LocalHost({**os.environ, "NCCL_P2P_DISABLE": "1", "BASH_ENV": "/nonexistent"}, tmp_path)


async def test_argv_stdin_and_a_clean_environment(host):
    result = await host.run(["cat"], stdin=b"\xff\x00data")
    assert (result.returncode, result.stdout) == (0, b"\xff\x00data")
    names = (await host.run(["env"])).output
    assert "NCCL_P2P_DISABLE" not in names
    assert "BASH_ENV" not in names


async def test_scripts_get_arguments_keep_their_code_and_are_not_eaten(host):
    script = Script("s", 'cat; echo "$1|$2"; read x; echo "rest"; (exit 7)', ("a b", "$HOME"))
    result = await host.run(script)
    assert result.output == "a b|$HOME\nrest\n"
    assert result.returncode == 7
    with_input = await host.run(Script("s", 'cat; echo "$1"', ("x",)), stdin=b"in ")
    assert with_input.output == "in x\n"
    assert (await host.run(Script("s", "# nothing"))).returncode == 0
    assert (await host.run(Script("s", "echo ran; if"))).output == ""


async def test_a_missing_program_is_127(host):
    assert (await host.run(["/no/such/program"])).returncode == 127


async def test_a_time_out_keeps_output_and_kills_the_whole_tree(host):
    text = "echo $$; setsid sleep 60 & echo $!; sleep 60 & echo $!; wait"
    began_s = time.monotonic()
    result = await host.run(Script("s", text), timeout_s=0.5)
    assert result.timed_out
    assert result.returncode is None
    assert time.monotonic() - began_s < 5
    pids = [int(word) for word in result.output.split()]
    assert len(pids) == 3
    await asyncio.sleep(0.05)
    assert [pid for pid in pids if read_entry(pid) is not None] == []


async def test_a_background_child_does_not_delay_the_answer(host):
    result = await host.run(Script("s", "sleep 30 & echo $!"), timeout_s=20)
    assert result.returncode == 0
    assert result.duration_s < 5
    os.kill(int(result.output), 9)


async def test_a_stream_comes_as_it_goes_and_closing_kills(host):
    chunks = host.stream(Script("s", "echo $$; echo err >&2; sleep 60"))
    seen = b""
    async for chunk in chunks:
        seen += chunk
        if b"err" in seen:
            break
    await chunks.aclose()
    assert read_entry(int(seen.split()[0])) is None
    with pytest.raises(HostError):
        async for _ in host.stream(["/no/such/program"]):
            pass


async def test_files_below_the_prefix(host, tmp_path):
    assert await host.read_file("/etc/wsl.conf") is None
    await host.write_file("/etc/wsl.conf", b"one", mode=0o640, root=True, expected_sha256="")
    path = tmp_path / "etc" / "wsl.conf"
    assert path.read_bytes() == b"one"
    assert path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(ConflictError):
        await host.write_file("/etc/wsl.conf", b"two", expected_sha256="")
    with pytest.raises(ConflictError):
        await host.write_file("/etc/wsl.conf", None, expected_sha256="0" * 64)
    assert path.read_bytes() == b"one"
    seen = hashlib.sha256(b"one").hexdigest()
    await host.write_file("/etc/wsl.conf", b"two", expected_sha256=seen)
    assert await host.read_file("/etc/wsl.conf") == b"two"
    await host.write_file("/etc/wsl.conf", None)
    await host.write_file("/etc/wsl.conf", None)
    assert list((tmp_path / "etc").iterdir()) == []


async def test_reads_that_are_refused(host, tmp_path):
    (tmp_path / "big").write_bytes(b"x" * 11)
    os.mkfifo(tmp_path / "pipe")
    for path, limit in (
        ("/big", 10),
        ("/pipe", 10),
        ("/", 10),
        ("relative", 10),
        ("/../../etc/passwd", 9),
    ):
        with pytest.raises(HostError):
            await host.read_file(path, limit_bytes=limit)
    assert await host.read_file("/big", limit_bytes=11) == b"x" * 11


async def test_a_symbolic_link_is_followed_not_replaced(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    await LocalHost(os.environ).write_file(str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


async def test_processes_include_us_with_our_parent(host):
    mine = {p.pid: p for p in await host.processes()}[os.getpid()]
    assert mine.parent_pid == os.getppid()
    assert "python" in mine.title


def test_root_by_sudo_only_without_a_question(monkeypatch):
    monkeypatch.setattr(root_steps.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(root_steps.shutil, "which", lambda _name: "/usr/bin/sudo")
    assert root_steps.as_root(["id"]) == ("sudo", "-n", "--", "id")
    refused = CommandResult(
        ("sudo", "-n", "--", "id"), 1, b"", b"sudo: a password is required\n", 0.1
    )
    with pytest.raises(HostError) as caught:
        root_steps.check_allowed(refused)
    assert caught.value.next_step is not None
    root_steps.check_allowed(CommandResult(("sudo", "-n", "--", "id"), 1, b"", b"id: no\n", 0.1))
    monkeypatch.setattr(root_steps.shutil, "which", lambda _name: None)
    with pytest.raises(HostError):
        root_steps.as_root(["id"])
