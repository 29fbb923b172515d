"""The ``Host`` port over ``wsl.exe``: the same words as for this machine, on either Windows."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time

import pytest

from contract.conftest import Machine
from twinrig.domain.errors import ConflictError, HostAwayError, HostError, UsageError
from twinrig.domain.ports import Script

PIECES = [
    '"',
    "\\",
    "$",
    "$(id)",
    "'",
    "`id`",
    ";",
    "\n",
    "\r",
    " ",
    "%PATH%",
    "!",
    "漢字",
    "é",
    "-n",
]


def random_word(chance: random.Random, limit: int) -> str:
    word = "".join(chance.choices(PIECES, k=chance.randrange(12)))
    return (word * (1 + chance.randrange(limit) // max(1, len(word.encode()))))[: limit // 4]


async def through_the_executable(machine: Machine, rounds: int, seed: int) -> None:
    """Words, a script and data of every size up to 30 kB come out as they went in."""
    chance, host = random.Random(seed), machine.host()
    for turn in range(rounds):
        limit = 30_000 if turn % 10 == 0 else 200
        words = tuple(random_word(chance, limit) for _ in range(chance.randrange(1, 6)))
        data = chance.randbytes(chance.randrange(limit))
        if turn % 2:
            done = await host.run(("printf", "%s\\0", *words))
        else:
            comment = random_word(chance, limit).replace("\r", "").replace("\n", "\n# ")
            text = f"# {comment}\nprintf '%s\\0' \"$@\"; cat"
            done = await host.run(Script("name", text, words), stdin=data)
        expected = "".join(f"{word}\0" for word in words).encode() + (b"" if turn % 2 else data)
        assert (done.returncode, done.stdout) == (0, expected), (seed, turn)


async def test_words_scripts_and_data_arrive_unchanged(machine: Machine) -> None:
    await through_the_executable(machine, 20, 1)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_five_hundred_arrive_unchanged(machine: Machine) -> None:
    await through_the_executable(machine, 500, 2)


async def test_codes_and_missing_programs(machine: Machine) -> None:
    host = machine.host()
    for code in (0, 1, 67, 87, 255):  # two of them never come out of wsl.exe itself
        assert (await host.run(["sh", "-c", f"exit {code}"])).returncode == code
    missing = await host.run(["/no/such/program"])
    assert missing.returncode == 127
    assert b"/no/such/program" in missing.stderr
    assert (await host.run(["sh", "-c", "kill -9 $$"])).returncode == 137


async def test_a_time_out_ends_everything_the_command_started(machine: Machine) -> None:
    host = machine.host()
    text = "echo $$; setsid sleep 300 & echo $!; trap '' HUP; sleep 300 & echo $!; wait"
    done = await host.run(Script("s", text), timeout_s=1.0)
    assert done.timed_out
    assert done.returncode is None
    pids = done.output.split()
    assert len(pids) == 3
    check = 'for pid; do [ ! -d "/proc/$pid" ] || grep -q "^State:.Z" "/proc/$pid/status"; done'
    for pid in pids:
        assert (await host.run(Script("gone", check, (pid,)))).returncode == 0


async def test_a_cancelled_command_is_ended_too(machine: Machine, marker: str) -> None:
    host = machine.host()
    task = asyncio.ensure_future(host.run(Script("s", f"echo $$ > {marker}; sleep 300")))
    for _ in range(200):
        if await host.read_file(marker):
            break
        await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    pid = (await host.read_file(marker) or b"").decode().strip()
    assert (await host.run(["test", "-d", f"/proc/{pid}"])).returncode == 1
    await host.write_file(marker, None)


async def test_a_background_child_does_not_delay_the_answer(machine: Machine) -> None:
    host = machine.host()
    began_s = time.monotonic()
    done = await host.run(Script("s", "nohup sleep 100 & sleep 0.3; echo $!"), timeout_s=60)
    assert done.returncode == 0
    assert time.monotonic() - began_s < 30
    await host.run(["kill", done.output.strip()])


async def test_a_stream_comes_as_it_goes(machine: Machine) -> None:
    host = machine.host()
    chunks = host.stream(Script("s", "echo $$; echo err >&2; sleep 300"))
    seen = b""
    async for chunk in chunks:
        seen += chunk
        if b"err\n" in seen:
            break
    await chunks.aclose()
    pid = seen.split()[0].decode()
    assert (await host.run(["test", "-d", f"/proc/{pid}"])).returncode == 1
    with pytest.raises(HostError, match="cannot be started"):
        async for _ in host.stream(["/no/such/program"]):
            pass
    whole = b"".join([chunk async for chunk in host.stream(["printf", "a\\nb"])])
    assert whole == b"a\nb"


async def test_files(machine: Machine, marker: str) -> None:
    host, path = machine.host(), f"{marker}/sub dir/file"
    assert await host.read_file(path) is None
    await host.write_file(path, b"one", mode=0o640, expected_sha256="")
    mode = (await host.run(["stat", "-c", "%a", path])).output.strip()
    assert (await host.read_file(path), mode) == (b"one", "640")
    with pytest.raises(ConflictError):
        await host.write_file(path, b"two", expected_sha256="")
    with pytest.raises(ConflictError):
        await host.write_file(path, None, expected_sha256="0" * 64)
    seen = hashlib.sha256(b"one").hexdigest()
    await host.write_file(path, bytes(range(256)) * 400, expected_sha256=seen.upper())
    assert await host.read_file(path) == bytes(range(256)) * 400
    assert [e.name for e in await host.list_folder(f"{marker}/sub dir")] == ["file"]
    await host.run(["ln", "-s", path, f"{marker}/link"])
    await host.write_file(f"{marker}/link", b"through the link")
    assert await host.read_file(path) == b"through the link"
    assert (await host.run(["test", "-L", f"{marker}/link"])).returncode == 0
    await host.run(["ln", "-s", "nowhere", f"{marker}/broken"])
    await host.run(["ln", "-s", "..", f"{marker}/up"])
    found = {e.name: (e.is_dir, e.size_bytes) for e in await host.list_folder(marker)}
    assert found == {
        "sub dir": (True, None),
        "link": (False, 16),
        "broken": (False, None),
        "up": (True, None),
    }
    await host.write_file(path, None)
    await host.write_file(path, None)
    assert await host.read_file(path) is None
    await host.run(["rm", "-r", marker])


async def test_reads_that_are_refused(machine: Machine, marker: str) -> None:
    host = machine.host()
    await host.write_file(marker, b"x" * 11)
    await host.run(["mkfifo", f"{marker}.pipe"])
    with pytest.raises(HostError, match="larger than 10"):
        await host.read_file(marker, limit_bytes=10)
    assert await host.read_file(marker, limit_bytes=11) == b"x" * 11
    for path in (f"{marker}.pipe", "/"):
        with pytest.raises(HostError, match="not a regular file"):
            await host.read_file(path)
    for path in ("relative", "C:\\models", "~", ""):
        with pytest.raises(HostError, match="not an absolute path"):
            await host.read_file(path)
    assert await host.list_folder(f"{marker}/below") == ()
    assert await host.list_folder("/no/such/folder") == ()
    await host.run(["rm", marker, f"{marker}.pipe"])


async def test_home_and_tilde(machine: Machine, marker: str) -> None:
    host, name = machine.host(), marker.rpartition("/")[2]
    home = await host.home()
    assert home.startswith("/")
    await host.write_file(f"~/{name}", b"mine")
    assert await host.read_file(f"{home}/{name}") == b"mine"
    await host.write_file(f"~/{name}", None)


async def test_processes(machine: Machine) -> None:
    host = machine.host()
    chunks = host.stream(["env", "TWINRIG_RUN_ID=run 7", "sh", "-c", "echo up; sleep 100; :"])
    async for _ in chunks:
        break
    mine = [p for p in await host.processes() if p.run_id == "run 7"]
    titles = sorted(p.title for p in mine)
    await chunks.aclose()
    assert titles == ["sh -c echo up; sleep 100; :", "sleep 100"]
    assert {p.pid for p in mine} & {p.parent_pid for p in mine}


async def test_root_needs_no_password(machine: Machine) -> None:
    done = await machine.host().run(["sh", "-c", 'echo "$USER $HOME"'], root=True)
    assert done.output.split()[0] == "root"


async def test_the_environment_of_commands(machine: Machine) -> None:
    """Windows' own folders are not on PATH: ``python3`` there would be a program of Windows."""
    done = await machine.host().run(["env"])
    names = dict(line.split("=", 1) for line in done.output.splitlines() if "=" in line)
    assert names["LC_ALL"] == "C.UTF-8"
    assert names["PATH"].endswith(":/usr/lib/wsl/lib")
    assert "mnt" not in names["PATH"]
    assert (await machine.host().run(["nvcc-of-windows"])).returncode == 127


async def test_only_looking_leaves_it_asleep(machine: Machine) -> None:
    await machine.distros.terminate(machine.distro)
    looker = machine.host().only_looking()
    for look in (looker.home, looker.processes, lambda: looker.run(["true"])):
        with pytest.raises(HostAwayError, match="asleep"):
            await look()
    assert machine.distro not in await machine.distros.running()
    await machine.host().home()
    assert (await looker.home()).startswith("/")


async def test_lost_in_the_middle_is_told_apart_from_failed(machine: Machine, marker: str) -> None:
    host = machine.host()
    task = asyncio.ensure_future(host.run(Script("s", f"touch {marker}; sleep 300")))
    for _ in range(200):
        if await host.read_file(marker) is not None:
            break
        await asyncio.sleep(0.1)
    await machine.distros.terminate(machine.distro)
    with pytest.raises(HostAwayError, match="went away"):
        await task
    assert (await host.run(["sh", "-c", f"rm -f {marker}; exit 1"])).returncode == 1


async def test_a_name_that_is_not_there(machine: Machine) -> None:
    with pytest.raises(UsageError, match="no-such-distro"):
        await machine.distros.choose("no-such-distro")
