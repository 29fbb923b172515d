"""Checks of the Windows side: what passes, what fails, and what nobody may conclude."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.memory_host import FakeClock, MemoryHost, host_error
from fixtures.standard_machine import (
    ANSWERS,
    INSTALL,
    PROFILE,
    answer,
    facts,
    missing_program,
    on_linux,
    profile_with,
    timed_out,
)
from fixtures.standard_windows import GIB, INTEGRATED, LUIDS, UUIDS
from fixtures.windows_side import MemoryWindows
from twinrig.checks import (
    display_card,
    gpu_both_sides,
    pinned_memory,
    tdr_delay,
    virtualisation,
    vram_spill,
    windows_build,
    windows_power,
)
from twinrig.checks.registry import CHECKS
from twinrig.domain.checks import Check, CheckResult, Facts, Status
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import Profile
from twinrig.domain.windows import is_windows_probe
from twinrig.services.preflight import Preflight

OURS = tuple(
    check
    for check in CHECKS
    if any(map(is_windows_probe, check.probes))
    or check.id in ("wsl-distro-version", "wsl-systemd", "pinned-memory")
)
WINDOWS = tuple(check for check in OURS if any(map(is_windows_probe, check.probes)))
ASKED = [(check, name) for check in OURS for name in check.probes]
SECOND = {"windows_graphics", "windows_counters"}


def kind(result: CheckResult) -> tuple[Status, str]:
    return result.status, result.finding.id if result.finding else ""


def fixes(result: CheckResult) -> tuple[str, ...]:
    assert result.finding is not None
    return result.finding.fixes


# --- the standard cases, for every check alike


def test_these_are_all_of_them() -> None:
    assert len(OURS) == 15


@pytest.mark.parametrize("check", OURS, ids=lambda check: check.id)
def test_passes_on_the_standard_machine(check: Check) -> None:
    assert check.judge(facts()).status is Status.PASS


@pytest.mark.parametrize(("check", "name"), ASKED, ids=lambda value: getattr(value, "id", value))
def test_no_answer_is_an_error(check: Check, name: str) -> None:
    if (check.id, name) == ("display-card", "windows_graphics"):
        return  # only words
    for fault in (timed_out(name), missing_program(name), answer(name, "", code=1)):
        result = check.judge(facts(fault))
        assert kind(result) == (Status.ERROR, ""), fault


GARBAGE = (
    "",
    "No such file\n",
    "\ufffd\ufffd=\ufffd\n",
    "サポートされていません\n",
    '{"path": 1}\n',
)


@pytest.mark.parametrize(("check", "name"), ASKED, ids=lambda value: getattr(value, "id", value))
def test_garbage_is_no_finding(check: Check, name: str) -> None:
    for text in GARBAGE:
        result = check.judge(facts(answer(name, text)))
        assert result.finding is None or name == "model", text
        # The model's check is a prerequisite; an unknown system is none of WSL's; the names of
        # displays are words only.
        if name not in ("windows_graphics", "model", "system") or check.id == "tdr-delay":
            assert result.status is Status.ERROR, (name, text)


class Finder:
    async def find(self, engine_id: str, environment: str = "") -> tuple[EngineInstall, ...]:
        return (INSTALL,)


async def run(
    host: MemoryHost, windows: MemoryWindows | None, profile: Profile | None = PROFILE
) -> dict[str, CheckResult]:
    preflight = Preflight(host, CHECKS, Finder(), FakeClock(), windows=windows)
    return {result.check_id: result async for result in preflight.run(profile)}


def machine() -> MemoryHost:
    return MemoryHost(lambda name: answer(name, ANSWERS[name]))


async def test_they_are_skipped_with_the_reason_where_there_is_no_windows() -> None:
    results = await run(machine(), None)

    assert {results[check.id].status for check in WINDOWS} == {Status.SKIP}
    assert all("runs on Windows" in str(results[check.id].summary) for check in WINDOWS)
    others = [r for name, r in results.items() if name not in {c.id for c in WINDOWS}]
    assert {result.status for result in others} == {Status.PASS}


async def test_windows_is_asked_once_beside_the_one_call_to_linux() -> None:
    host, windows = machine(), MemoryWindows()
    results = await run(host, windows)

    assert {result.status for result in results.values()} == {Status.PASS}
    assert host.calls == ["probes"]
    ((names, endpoint),) = windows.calls
    assert len(names) == len(set(names)) and all(map(is_windows_probe, names))
    assert endpoint == "127.0.0.1:8000"
    assert not [name for name in host.requests[0].names if is_windows_probe(name)]


async def test_a_linux_side_that_is_away_does_not_hide_what_windows_says() -> None:
    host = machine()
    host.unreachable = host_error("WSL does not answer")
    windows = MemoryWindows({"windows_virtual": "firmware=no\nplatform=no\n"})
    results = await run(host, windows)

    assert results["windows-build"].status is Status.PASS
    assert kind(results["virtualisation"]) == (Status.FAIL, "wsl-virtualization-off")
    assert results["ptrace-scope"].status is Status.ERROR
    assert "WSL does not answer" in str(results["ptrace-scope"].summary)


async def test_without_a_profile_only_what_needs_none_is_asked() -> None:
    results = await run(machine(), MemoryWindows(), None)

    assert results["tdr-delay"].status is Status.PASS
    assert {results[name].status for name in ("wsl-network", "lan-open")} == {Status.SKIP}


# --- Windows and virtualisation


@pytest.mark.parametrize(
    ("build", "status"),
    [(26100, Status.PASS), (22000, Status.PASS), (19044, Status.PASS), (19043, Status.FAIL)],
)
def test_builds_of_windows(build: int, status: Status) -> None:
    text = f"build={build}\nproduct=Windows\n"
    result = windows_build.judge(facts(answer("windows_system", text)))

    assert result.status is status
    assert (result.next_step is not None) == (status is Status.FAIL)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("line=yes\nbattery=yes\npercent=80\n", (Status.PASS, "")),
        ("line=yes\nbattery=no\npercent=-\n", (Status.PASS, "")),
        ("line=unknown\nbattery=unknown\npercent=-\n", (Status.PASS, "")),
        ("line=no\nbattery=no\npercent=-\n", (Status.PASS, "")),  # who could be on nothing
        ("line=no\nbattery=yes\npercent=41\n", (Status.WARN, "on-battery")),
        ("line=no\nbattery=unknown\npercent=-\n", (Status.WARN, "on-battery")),
        ("line=nein\nbattery=yes\n", (Status.ERROR, "")),
        ("battery=yes\n", (Status.ERROR, "")),
    ],
)
def test_a_server_on_battery_is_warned_of(text: str, expected: tuple[Status, str]) -> None:
    result = windows_power.judge(facts(answer("windows_power", text)))

    assert kind(result) == expected
    assert (result.next_step is None) == (expected[0] is Status.PASS)
    if "41" in text:
        assert "41 %" in str(result.summary)


def virtual(firmware: str, platform: str, *, linux: bool) -> CheckResult:
    told = answer("windows_virtual", f"firmware={firmware}\nplatform={platform}\n")
    system = facts().probe("system") if linux else answer("system", "", code=1)
    return virtualisation.judge(facts(told, system))


def test_a_linux_side_that_answers_proves_virtualisation() -> None:
    assert virtual("no", "no", linux=True).status is Status.PASS


@pytest.mark.parametrize(
    ("firmware", "platform", "expected"),
    [
        ("yes", "yes", (Status.PASS, "")),
        ("no", "yes", (Status.ERROR, "")),  # a hypervisor that runs hides the flag
        ("unknown", "yes", (Status.ERROR, "")),
        ("yes", "no", (Status.FAIL, "wsl-virtualization-off")),
    ],
)
def test_virtualisation_without_a_linux_side(
    firmware: str, platform: str, expected: tuple[Status, str]
) -> None:
    assert kind(virtual(firmware, platform, linux=False)) == expected


# --- the cards


@pytest.mark.parametrize(
    ("text", "status", "ways"),
    [
        ("hags=on\n", Status.PASS, ()),
        ("hags=absent\ntdr_delay_s=2\n", Status.PASS, ()),
        ("hags=off\ntdr_delay_s=60\ntdr_level=3\n", Status.PASS, ()),
        ("hags=on\ntdr_delay_s=1\n", Status.WARN, ("win-tdr-delay",)),
        ("hags=on\ntdr_delay_s=10\ntdr_level=0\n", Status.WARN, ()),
        ("hags=on\ntdr_delay_s=two\n", Status.ERROR, None),
    ],
)
def test_time_out_of_the_driver(text: str, status: Status, ways: tuple[str, ...] | None) -> None:
    result = tdr_delay.judge(facts(answer("windows_graphics", text)))

    assert result.status is status
    if status is Status.WARN:
        assert fixes(result) == ways


def test_a_card_that_linux_does_not_see_is_named() -> None:
    first = facts().probe("gpu").stdout.splitlines(keepends=True)[:2]
    result = gpu_both_sides.judge(facts(answer("gpu", "".join(first))))

    assert kind(result) == (Status.FAIL, "gpu-sides-differ")
    assert result.finding is not None and result.finding.param("missing") == UUIDS[1]


def test_an_old_driver_in_linux_needs_a_restart_of_wsl_only() -> None:
    updated = facts().probe("windows_gpus").stdout.replace("591.44", "596.36")
    result = gpu_both_sides.judge(facts(answer("windows_gpus", updated)))

    assert kind(result) == (Status.WARN, "gpu-sides-differ")
    assert fixes(result)[0] == "wsl-restart"


def test_an_unknown_driver_is_no_difference() -> None:
    silent = facts().probe("windows_gpus").stdout.replace("591.44", "-")
    assert gpu_both_sides.judge(facts(answer("windows_gpus", silent))).status is Status.PASS


def desktop(share: float | None, displays: tuple[str, str]) -> CheckResult:
    rows = zip(UUIDS, displays, strict=True)
    text = "".join(f"gpu {uuid} {shown} 591.44 NVIDIA GeForce RTX 3090\n" for uuid, shown in rows)
    profile = PROFILE if share is None else profile_with(gpu_memory_utilization=share)
    return display_card.judge(facts(answer("windows_gpus", text), profile=profile))


def test_a_desktop_on_a_card_is_no_fault_until_it_has_no_room() -> None:
    assert desktop(None, ("yes", "no")).status is Status.PASS
    assert desktop(0.95, ("yes", "no")).status is Status.PASS
    assert kind(desktop(0.99, ("yes", "no"))) == (Status.WARN, "vram-sysmem-spill")
    # Nothing is shown on the cards: nothing needs room.
    assert desktop(0.99, ("no", "no")).status is Status.PASS


def test_a_driver_that_does_not_tell_is_no_fault() -> None:
    result = desktop(0.99, ("unknown", "unknown"))

    assert result.status is Status.PASS
    assert "RTX 3090" in str(result.summary)


# --- memory that lies elsewhere


def spill(*rows: tuple[str, str, object]) -> CheckResult:
    text = "".join(f"adapter {luid} {uuid} 0 {shared}\n" for luid, uuid, shared in rows)
    return vram_spill.judge(facts(answer("windows_counters", text)))


def test_a_card_that_spills_is_named_and_an_integrated_one_is_not() -> None:
    result = spill((LUIDS[0], UUIDS[0], 2 * GIB), (LUIDS[1], UUIDS[1], 0), (INTEGRATED, "-", 9))

    assert kind(result) == (Status.WARN, "vram-sysmem-spill")
    assert result.finding is not None and result.finding.param("card") == "0"
    assert spill((LUIDS[0], UUIDS[0], 5), (INTEGRATED, "-", 9 * GIB)).status is Status.PASS


def test_below_the_first_gib_nothing_is_said() -> None:
    assert spill((LUIDS[0], UUIDS[0], GIB - 1)).status is Status.PASS
    assert spill((LUIDS[0], UUIDS[0], GIB)).status is Status.WARN


def test_an_unknown_card_is_never_accused() -> None:
    assert kind(spill((LUIDS[0], "-", 5 * GIB), (LUIDS[1], "-", 1))) == (Status.ERROR, "")
    assert spill((LUIDS[0], "-", 1000), (LUIDS[1], "-", "-")).status is Status.PASS
    assert kind(spill((LUIDS[0], UUIDS[0], "-"))) == (Status.ERROR, "")


def pinned(told: Facts) -> CheckResult:
    return pinned_memory.judge(told)


def test_offloading_within_the_limit_is_a_warning_and_beyond_it_a_fault() -> None:
    # 64 GiB in Windows: about 32 GiB may be locked, for both ranks together.
    assert kind(pinned(facts(profile=profile_with(cpu_offload_gb=8)))) == (
        Status.WARN,
        "pinned-memory-limit",
    )
    assert kind(pinned(facts(profile=profile_with(cpu_offload_gb=17)))) == (
        Status.FAIL,
        "pinned-memory-limit",
    )
    assert pinned(facts(profile=profile_with(cpu_offload_gb=0))).status is Status.PASS


def test_without_windows_the_ram_of_the_virtual_machine_counts() -> None:
    told = facts(profile=profile_with(kv_offloading_size=16))
    probes = {n: o for n, o in told.probes.items() if not is_windows_probe(n)}

    assert pinned(replace(told, probes=probes)).status is Status.FAIL
    assert pinned(told).status is Status.WARN


def test_native_linux_has_no_such_limit() -> None:
    assert pinned(on_linux(profile=profile_with(cpu_offload_gb=60))).status is Status.PASS
