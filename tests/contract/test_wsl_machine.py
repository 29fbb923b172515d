"""The virtual machine of the double: its life, its kernel, its cards, and its way to Windows.

What only root may set up (mounts and a network of one's own) is skipped for others.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.conftest import REAL
from fixtures.windows_computer import TIMES, Computer, may_mount, windows_computer
from fixtures.windows_of_store import StoreRegistry, windows_of
from service_fakes import profile
from twinrig.checks.registry import CHECKS
from twinrig.domain.checks import CheckResult
from twinrig.domain.errors import HostAwayError, HostError
from twinrig.domain.ports import Script
from twinrig.domain.profile import Network
from twinrig.domain.wsl import DistroState
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.wsl.distros import WslCatalogue
from twinrig.hosts.wsl.registry import read_records
from twinrig.services.installs import EngineFinder
from twinrig.services.preflight import Preflight

pytestmark = [
    pytest.mark.skipif(bool(REAL), reason="a real Windows does not fail on request"),
    pytest.mark.skipif(sys.platform != "linux", reason="the double needs Linux"),
]
needs_root = pytest.mark.skipif(
    not may_mount(), reason="mounts and networks of one's own need root"
)
CARDS: list[dict[str, Any]] = [
    {"uuid": f"GPU-{n}", "name": "NVIDIA GeForce RTX 3090", "total_mib": 24576, "used_mib": 300 + n}
    for n in (1, 2)
]


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    tmp_path.chmod(0o755)
    with windows_computer(tmp_path, clock=20.0) as made:
        yield made


async def awake(computer: Computer, *names: str) -> None:
    for name in names or ("Ubuntu",):
        assert (await computer.host(name).run(["true"])).returncode == 0


async def asleep(computer: Computer) -> None:
    until = time.monotonic() + 30
    while await computer.distros.running():
        assert time.monotonic() < until
        await asyncio.sleep(0.05)


# ------------------------------------------------------------------ its life


async def test_the_machine_outlives_its_distributions_for_a_minute(computer: Computer) -> None:
    await awake(computer)
    await asleep(computer)
    assert computer.store.vm_runs(), "a distribution stops after 15 s, the machine 60 s later"
    await asyncio.sleep(60 / 20 + 0.3)
    assert not computer.store.vm_runs()
    await awake(computer)
    assert computer.store.state()["vm"]["number"] == 2


async def test_a_machine_that_never_stops_by_itself(computer: Computer) -> None:
    """``vmIdleTimeout=-1`` keeps the machine and does not keep a distribution in it."""
    computer.store.set(vm_idle_s=-1, idle_s=1.0)
    await awake(computer)
    await asleep(computer)
    await asyncio.sleep(0.5)
    assert computer.store.vm_runs()
    await computer.distros.shutdown()
    assert not computer.store.vm_runs()


async def test_settings_count_from_the_next_machine_on(computer: Computer) -> None:
    """``.wslconfig`` is read when the machine is made: ``wsl -t`` is not enough."""
    computer.store.set(idle_s=-1)
    await awake(computer)
    computer.store.set(idle_s=0.5)
    await computer.distros.terminate("Ubuntu")
    await awake(computer)
    await asyncio.sleep(0.5)
    assert await computer.distros.running() == frozenset({"Ubuntu"})
    await computer.distros.shutdown()
    await awake(computer)
    await asleep(computer)


async def test_a_new_machine_takes_longer_than_a_second_distribution(computer: Computer) -> None:
    computer.store.add("Debian")
    computer.store.set(vm_boot_s=20.0)
    began = time.monotonic()
    await awake(computer, "Ubuntu")
    first = time.monotonic() - began
    began = time.monotonic()
    await awake(computer, "Debian")
    assert first > 1.0 > time.monotonic() - began


# ------------------------------------------------------------------ its kernel


def private(computer: Computer, **distro: Any) -> None:
    computer.store.set_distro("Ubuntu", private=True, **distro)


async def kernel(computer: Computer, name: str = "Ubuntu") -> tuple[str, str]:
    """Its version, and what ``ptrace_scope`` says: "" without one."""
    text = "cd /proc/sys/kernel; cat osrelease; cat yama/ptrace_scope"
    lines = (await computer.host(name).run(Script("s", text))).output.split()
    return lines[0], "".join(lines[1:])


@needs_root
@pytest.mark.parametrize(
    ("line", "scope"), [("5.15", ""), ("6.6", "1"), ("6.18", "1")], ids=["5.15", "6.6", "6.18"]
)
async def test_the_kernels_of_wsl(computer: Computer, line: str, scope: str) -> None:
    """Yama came with 6.6: before, there is nothing to read and nothing to fix."""
    private(computer)
    computer.store.set(kernel=line)
    version, found = await kernel(computer)
    assert (version.startswith(line), found) == (True, scope)
    result = await check(computer, "ptrace-scope")
    assert result.status == "pass", "1 is enough for all but one recipe"


@needs_root
async def test_a_setting_is_of_the_machine_and_gone_with_it(computer: Computer) -> None:
    private(computer)
    computer.store.add("Debian", private=True)
    path = "/proc/sys/kernel/yama/ptrace_scope"
    await computer.host().run(Script("s", f"echo 0 > {path}"), root=True)
    assert (await kernel(computer, "Debian"))[1] == "0", "one kernel for all"
    await computer.distros.terminate("Ubuntu")
    assert (await kernel(computer))[1] == "0"
    await computer.distros.shutdown()
    assert (await kernel(computer))[1] == "1"


@needs_root
@pytest.mark.parametrize(("systemd", "scope"), [(True, "0"), (False, "1")])
async def test_sysctl_d_is_read_by_systemd_alone(
    computer: Computer, systemd: bool, scope: str
) -> None:
    private(computer, systemd=systemd)
    await computer.host().write_file(
        "/etc/sysctl.d/60-x.conf", b"kernel.yama.ptrace_scope = 0\n", root=True
    )
    await computer.distros.shutdown()
    assert (await kernel(computer))[1] == scope


# ------------------------------------------------------------------ its cards


async def check(computer: Computer, name: str, port: int = 0) -> CheckResult:
    """One check of preflight, with the Linux side and the Windows side of this computer."""
    host = computer.host()
    preflight = Preflight(
        host, CHECKS, EngineFinder(host, {}), SystemClock(), windows=windows_of(computer.store)
    )
    mine = profile(target="wsl", network=Network("127.0.0.1", port)) if port else None
    (result,) = [one async for one in preflight.run(mine, [name])]
    return result


def with_cards(computer: Computer, mode: str, **second: Any) -> None:
    private(computer)
    computer.store.set(gpu=mode, gpus=[CARDS[0], {**CARDS[1], **second}])


@needs_root
@pytest.mark.parametrize("mode", ["old_head", "new_head", "na"])
async def test_both_sides_see_the_same_cards_at_once(computer: Computer, mode: str) -> None:
    """NVIDIA renamed the fields of the head at driver 610; WSL leaves some values out."""
    with_cards(computer, mode)
    assert (await check(computer, "gpu-both-sides")).status == "pass"
    told = (await computer.host().run(["nvidia-smi"])).output
    assert ("KMD Version" in told) == (mode == "new_head")
    assert (await check(computer, "gpu-visible")).status == "pass"
    assert (await computer.host().run(["test", "-e", "/dev/dxg"])).returncode == 0


@needs_root
async def test_a_card_that_linux_does_not_see(computer: Computer) -> None:
    with_cards(computer, "old_head", hidden=True)
    result = await check(computer, "gpu-both-sides")
    assert (result.status, result.finding and result.finding.param("missing")) == ("fail", "GPU-2")


@needs_root
async def test_a_driver_that_was_updated_under_wsl(computer: Computer) -> None:
    with_cards(computer, "old_head")
    driver = {**computer.store.state()["driver"], "outside": "596.49"}
    computer.store.set(driver=driver)
    result = await check(computer, "gpu-both-sides")
    assert result.status == "warn"
    assert result.finding is not None and "wsl-restart" in result.finding.fixes
    computer.store.set(driver={**driver, "inside": "596.49"})
    await computer.distros.shutdown()
    assert (await check(computer, "gpu-both-sides")).status == "pass"


@needs_root
@pytest.mark.parametrize("mode", ["segfault", "no_driver"])
async def test_a_driver_program_that_fails_is_no_card_that_is_missing(
    computer: Computer, mode: str
) -> None:
    """``nvidia-smi`` that crashes, or finds no driver: told as what it is."""
    with_cards(computer, mode)
    seen = await check(computer, "gpu-visible")
    assert seen.status in ("fail", "error")
    assert (await check(computer, "gpu-both-sides")).status in ("skip", "error")


@needs_root
async def test_without_a_driver_there_is_no_program(computer: Computer) -> None:
    private(computer)
    assert (await computer.host().run(["nvidia-smi"])).returncode == 127
    assert (await check(computer, "wsl-driver")).status == "fail"


# ------------------------------------------------------------------ its way to Windows

SERVER = "import http.server as h; h.HTTPServer(('127.0.0.1', int(__import__('sys').argv[1])), \
h.SimpleHTTPRequestHandler).serve_forever()"


async def served(computer: Computer) -> tuple[int, asyncio.Task[object]]:
    """A server in Linux, and its port."""
    from fixtures.wsl_server_rig import free_port

    port = free_port()
    command = [sys.executable, "-S", "-c", SERVER, str(port)]
    task = asyncio.ensure_future(computer.host().run(command, timeout_s=600))
    look = Script("s", f": < /dev/tcp/127.0.0.1/{port}")
    for _ in range(200):
        if (await computer.host().run(look)).returncode == 0:
            return port, task
        await asyncio.sleep(0.05)
    raise AssertionError("no server")


@needs_root
async def test_a_dead_relay_of_localhost(computer: Computer) -> None:
    """The server answers inside WSL and not from Windows, until WSL is restarted."""
    computer.store.set_distro("Ubuntu", network=True)
    port, task = await served(computer)
    assert (await check(computer, "wsl-network", port)).status == "pass"
    computer.store.flag("relay_dead")
    await asyncio.sleep(0.3)
    result = await check(computer, "wsl-network", port)
    assert (result.status, result.finding and result.finding.id) == ("fail", "wsl-localhost-relay")
    assert result.finding is not None and result.finding.fixes[0] == "wsl-restart"
    await computer.distros.shutdown()
    with pytest.raises(HostError):
        await task
    port, task = await served(computer)
    assert (await check(computer, "wsl-network", port)).status == "pass"
    task.cancel()


@needs_root
async def test_a_port_of_windows_is_not_taken_away(computer: Computer) -> None:
    from fixtures.wsl_server_rig import free_port

    computer.store.set_distro("Ubuntu", network=True)
    port = free_port()
    holder = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
    async with holder:
        command = [sys.executable, "-S", "-c", SERVER, str(port)]
        task = asyncio.ensure_future(computer.host().run(command, timeout_s=600))
        await asyncio.sleep(1.0)
        assert not task.done(), "Linux has ports of its own"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# ------------------------------------------------------------------ the rest of wsl.exe


async def test_a_folder_of_windows_that_linux_does_not_know(computer: Computer) -> None:
    """Only without ``--cd`` does it matter where Windows stands: then it is said on stderr."""
    computer.store.flag("lost_folder")
    done = await computer.host().run(["pwd"])
    assert (done.output, done.stderr) == ("/\n", b"")


async def test_the_list_out_of_the_registry_in_any_language(computer: Computer) -> None:
    """One question to ``wsl.exe`` (who runs), and no word of it is read."""
    computer.store.set(language="ja")
    computer.store.flag("inbox")
    computer.store.add("Old", version=1)
    computer.store.add("New", state="Installing")
    await awake(computer)
    registry = StoreRegistry(computer.store)
    before = len(computer.store.calls())
    distros = WslCatalogue(
        computer.executable, computer.environ, records=lambda: read_records(registry), times=TIMES
    )
    found = {d.name: (d.version, d.state, d.default) for d in await distros.list()}
    assert found == {
        "Ubuntu": (2, DistroState.RUNNING, True),
        "Old": (1, DistroState.STOPPED, False),
        "New": (2, DistroState.BUSY, False),
    }
    assert len(computer.store.calls()) == before + 1


async def test_a_distribution_that_is_removed_while_twinrig_runs(computer: Computer) -> None:
    computer.store.add("Debian")
    host = computer.host("Debian")
    assert await host.home()
    task = asyncio.ensure_future(host.run(["sleep", "300"]))
    await asyncio.sleep(0.5)
    words = [computer.executable, "--unregister", "debian"]
    assert subprocess.run(words, env=computer.environ, capture_output=True).returncode == 0
    with pytest.raises(HostAwayError, match="went away"):
        await task
    assert [d.name for d in await computer.distros.list()] == ["Ubuntu"]
    with pytest.raises(HostError, match="no distribution Debian any more") as caught:
        await host.run(["true"])
    assert not isinstance(caught.value, HostAwayError)
    computer.store.add("Debian", state="Installing")
    with pytest.raises(HostAwayError, match="being installed"):
        await host.run(["true"])
    computer.store.set_distro("Debian", state="Stopped")
    assert (await host.run(["echo", "back"])).output == "back\n"


@pytest.mark.parametrize("language", ["en", "ja", "de"])
@pytest.mark.parametrize("flags", [["nagging"], ["nagging", "inbox", "split"]])
async def test_notices_of_a_new_version_change_nothing(
    computer: Computer, language: str, flags: list[str]
) -> None:
    """They stand on standard output, before lists and before what a command writes."""
    computer.store.set(language=language)
    computer.store.flag(*flags)
    computer.store.add("Debian")
    assert await computer.distros.running() == frozenset()
    assert (await computer.host().run(["echo", "out"])).output == "out\n"
    chunks = [chunk async for chunk in computer.host().stream(["echo", "x"])]
    assert b"".join(chunks) == b"x\n"
    assert {d.name: d.version for d in await computer.distros.list()} == {"Ubuntu": 2, "Debian": 2}
    assert await computer.distros.running() == frozenset({"Ubuntu"})
    with pytest.raises(HostError, match="no distribution Arch"):
        await computer.distros.terminate("Arch")
    computer.store.flag(*flags, "e_unexpected")
    with pytest.raises(HostAwayError, match="after sleep"):
        await computer.host().home()


@pytest.mark.parametrize("name", ["Ubuntu 24.04", "開発", 'a"b', "-x"])
async def test_a_name_that_wsl_itself_would_not_give_is_told(computer: Computer, name: str) -> None:
    """Only somebody who edits the registry makes such a one: it is not "none installed"."""
    computer.store.remove_distros()
    computer.store.add(name, default=True)
    registry = StoreRegistry(computer.store)
    distros = WslCatalogue(
        computer.executable, computer.environ, records=lambda: read_records(registry), times=TIMES
    )
    with pytest.raises(HostError, match="cannot be given to wsl") as caught:
        await distros.choose()
    assert name in str(caught.value)
    computer.store.add("Debian")
    assert (await distros.choose("debian")).name == "Debian"


async def test_a_start_script_that_writes_garbage_and_fails(computer: Computer) -> None:
    """``/etc/profile.d`` and the shell's own files play no part, whatever they do."""
    home = computer.store.home / "distros" / "Ubuntu" / "home" / "me"
    home.mkdir(parents=True)
    for name in (".profile", ".bash_profile", ".bashrc", ".bash_login"):
        (home / name).write_bytes(b"printf '\\377\\376END 0\\n'; exec 1>&-; exit 1\n")
    done = await computer.host().run(["printf", "%s", "日本"])
    assert (done.returncode, done.stdout) == (0, "日本".encode())


async def test_a_program_that_crashes_has_its_signal_in_the_code(computer: Computer) -> None:
    """As a shell tells it; ``wsl.exe`` itself would say 11, or 139 with a core."""
    assert (await computer.host().run(["sh", "-c", "kill -SEGV $$"])).returncode == 139


async def test_a_program_that_reads_its_input_eats_no_script(computer: Computer) -> None:
    text = "cat; read -r line; echo after"
    assert (await computer.host().run(Script("s", text))).output == "after\n"
    done = await computer.host().run(Script("s", "head -c 2 >/dev/null; cat"), stdin=b"12345")
    assert done.stdout == b"345"


@needs_root
async def test_a_distribution_whose_user_is_root(computer: Computer) -> None:
    private(computer, user="root")
    assert await computer.host().home() == "/root"
    assert (await computer.host().run(["id", "-u"])).output == "0\n"
    await computer.host().write_file("~/kept", b"x")
    assert await computer.host().read_file("/root/kept") == b"x"
    assert not Path("/root/kept").exists(), "its own, not that of this computer"
