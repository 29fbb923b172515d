"""The target ``wsl`` as a user has it: the command line against the double of ``wsl.exe``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.windows_computer import Computer, may_mount, windows_computer
from twinrig.domain.errors import HostError
from twinrig.fixes.sysctl_ptrace import CONTENT, PATH

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the double needs Linux")


needs_mounts = pytest.mark.skipif(
    not may_mount(),
    reason="a private /etc and /proc/sys/kernel need root and mounts of one's own",
)


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    with windows_computer(tmp_path, clock=1.0) as made:
        yield made


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Computer]:
    """Its distribution has files and a kernel of its own, and a user without rights."""
    tmp_path.chmod(0o755)
    with windows_computer(tmp_path, clock=1.0) as made:
        made.store.set_distro("Ubuntu", private=True, ptrace_scope="2")
        yield made


def twinrig(computer: Computer, *words: str, code: int | None = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "twinrig", "--target", "wsl", *words],
        env=computer.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert code is None or done.returncode == code, f"{done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def read_json(computer: Computer, *words: str, code: int | None = None) -> Any:
    return json.loads(twinrig(computer, *words, "--json", code=code))


def by_id(found: Any) -> dict[str, Any]:
    return {result["check_id"]: result for result in found["results"]}


def test_preflight_asks_linux_through_wsl(computer: Computer) -> None:
    found = read_json(computer, "doctor")
    assert found["target"] == "wsl"
    results = by_id(found)
    assert results["disk-free"]["status"] in ("pass", "warn", "fail")
    assert [r["check_id"] for r in results.values() if r["status"] == "error"] == []
    launches = [call for call in computer.store.calls() if "mode=exec" in call["note"]]
    assert launches
    assert all(
        call["cmdline"].endswith("--exec /bin/bash --noprofile --norc -s") for call in launches
    )


def test_the_distribution_that_was_named(computer: Computer) -> None:
    computer.store.add("Debian")
    twinrig(computer, "--distro", "debian", "doctor", code=None)
    assert {c["note"].split()[-1] for c in computer.store.calls() if c["note"]} == {"distro=Debian"}
    told = twinrig(computer, "--distro", "Arch", "doctor", code=3)
    assert "There is no WSL distribution Arch." in told
    assert "Ubuntu, Debian" in told


def test_a_distribution_goes_with_this_target_only(computer: Computer) -> None:
    told = twinrig(computer, "--distro", "Debian", "--target", "demo", "doctor", code=2)
    assert "--distro goes with --target wsl only" in told


@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        ("e_unexpected", "after sleep"),
        ("vmp_missing", "virtualisation is switched off"),
        ("no_distros", "no Linux distribution installed"),
        ("version_1", "uses WSL 1"),
    ],
)
def test_what_is_wrong_with_wsl_is_told_with_a_next_step(
    computer: Computer, scenario: str, says: str
) -> None:
    if scenario == "no_distros":
        computer.store.remove_distros()
    elif scenario == "version_1":
        computer.store.set_distro("Ubuntu", version=1)
    else:
        computer.store.flag(scenario)
    told = twinrig(computer, "doctor", code=None)
    assert says in told


def test_looking_at_status_starts_nothing(computer: Computer) -> None:
    twinrig(computer, "status")
    twinrig(computer, "watch", "--once", code=None)
    assert computer.store.distro("Ubuntu")["state"] == "Stopped"


def test_a_profile_made_from_what_explorer_shows(computer: Computer) -> None:
    shown = r"\\wsl.localhost\Ubuntu\home\me\models\x"
    words = ("profiles", "new", "P", "--engine", "vllm", "--model", shown)
    made = read_json(computer, "--distro", "ubuntu", *words, code=0)
    assert made["model"]["path"] == "/home/me/models/x"
    assert (made["target"], made["distro"]) == ("wsl", "ubuntu")


@needs_mounts
def test_a_fix_with_root_and_its_undo(private: Computer) -> None:
    """As the user, without a password; ``/etc`` and the kernel are those of the distribution."""
    etc = private.store.home / "distros" / "Ubuntu" / Path(PATH).relative_to("/")
    scope = private.store.home / "kernel" / "yama" / "ptrace_scope"
    assert by_id(read_json(private, "doctor"))["ptrace-scope"]["status"] == "warn"
    told = twinrig(private, "fix", "sysctl-ptrace-0", "--yes", code=None)
    assert etc.read_text() == CONTENT, told
    assert etc.stat().st_uid == 0
    assert scope.read_text().strip() == "0"
    roots = [c for c in private.store.calls() if "user=root" in c["note"]]
    assert len(roots) >= 2
    assert not Path(PATH).exists()
    entry = read_json(private, "undo")["entries"][0]["id"]
    twinrig(private, "undo", entry, "--yes")
    assert not etc.exists()
    assert scope.read_text().strip() == "2"


@needs_mounts
@pytest.mark.parametrize("scenario", ["readonly_etc", "disk_full"])
async def test_a_write_that_linux_refuses_leaves_the_old_file(
    private: Computer, scenario: str
) -> None:
    private.store.flag(scenario)
    host = private.host()
    path = "/etc/hostname" if scenario == "readonly_etc" else "/home/me/kept"
    if scenario == "disk_full":
        await host.write_file(path, b"old")
    before = await host.read_file(path)
    with pytest.raises(HostError, match="cannot be written") as caught:
        await host.write_file(path, b"n" * 200_000, root=scenario == "readonly_etc")
    assert "free space" in str(caught.value.next_step)
    assert await host.read_file(path) == before


@needs_mounts
async def test_the_user_of_a_distribution_is_not_root(private: Computer) -> None:
    host = private.host()
    assert (await host.run(["id", "-u"])).output != "0\n"
    assert (await host.run(["id", "-u"], root=True)).output == "0\n"
    with pytest.raises(HostError, match="Permission denied"):
        await host.write_file("/etc/sysctl.d/60-mine.conf", b"x")
    await host.write_file("/etc/sysctl.d/60-mine.conf", b"x", root=True, mode=0o600)
    with pytest.raises(HostError, match="cannot be read"):
        await host.read_file("/etc/sysctl.d/60-mine.conf")
