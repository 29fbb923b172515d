"""Which distribution is used."""

from __future__ import annotations

import pytest

from twinrig.domain.errors import HostError, UsageError
from twinrig.domain.wsl import (
    DistroState,
    WslDistro,
    choose_distro,
    distro_of,
    is_wsl,
    linux_path,
    target_with,
)

STOPPED = DistroState.STOPPED
UBUNTU = WslDistro("Ubuntu", STOPPED, 2, True)
DEBIAN = WslDistro("Debian", DistroState.RUNNING)
DOCKER = WslDistro("docker-desktop", DistroState.RUNNING)


def test_wanted_then_default_then_the_only_one() -> None:
    assert choose_distro([DEBIAN, UBUNTU], "debian") is DEBIAN
    assert choose_distro([DEBIAN, UBUNTU]) is UBUNTU
    assert choose_distro([DEBIAN]) is DEBIAN
    assert choose_distro([DOCKER, DEBIAN]) is DEBIAN
    assert choose_distro([WslDistro("docker-desktop-data", STOPPED, 2, True), UBUNTU]) is UBUNTU


@pytest.mark.parametrize(
    "name", ["docker-desktop", "Docker-Desktop-data", "rancher-desktop", "podman-machine-default"]
)
def test_those_of_other_programs(name: str) -> None:
    assert WslDistro(name, STOPPED).foreign
    with pytest.raises(HostError, match="only distributions of other programs") as caught:
        choose_distro([WslDistro(name, STOPPED, 2, True)])
    assert "wsl --install -d" in str(caught.value.next_step)
    assert choose_distro([WslDistro(name, STOPPED)], name).name == name


def test_ones_own_is_not_foreign() -> None:
    assert not WslDistro("my-docker-desktop", STOPPED).foreign


def test_none_at_all() -> None:
    for wanted in ("", "Ubuntu"):
        with pytest.raises(HostError, match="no Linux distribution installed"):
            choose_distro([], wanted)


def test_a_name_that_is_not_there_lists_the_others() -> None:
    with pytest.raises(UsageError, match="no WSL distribution Arch") as caught:
        choose_distro([DOCKER, UBUNTU, DEBIAN], "Arch")
    assert "Ubuntu, Debian" in str(caught.value.next_step)
    assert "docker" not in str(caught.value.next_step)


def test_several_and_no_default_asks() -> None:
    with pytest.raises(UsageError, match="several") as caught:
        choose_distro([DEBIAN, WslDistro("Arch", STOPPED)])
    assert "Debian, Arch" in str(caught.value.next_step)


def test_version_1_and_busy_are_refused_with_the_way_out() -> None:
    old = WslDistro("Old", STOPPED, 1, True)
    with pytest.raises(HostError, match="WSL 1") as caught:
        choose_distro([old])
    assert "wsl --set-version Old 2" in str(caught.value.next_step)
    with pytest.raises(HostError, match="WSL 1"):
        choose_distro([old, UBUNTU], "OLD")
    with pytest.raises(HostError, match="being installed"):
        choose_distro([WslDistro("New", DistroState.BUSY, 2, True)])


@pytest.mark.parametrize(
    ("path", "linux"),
    [
        (r"\\wsl.localhost\Ubuntu\home\me\m 1", "/home/me/m 1"),
        (r"\\WSL$\Ubuntu\home", "/home"),
        ("//wsl.localhost/Ubuntu/home/", "/home"),
        (r"\\wsl.localhost\Ubuntu", "/"),
        (r"\\wsl.localhost\Ubuntu" + "\\", "/"),
        (r"C:\Users\me\models", "/mnt/c/Users/me/models"),
        ("d:/x/", "/mnt/d/x"),
        ("C:\\", "/mnt/c"),
        ("/home/me", ""),
        ("~/models", ""),
        ("relative", ""),
        (r"\\server\share\x", ""),
        (r"\\wslx\Ubuntu", ""),
        ("C:", ""),
        ("CC:\\x", ""),
        ("", ""),
    ],
)
def test_paths_of_windows(path: str, linux: str) -> None:
    assert linux_path(path) == linux


def test_the_name_of_the_target() -> None:
    assert target_with("") == "wsl"
    assert target_with("Debian") == "wsl:Debian"
    assert distro_of("wsl:Debian") == "Debian"
    assert distro_of("wsl") == ""
    assert [is_wsl(name) for name in ("wsl", "wsl:X", "wslx", "local")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("name", ["Ubuntu 24.04", "開発", "-x"])
def test_a_name_that_cannot_be_passed_on_is_told(name: str) -> None:
    odd = WslDistro(name, DistroState.STOPPED, 2, True)
    with pytest.raises(HostError, match="cannot be given") as caught:
        choose_distro([odd])
    assert name in str(caught.value)
    other = WslDistro("Debian", DistroState.STOPPED)
    assert choose_distro([odd, other], "debian") is other
