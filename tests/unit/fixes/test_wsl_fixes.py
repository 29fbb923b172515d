"""Plans that change Windows and WSL: what they write, what they keep, when they refuse."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace

import pytest

from fixtures.standard_machine import PROFILE, answer, facts, on_linux, timed_out
from fixtures.standard_windows import GIB, config_answer
from twinrig import assets
from twinrig.domain.checks import Facts, Finding, ProbeOutput
from twinrig.domain.elevation import AdminTask
from twinrig.domain.errors import UsageError
from twinrig.domain.fixes import (
    AdminStep,
    FixPlan,
    Guidance,
    ProfileStep,
    RestartWslStep,
    WindowsFileStep,
    WriteFileStep,
)
from twinrig.domain.ini_text import read_ini
from twinrig.domain.profile import Network
from twinrig.domain.wsl_config import ConfigFile, unreadable_entries
from twinrig.fixes.planning import NothingToChangeError
from twinrig.fixes.registry import load_fixes

FIXES = load_fixes(assets.read_text("advice/fixes.yaml"))
FILE_FIXES = (
    "wsl-keepalive",
    "wslconfig-memory",
    "wslconfig-nat",
    "wslconfig-localhost",
    "wsl-dns-fix",
)


def plan(fix_id: str, told: Facts, finding: Finding = Finding("x")) -> FixPlan:  # noqa: B008
    found = FIXES[fix_id].plan(finding, told)
    assert isinstance(found, FixPlan), found
    return found


def with_config(text: str | bytes | None, *more: ProbeOutput) -> Facts:
    return facts(answer("windows_wslconfig", config_answer(text)), *more)


def written(found: FixPlan) -> str:
    step = found.steps[0]
    assert isinstance(step, WindowsFileStep) and step.content is not None
    return step.content


@pytest.mark.parametrize("fix_id", FILE_FIXES)
def test_a_file_is_written_and_then_wsl_restarted(fix_id: str) -> None:
    found = plan(fix_id, with_config(None))
    write, restart = found.steps

    assert isinstance(write, WindowsFileStep) and restart == RestartWslStep()
    assert (write.path, write.expected_sha256) == ("C:\\Users\\u\\.wslconfig", "")
    assert found.needs_wsl_shutdown and not found.needs_admin and not found.needs_root
    text = written(found)
    assert text.endswith("\r\n") and "\n" not in text.replace("\r\n", "")
    assert unreadable_entries(read_ini(text)) == ()
    with pytest.raises(NothingToChangeError):
        FIXES[fix_id].plan(Finding("x"), with_config(text))


@pytest.mark.parametrize("fix_id", [*FILE_FIXES, "wslconfig-fix"])
def test_a_file_that_could_not_be_read_is_left_to_the_user(fix_id: str) -> None:
    for fault in (timed_out("windows_wslconfig"), answer("windows_wslconfig", "garbage")):
        assert isinstance(FIXES[fix_id].plan(Finding("x"), facts(fault)), Guidance)


def test_keepalive_sets_both_time_outs_and_nothing_else() -> None:
    before = "[wsl2]\r\nmemory=8GB # mine\r\n"
    text = written(plan("wsl-keepalive", with_config(before)))

    assert text == (
        "[wsl2]\r\nmemory=8GB # mine\r\nvmIdleTimeout=-1\r\n"
        "\r\n[general]\r\ninstanceIdleTimeout=-1\r\n"
    )


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-8", "cp932"])
def test_the_file_keeps_its_encoding(encoding: str) -> None:
    text = "# メモリ\r\n[wsl2]\r\nmemory=8GB\r\n"
    data = (text if encoding == "cp932" else "\ufeff" + text).encode(encoding)
    step = plan("wslconfig-localhost", with_config(data)).steps[0]

    assert isinstance(step, WindowsFileStep)
    new = step.data()
    assert new is not None and new.startswith(data[:-2])
    assert step.expected_sha256 == hashlib.sha256(data).hexdigest()
    assert new.decode(encoding).endswith("localhostForwarding=true\r\n")


def memory(text: str | None, ram_gib: int, needed: str = "") -> tuple[str | None, str | None]:
    told = with_config(text, answer("windows_memory", f"total_bytes={ram_gib * GIB}\n"))
    finding = Finding("ram-oom-killed", (("needed_gib", needed),) if needed else ())
    ini = read_ini(written(plan("wslconfig-memory", told, finding)))
    return ini.value("wsl2", "memory"), ini.value("wsl2", "swap")


@pytest.mark.parametrize(
    ("text", "ram_gib", "needed", "expected"),
    [
        (None, 64, "", ("56GB", "14GB")),
        (None, 16, "", ("12GB", "3GB")),
        ("[wsl2]\nmemory=8GB\nswap=40GB\n", 64, "", ("56GB", "40GB")),
        ("[wsl2]\nmemory=60GB\n", 64, "", ("60GB", "15GB")),  # more was chosen
        ("[wsl2]\nmemory=64GB\n", 64, "", ("56GB", "14GB")),  # nothing left for Windows
        (None, 32, "60.5", ("24GB", "41GB")),  # a load must fit
        (None, 32, "x", ("24GB", "6GB")),
    ],
)
def test_memory_for_wsl(
    text: str | None, ram_gib: int, needed: str, expected: tuple[str, str]
) -> None:
    assert memory(text, ram_gib, needed) == expected


def test_memory_is_not_guessed() -> None:
    for ram in ("total_bytes=\n", f"total_bytes={4 * GIB}\n"):
        told = with_config(None, answer("windows_memory", ram))
        assert isinstance(FIXES["wslconfig-memory"].plan(Finding("x"), told), Guidance)


def test_nat_replaces_both_spellings() -> None:
    before = "[wsl2]\nnetworkingMode=mirrored\n[experimental]\nnetworkingMode=mirrored\n"
    text = written(plan("wslconfig-nat", with_config(before)))

    assert text == "[wsl2]\nnetworkingMode=nat\n[experimental]\n"


def test_faulty_lines_are_mended_or_kept_as_comments() -> None:
    before = (
        "\ufeff[wsl2]\r\nmemory = 8 gb # half\r\nprocessors=all\r\nnonsense\r\nswap=4GB\r\n"
        "SWAP=5GB\r\nfuture=1\r\n"
    )
    text = written(plan("wslconfig-fix", with_config(before)))

    mark = "# WSL could not use this line: "
    assert text == (
        f"\ufeff[wsl2]\r\nmemory = 8GB # half\r\n{mark}processors=all\r\n{mark}nonsense\r\n"
        f"swap=4GB\r\n{mark}SWAP=5GB\r\nfuture=1\r\n"
    )
    assert unreadable_entries(ConfigFile.of("x", text.encode()).ini()) == ()
    with pytest.raises(NothingToChangeError):
        FIXES["wslconfig-fix"].plan(Finding("x"), with_config(text))


# --- inside the distribution


def wsl_conf(data: bytes | None) -> ProbeOutput:
    if data is None:
        return answer("wsl_conf", "absent\n")
    digest, text = hashlib.sha256(data).hexdigest(), base64.b64encode(data).decode()
    return answer("wsl_conf", f"sha256={digest}\nbase64={text}\n")


def test_systemd_is_switched_on_as_root_and_its_distribution_restarted() -> None:
    data = b"# mine\n[boot]\ncommand=date\n[network]\nhostname=x\n"
    found = plan("wsl-enable-systemd", facts(wsl_conf(data)))
    write, restart = found.steps

    assert isinstance(write, WriteFileStep) and not isinstance(write, WindowsFileStep)
    assert write.data() == data.replace(b"=date\n", b"=date\nsystemd=true\n")
    assert write.root and write.expected_sha256 == hashlib.sha256(data).hexdigest()
    assert restart == RestartWslStep(whole=False)
    assert found.needs_root


def test_from_inside_wsl_the_restart_is_left_to_the_user() -> None:
    found = plan("wsl-enable-systemd", facts(wsl_conf(None), timed_out("windows_wsl")))

    assert [type(step) for step in found.steps] == [WriteFileStep]
    assert found.needs_wsl_shutdown
    assert isinstance(
        FIXES["wsl-restart"].plan(Finding("x"), facts(timed_out("windows_wsl"))), Guidance
    )


@pytest.mark.parametrize(
    "told",
    [
        wsl_conf(b"boot systemd\n[boot]\n"),  # hides all below it
        answer("wsl_conf", "sha256=0\nbase64=QQ==\n"),
        answer("wsl_conf", "base64=???\n"),
        timed_out("wsl_conf"),
    ],
)
def test_a_file_that_is_not_understood_is_left_to_the_user(told: ProbeOutput) -> None:
    assert isinstance(FIXES["wsl-enable-systemd"].plan(Finding("x"), facts(told)), Guidance)


def test_windows_line_ends_are_named_as_a_risk() -> None:
    risk = plan("wsl-enable-systemd", facts(wsl_conf(b"[user]\r\ndefault=u\r\n"))).risk
    assert "line ends" in str(risk)


# --- with an administrator


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("hags=on\n", (AdminTask.RESET_TDR_DELAY, ())),
        ("hags=on\ntdr_delay_s=5\n", (AdminTask.SET_TDR_DELAY, (("seconds", "5"),))),
        ("hags=on\ntdr_delay_s=0\n", (AdminTask.RESET_TDR_DELAY, ())),
    ],
)
def test_delay_of_the_driver_and_its_way_back(
    text: str, back: tuple[AdminTask, tuple[tuple[str, str], ...]]
) -> None:
    found = plan("win-tdr-delay", facts(answer("windows_graphics", text)))
    (step,) = found.steps

    assert isinstance(step, AdminStep) and step.revert is not None
    assert step.action.params == (("seconds", "10"),)
    assert (step.revert.task, step.revert.params) == back
    assert found.needs_admin and found.needs_reboot


def test_a_longer_delay_is_kept() -> None:
    with pytest.raises(NothingToChangeError):
        plan("win-tdr-delay", facts(answer("windows_graphics", "hags=on\ntdr_delay_s=60\n")))


OPEN = replace(PROFILE, network=Network("0.0.0.0", 8000, "lan"))
CLOSED = replace(PROFILE, network=Network("127.0.0.1", 8000, "lan"))
MIRRORED = answer("windows_wslconfig", config_answer("[wsl2]\nnetworkingMode=mirrored\n"))


def without_windows(told: Facts) -> Facts:
    return replace(told, probes={n: o for n, o in told.probes.items() if "windows_" not in n})


def test_other_devices_by_nat_and_mirrored() -> None:
    (nat,) = plan("lan-open", facts(profile=OPEN)).steps
    (mirrored,) = plan("lan-open", facts(MIRRORED, profile=OPEN)).steps

    assert isinstance(nat, AdminStep) and isinstance(mirrored, AdminStep)
    assert nat.action.to_words() == (
        *("open-nat", "profile=qwen", "port=8000", "address=172.20.1.5"),
    )
    assert nat.revert is not None and nat.revert.task is AdminTask.CLOSE_NAT
    assert mirrored.action.to_words() == ("open-mirrored", "profile=qwen", "port=8000")
    assert mirrored.revert is not None and mirrored.revert.task is AdminTask.CLOSE_MIRRORED


def test_a_server_for_this_computer_is_bound_anew_first() -> None:
    found = plan("lan-open", facts(profile=CLOSED))
    bind, rules = found.steps

    assert isinstance(bind, ProfileStep) and bind.fields == {"network.host": "0.0.0.0"}
    assert isinstance(rules, AdminStep)
    assert found.needs_admin and found.needs_restart


def test_paths_without_a_key_are_named_as_the_risk() -> None:
    told = facts(profile=CLOSED)
    named = plan("lan-open", told, Finding("x", (("unguarded", "/metrics, /docs"),)))

    assert "/metrics, /docs" in str(named.risk)
    assert "unencrypted" in str(plan("lan-open", told).risk)


def test_on_linux_it_is_the_address_alone() -> None:
    told = without_windows(on_linux(profile=CLOSED))
    found = plan("lan-open", told)

    assert [type(step) for step in found.steps] == [ProfileStep]
    assert not found.needs_admin
    with pytest.raises(NothingToChangeError):
        plan("lan-open", without_windows(on_linux(profile=OPEN)))


def test_from_inside_wsl_the_windows_side_is_left_to_the_user() -> None:
    for profile in (OPEN, CLOSED):
        told = without_windows(facts(profile=profile))
        assert isinstance(FIXES["lan-open"].plan(Finding("x"), told), Guidance)


@pytest.mark.parametrize("told", [facts(profile=OPEN), facts(MIRRORED, profile=OPEN)])
def test_closing_is_opening_backwards(told: Facts) -> None:
    bind, rules = plan("lan-close", told).steps
    (opened,) = plan("lan-open", told).steps

    assert isinstance(bind, ProfileStep) and bind.fields == {"network.host": "127.0.0.1"}
    assert isinstance(rules, AdminStep) and isinstance(opened, AdminStep)
    assert (rules.action, rules.revert) == (opened.revert, opened.action)
    with pytest.raises(NothingToChangeError):
        plan("lan-close", facts(profile=CLOSED))


@pytest.mark.parametrize(
    "network", [Network("127.0.0.1", 8000), Network("0.0.0.0", 8000), Network("::1")]
)
def test_no_open_door_without_a_key(network: Network) -> None:
    with pytest.raises(UsageError) as caught:
        plan("lan-open", facts(profile=replace(PROFILE, network=network)))
    assert caught.value.next_step is not None


@pytest.mark.parametrize("address", ["1.2.3.4&calc", "1.2.3", "host", "172.20.1.5; calc"])
def test_an_address_that_is_none_gets_into_no_command(address: str) -> None:
    with pytest.raises(UsageError):
        plan("lan-open", facts(answer("address", f"address {address}\n"), profile=OPEN))


def test_a_mode_that_is_not_known_is_left_to_the_user() -> None:
    bridged = answer("windows_wslconfig", config_answer("[wsl2]\nnetworkingMode=bridged\n"))
    for fault in (bridged, timed_out("address"), answer("windows_wslconfig", "x")):
        assert isinstance(
            FIXES["lan-open"].plan(Finding("x"), facts(fault, profile=OPEN)), Guidance
        )
