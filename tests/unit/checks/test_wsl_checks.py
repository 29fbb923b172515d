"""Checks of how WSL is set up: version, systemd, idle time-outs, its file, memory, network."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.standard_machine import PROFILE, answer, facts, on_linux
from fixtures.standard_windows import GIB, config_answer
from twinrig.checks import (
    lan_open,
    wsl_distro_version,
    wsl_idle,
    wsl_network,
    wsl_systemd,
    wslconfig,
    wslconfig_memory,
)
from twinrig.domain.checks import CheckResult, ProbeOutput, Status
from twinrig.domain.profile import Network, Profile


def kind(result: CheckResult) -> tuple[Status, str]:
    return result.status, result.finding.id if result.finding else ""


def fixes(result: CheckResult) -> tuple[str, ...]:
    assert result.finding is not None
    return result.finding.fixes


def config(text: str | bytes | None) -> ProbeOutput:
    return answer("windows_wslconfig", config_answer(text))


@pytest.mark.parametrize(
    ("kernel", "status"),
    [
        ("6.6.114.1-microsoft-standard-WSL2", Status.PASS),
        ("6.18.2-my-own-kernel", Status.PASS),
        ("5.15.167.4-microsoft-standard-WSL2+", Status.PASS),
        ("4.4.0-26100-Microsoft", Status.FAIL),
    ],
)
def test_version_of_the_distribution(kernel: str, status: Status) -> None:
    system = answer("system", f"kernel={kernel}\nwsl=yes\n")
    assert wsl_distro_version.judge(facts(system)).status is status


def test_systemd() -> None:
    off = answer("init", "systemd=no\n")

    assert kind(wsl_systemd.judge(facts(off))) == (Status.WARN, "wsl-systemd-off")
    assert fixes(wsl_systemd.judge(facts(off))) == ("wsl-enable-systemd",)
    assert wsl_systemd.judge(on_linux(off)).status is Status.PASS


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (None, Status.PASS),
        ("[general]\ninstanceIdleTimeout=-1\n", Status.PASS),
        ("[general]\ninstanceIdleTimeout=-1\n[wsl2]\nvmIdleTimeout=-1\n", Status.PASS),
        ("[general]\ninstanceIdleTimeout=600000\n", Status.PASS),
        ("[general]\ninstanceIdleTimeout=soon\n", Status.PASS),
        ("[wsl2]\nvmIdleTimeout=-1\n", Status.WARN),
        ("[wsl2]\ninstanceIdleTimeout=-1\nvmIdleTimeout=-1\n", Status.WARN),
        ("[general]\ninstanceIdleTimeout=0\n", Status.WARN),
    ],
)
def test_idle_time_outs(text: str | None, status: Status) -> None:
    result = wsl_idle.judge(facts(config(text)))

    assert result.status is status
    if status is Status.WARN:
        assert kind(result)[1] == "server-vanished-session"
        assert fixes(result) == ("wsl-keepalive",)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[wsl2]\nmemory=8GB\nsomethingNew=1\n# x\n", None),
        ("", None),
        ("\ufeff[wsl2]\r\nmemory=8GB\r\n", None),
        ("[wsl2]\nmemory=8 gb\n", "2"),
        ("memory=8GB\n", "1"),
        ("[wsl2]\nmemory=8GB\nMEMORY=9GB\n", "3"),
        ("[wsl2]\n\nmemory 8GB\nswap=x\n", "3"),
    ],
)
def test_lines_that_count_nothing(text: str, line: str | None) -> None:
    result = wslconfig.judge(facts(config(text)))

    assert (result.status is Status.PASS) == (line is None)
    if line is not None:
        assert result.finding is not None
        assert (result.finding.id, result.finding.param("line")) == ("wslconfig-invalid", line)


def test_a_file_in_another_encoding_is_read() -> None:
    for data in (b"\xff\xfe" + "[wsl2]\r\nmemory=8gb\r\n".encode("utf-16-le"), b"# \x83\x81\r\n"):
        result = wslconfig.judge(facts(config(data)))
        assert result.status is (Status.WARN if b"m\x00" in data else Status.PASS)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (None, Status.PASS),  # half of 64 GiB
        ("[wsl2]\nmemory=48GB\n", Status.PASS),
        ("[wsl2]\nmemory=8GB\n", Status.FAIL),  # 8 + 2 GiB; 12.6 are needed
        ("[wsl2]\nmemory=8GB\nswap=16GB\n", Status.PASS),
        ("[wsl2]\nmemory=12GB\nswap=0\n", Status.FAIL),
        ("[wsl2]\nmemory=64GB\n", Status.WARN),
        ("[wsl2]\nmemory=8 gb\n", Status.PASS),  # counts nothing
    ],
)
def test_memory_that_wsl_may_use(text: str | None, status: Status) -> None:
    result = wslconfig_memory.judge(facts(config(text)))

    assert result.status is status
    if status is not Status.PASS:
        assert kind(result)[1] == "ram-oom-killed"
        assert fixes(result) == ("wslconfig-memory",)


def test_defaults_of_wsl_on_a_small_computer() -> None:
    small = answer("windows_memory", f"total_bytes={16 * GIB}\n")
    assert kind(wslconfig_memory.judge(facts(small)))[0] is Status.FAIL


# --- the way from Windows to the server

SERVED = "checked=8000\nlisten 0100007F 12345 1000\nbusy 8001\n"
FREE = "checked=8000\nbusy 8001\n"


def network(
    *lines: str, connect: str = "refused", port: str = FREE, text: str | None = None
) -> CheckResult:
    rows = "".join(f"{line}\n" for line in lines)
    told = answer("windows_network", f"{rows}checked=8000\nconnect={connect}\n")
    return wsl_network.judge(facts(told, answer("port", port), config(text)))


def test_a_server_that_windows_reaches() -> None:
    assert network(connect="ok", port=SERVED).status is Status.PASS


@pytest.mark.parametrize("connect", ["refused", "timeout"])
def test_a_relay_that_is_gone(connect: str) -> None:
    result = network(connect=connect, port=SERVED)

    assert kind(result) == (Status.FAIL, "wsl-localhost-relay")
    assert fixes(result) == ("wsl-restart", "use-vm-address")


def test_the_cause_of_a_missing_relay_is_named_by_its_fix() -> None:
    off = network(port=SERVED, text="[wsl2]\nlocalhostForwarding=false\n")
    mirrored = network(port=SERVED, text="[wsl2]\nnetworkingMode=mirrored\n")

    assert fixes(off)[0] == "wslconfig-localhost"
    assert "wslconfig-nat" in fixes(mirrored)


def test_a_program_of_windows_has_the_port() -> None:
    result = network("listen 127.0.0.1 4711 python.exe", connect="ok")

    assert kind(result) == (Status.FAIL, "port-in-use")
    assert result.finding is not None
    # 8001 is taken in Linux.
    assert result.finding.param("free_port") == "8002"
    assert "python.exe" in str(result.summary)


def test_a_port_that_windows_keeps_for_itself() -> None:
    result = network("excluded 7990 8005")

    assert kind(result) == (Status.FAIL, "port-in-use")
    assert result.finding is not None and result.finding.param("free_port") == "8006"


def test_the_service_that_passes_connections_on_is_no_stranger() -> None:
    forward = "forward 0.0.0.0 8000 172.20.1.5 8000"
    assert network(forward, "listen 0.0.0.0 4 svchost.exe").status is Status.PASS
    assert network("listen 0.0.0.0 4 svchost.exe").status is Status.FAIL


def test_no_network_at_all() -> None:
    result = network(text="[wsl2]\nnetworkingMode=none\n")
    assert kind(result) == (Status.FAIL, "wsl-network-fallback")


def test_an_answer_about_another_port_is_none() -> None:
    told = answer("windows_network", "checked=9000\nconnect=ok\n")
    assert wsl_network.judge(facts(told)).status is Status.ERROR


# --- other devices


def lan(
    *forwards: str, host: str = "0.0.0.0", text: str | None = None, address: str = "172.20.1.5"
) -> CheckResult:
    rows = "".join(f"forward {line}\n" for line in forwards)
    told = answer("windows_network", f"{rows}checked=8000\nconnect=refused\n")
    profile: Profile = replace(PROFILE, network=Network(host, 8000, "lan"))
    own = answer("address", f"address {address}\naddress 172.17.0.1\n")
    return lan_open.judge(facts(told, own, config(text), profile=profile))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_a_server_for_this_computer_needs_nothing(host: str) -> None:
    assert lan(host=host).status is Status.PASS


def test_a_way_in_that_leads_to_this_wsl() -> None:
    assert lan("0.0.0.0 8000 172.20.1.5 8000").status is Status.PASS
    assert lan("* 8000 172.20.1.5 8000").status is Status.PASS


@pytest.mark.parametrize(
    "forwards",
    [
        (),
        ("0.0.0.0 8000 172.20.9.9 8000",),  # of an earlier start of WSL
        ("0.0.0.0 8001 172.20.1.5 8001",),
        ("0.0.0.0 8000 172.20.1.5 9000",),
        ("127.0.0.1 8000 172.20.1.5 8000",),
    ],
)
def test_no_way_in(forwards: tuple[str, ...]) -> None:
    result = lan(*forwards)

    assert kind(result) == (Status.FAIL, "lan-closed")
    assert fixes(result) == ("lan-open",)
    assert result.finding is not None and result.finding.param("address") == "172.20.1.5"


def test_what_cannot_be_seen_is_not_judged() -> None:
    result = lan(text="[wsl2]\nnetworkingMode=mirrored\n")

    assert result.status is Status.PASS
    assert "cannot be read" in str(result.summary)
