"""What goes wrong with WSL, played by the double. Each is told apart, with a way out."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import time
from collections.abc import Awaitable, Callable

import pytest

from fixtures.windows_computer import TIMES, Computer
from twinrig.domain.errors import HostAwayError, HostError, UsageError
from twinrig.domain.ports import Script
from twinrig.domain.wsl import DistroState
from twinrig.hosts.linux_scripts import CUT_CODE, WRITE_FILE
from twinrig.hosts.wsl.distros import WslCatalogue
from twinrig.hosts.wsl.host import WslHost
from twinrig.hosts.wsl.times import WslTimes

SHORT = WslTimes(start_s=3.0, doubt_s=1.0, list_s=3.0, sweep_s=3.0)


async def answers(host: WslHost) -> bool:
    return (await host.run(["printf", "%s", "日本"])).stdout == "日本".encode()


async def refused(look: Callable[[], Awaitable[object]], kind: type[HostError], says: str) -> None:
    with pytest.raises(HostError, match=says) as caught:
        await look()
    assert type(caught.value) is kind
    assert caught.value.next_step is not None


@pytest.mark.parametrize("language", ["en", "ja", "de"])
@pytest.mark.parametrize(
    ("flag", "kind", "says"),
    [
        ("e_unexpected", HostAwayError, "after sleep"),
        ("vmp_missing", HostError, "virtualisation is switched off"),
        ("vm_crashed", HostAwayError, "virtual machine of WSL crashed"),
        ("sharing", HostAwayError, "disk file of Ubuntu is in use"),
    ],
)
async def test_errors_in_every_language(
    computer: Computer, language: str, flag: str, kind: type[HostError], says: str
) -> None:
    computer.store.set(language=language)
    computer.store.flag(flag)
    await refused(computer.host().home, kind, says)


@pytest.mark.parametrize(
    "flags", [["noise"], ["mixed"], ["split"], ["noise", "mixed", "split", "inbox"]]
)
@pytest.mark.parametrize("language", ["en", "ja"])
async def test_noise_changes_no_result(computer: Computer, flags: list[str], language: str) -> None:
    """What WSL, start scripts and mounts write, in two encodings, in any pieces."""
    computer.store.set(language=language)
    computer.store.flag(*flags)
    done = await computer.host().run(Script("s", "echo out; echo err >&2; exit 3"))
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    chunks = [chunk async for chunk in computer.host().stream(["echo", "x"])]
    assert b"".join(chunks) == b"x\n"


@pytest.mark.parametrize("language", ["en", "ja", "de"])
@pytest.mark.parametrize("inbox", [False, True])
async def test_the_list_in_every_language(computer: Computer, language: str, inbox: bool) -> None:
    """An in-box WSL knows no WSL_UTF8 and translates the states."""
    computer.store.set(language=language)
    computer.store.flag(*(["inbox"] if inbox else []))
    computer.store.add("docker-desktop")
    computer.store.add("Old", version=1)
    computer.store.add("New", state="Installing")
    assert await computer.distros.running() == frozenset()
    assert await answers(computer.host())
    found = {d.name: d for d in await computer.distros.list()}
    assert found["Ubuntu"].state is DistroState.RUNNING
    assert (found["Ubuntu"].default, found["Old"].version) == (True, 1)
    assert found["docker-desktop"].state is DistroState.STOPPED
    assert found["docker-desktop"].foreign
    await refused(computer.host("Old").home, HostError, "uses WSL 1")
    if not inbox:
        await refused(computer.host("New").home, HostError, "being installed")
    assert await computer.distros.running() == frozenset({"Ubuntu"})


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("inbox", [False, True])
async def test_no_distribution(computer: Computer, language: str, inbox: bool) -> None:
    computer.store.set(language=language)
    computer.store.flag(*(["inbox"] if inbox else []))
    computer.store.remove_distros()
    assert await computer.distros.list() == ()
    await refused(computer.host().home, HostError, "no Linux distribution installed")


async def test_docker_alone_is_no_distribution(computer: Computer) -> None:
    computer.store.remove_distros()
    computer.store.add("docker-desktop", default=True)
    await refused(computer.host().home, HostError, "other programs: docker-desktop")
    assert await computer.distros.running() == frozenset()


async def test_no_default_and_several(computer: Computer) -> None:
    computer.store.set_distro("Ubuntu", default=False)
    assert await answers(computer.host())
    computer.store.add("Debian")
    with pytest.raises(UsageError, match="several"):
        await computer.host().home()
    assert await answers(computer.host("debian"))


async def test_wsl_is_not_installed(computer: Computer) -> None:
    gone = WslCatalogue(None, computer.environ, times=TIMES)
    await refused(WslHost(gone, computer.environ).home, HostError, "WSL is not installed")
    missing = WslCatalogue("/no/such/wsl.exe", computer.environ, times=TIMES)
    await refused(WslHost(missing, computer.environ).home, HostError, "WSL is not installed")


async def test_wsl_is_there_and_cannot_be_started(computer: Computer, tmp_path) -> None:
    file = tmp_path / "wsl.exe"
    file.write_text("no program")
    broken = WslCatalogue(str(file), computer.environ, times=TIMES)
    await refused(WslHost(broken, computer.environ).home, HostAwayError, "cannot be started")


async def test_everything_hangs_as_after_resume(computer: Computer) -> None:
    computer.store.flag("hang_all")
    began_s = time.monotonic()
    await refused(computer.host(times=SHORT).home, HostAwayError, "WSL does not answer")
    assert time.monotonic() - began_s < 20
    await computer.distros.shutdown()  # the way out that is told
    assert await answers(computer.host())


async def test_a_launch_that_hangs_while_the_list_answers(computer: Computer) -> None:
    computer.store.flag("hang_launch")
    host = computer.host(times=SHORT)
    await refused(host.home, HostAwayError, "did not start within 3 s")


async def test_a_hang_begins_between_two_calls(computer: Computer) -> None:
    """After resume: the list was fine before, the launch hangs and then the list does too."""
    host = WslHost(
        WslCatalogue(computer.executable, computer.environ, times=SHORT),
        computer.environ,
        times=SHORT,
    )
    await host.home()
    computer.store.flag("hang_all")
    await refused(lambda: host.run(["true"]), HostAwayError, "WSL does not answer")


async def test_a_slow_cold_start_is_waited_for(computer: Computer) -> None:
    """The time of a command starts when Linux has started."""
    computer.store.set_distro("Ubuntu", boot_s=2.0)
    done = await computer.host().run(["echo", "up"], timeout_s=1.5)
    assert done.output == "up\n"


async def lost(computer: Computer, act: Callable[[], object]) -> HostError:
    """What a running command tells when ``act`` happens."""
    mark = computer.store.home / "mark"
    host = computer.host()
    task = asyncio.ensure_future(host.run(Script("s", f"touch {mark}; sleep 300")))
    for _ in range(300):
        if mark.exists():
            break
        await asyncio.sleep(0.05)
    await asyncio.to_thread(act)
    with pytest.raises(HostError) as caught:
        await asyncio.wait_for(task, 30)
    return caught.value


@pytest.mark.parametrize("verb", ["--update", "--shutdown", "--terminate"])
async def test_wsl_goes_away_in_the_middle(computer: Computer, verb: str) -> None:
    words = [computer.executable, verb, *(["Ubuntu"] if verb == "--terminate" else [])]
    error = await lost(computer, lambda: subprocess.run(words, env=computer.environ, check=True))
    assert isinstance(error, HostAwayError)
    assert "went away while a command was running" in str(error)
    assert await answers(computer.host())


async def test_the_virtual_machine_crashes_in_the_middle(computer: Computer) -> None:
    assert "went away" in str(await lost(computer, computer.store.stop_all))


async def test_a_stream_says_so_too(computer: Computer) -> None:
    chunks = computer.host().stream(Script("s", "echo on; sleep 300"))
    with pytest.raises(HostAwayError, match="went away"):
        async for chunk in chunks:
            assert chunk == b"on\n"
            await asyncio.to_thread(computer.store.stop_all)


async def test_the_session_ends_under_a_command(computer: Computer) -> None:
    """Sign-out kills without notice: wsl.exe is gone, and Linux with it."""
    error = await lost(computer, computer.store.end_session)
    assert "went away" in str(error) or "killed" in str(error)


async def test_linux_kills_the_shell_for_lack_of_memory(computer: Computer) -> None:
    with pytest.raises(HostError, match="Linux killed the command in Ubuntu"):
        await computer.host().run(Script("s", "kill -9 $PPID; sleep 5"))


async def test_a_user_of_fish_with_a_noisy_profile(computer: Computer, tmp_path) -> None:
    """The user's shell plays no part; in raw mode it would refuse every script."""
    fish = tmp_path / "fish"
    fish.write_text("#!/bin/sh\necho 'fish: Unsupported use of ='; exit 127\n")
    fish.chmod(0o755)
    computer.store.set_distro("Ubuntu", shell=str(fish))
    home = computer.store.home / "distros" / "Ubuntu" / "home" / "me"
    home.mkdir(parents=True, exist_ok=True)
    for name in (".bashrc", ".profile", ".bash_profile"):
        (home / name).write_text("echo NOISE; exit 3\n")
    assert await answers(computer.host())
    assert (await computer.host().run(Script("s", "x=$(echo 1); echo $x"))).output == "1\n"


async def test_a_distribution_without_bash(computer: Computer) -> None:
    computer.store.set_distro("Ubuntu", missing=["/bin/bash"])
    await refused(computer.host().home, HostError, "Ubuntu has no bash")


@pytest.mark.parametrize("flags", [["no_interop"], ["no_windows_path"], []])
async def test_windows_programs_are_never_found(computer: Computer, flags: list[str]) -> None:
    """``python3`` of Windows would be found first by nobody, and ``nvcc`` by nobody at all."""
    computer.store.flag(*flags)
    done = await computer.host().run(["sh", "-c", "command -v nvcc; python3 -c 'print(1)'"])
    assert b"WINDOWS" not in done.stdout


async def test_systemd_off(computer: Computer) -> None:
    computer.store.set_distro("Ubuntu", systemd=False)
    assert await answers(computer.host())


async def test_services_of_linux_keep_nothing_up(computer: Computer) -> None:
    computer.store.set(idle_s=0.5)
    computer.store.set_distro("Ubuntu", services=[["sleep", "300"]])
    assert await answers(computer.host())
    await asyncio.sleep(3.0)
    assert await computer.distros.running() == frozenset()


async def test_idle_time_outs_can_be_switched_off(computer: Computer) -> None:
    """``instanceIdleTimeout=-1``: then nothing stops a distribution by itself."""
    computer.store.set(idle_s=-1)
    assert await answers(computer.host())
    await asyncio.sleep(1.0)
    assert await computer.distros.running() == frozenset({"Ubuntu"})


async def test_open_files_of_windows_keep_it_up(computer: Computer) -> None:
    """Somebody looks into it by Explorer: the stop is put off until that is closed."""
    open_files = computer.store.home / "open-files-Ubuntu"
    open_files.touch()
    computer.store.set(idle_s=0.3)
    assert await answers(computer.host())
    await asyncio.sleep(1.5)
    assert await computer.distros.running() == frozenset({"Ubuntu"})
    open_files.unlink()
    await asyncio.sleep(2.0)
    assert await computer.distros.running() == frozenset()


async def test_the_stub_of_system32_leaves_no_child(computer: Computer, tmp_path) -> None:
    """Ending only the started program would leave the real one; the whole job is ended."""
    computer.store.flag("stub_orphan")
    done = await computer.host().run(Script("s", "echo $$; sleep 300"), timeout_s=1.0)
    assert done.timed_out
    pid = done.output.strip()
    gone = await computer.host().run(["test", "-d", f"/proc/{pid}"])
    assert gone.returncode == 1


async def test_the_disk_is_full_and_the_old_file_stays(computer: Computer) -> None:
    """A limit on the size of files stands for the full disk: the same write fails half-way."""
    host = computer.host()
    await host.write_file("~/kept", b"old")
    text = "ulimit -f 8; " + 'exec /bin/bash --noprofile --norc -c "$1" name "${@:2}"'
    home = await host.home()
    size = b"n" * 100_000
    words = (WRITE_FILE, f"{home}/kept", "644", "-", "write", hashlib.sha256(size).hexdigest())
    done = await host.run(Script("full", text, words), stdin=size)
    assert done.returncode != 0
    assert await host.read_file("~/kept") == b"old"
    assert [e.name for e in await host.list_folder("~/")] == ["kept"]


async def test_a_cut_off_write_replaces_nothing(computer: Computer) -> None:
    """Half of the data under a hash of the whole: as when wsl.exe dies while it is fed."""
    host = computer.host()
    await host.write_file("~/kept", b"old")
    words = ("~/kept", "644", "-", "write", hashlib.sha256(b"whole").hexdigest())
    done = await host.run(Script("write-file", WRITE_FILE, words), stdin=b"wh")
    assert done.returncode == CUT_CODE
    assert await host.read_file("~/kept") == b"old"


async def test_a_file_that_may_not_be_written(computer: Computer) -> None:
    with pytest.raises(HostError, match="cannot be written") as caught:
        await computer.host().write_file("/proc/version/below", b"x")
    assert "permissions" in str(caught.value.next_step)


async def test_two_distributions_share_one_machine(computer: Computer) -> None:
    computer.store.add("Debian")
    assert await answers(computer.host("Ubuntu"))
    assert await answers(computer.host("Debian"))
    await computer.distros.terminate("Debian")
    assert await computer.distros.running() == frozenset({"Ubuntu"})
    await computer.distros.shutdown()
    assert await computer.distros.running() == frozenset()
    await refused(lambda: computer.distros.terminate("Arch"), HostError, "no distribution Arch")


async def test_many_at_once(computer: Computer) -> None:
    host = computer.host()
    done = await asyncio.gather(*(host.run(["echo", str(n)]) for n in range(8)))
    assert [d.output for d in done] == [f"{n}\n" for n in range(8)]
