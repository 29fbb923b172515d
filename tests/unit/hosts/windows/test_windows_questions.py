"""What Windows is asked: registry, libraries and counters as doubles that miss things."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from fixtures.standard_windows import LUIDS, UUIDS
from twinrig.domain.errors import HostError
from twinrig.domain.windows import WINDOWS_PROBES, AdapterMemory, GpuMemoryReading
from twinrig.domain.wsl_config import ConfigFile
from twinrig.hosts.windows import questions
from twinrig.hosts.windows.adapters import Adapter, NvidiaCard
from twinrig.hosts.windows.facts import WindowsMachine
from twinrig.hosts.windows.questions import Cards, WindowsParts
from twinrig.hosts.windows.registry import RegistryValue
from twinrig.hosts.windows.system_calls import Display, Listener, Power
from twinrig.messages import message


class Registry:
    def __init__(self, keys: Mapping[str, Mapping[str, RegistryValue]]) -> None:
        self.keys = keys

    def values(self, key: str) -> Mapping[str, RegistryValue]:
        return self.keys.get(key, {})

    def subkeys(self, key: str) -> tuple[str, ...]:
        below = [name[len(key) + 1 :] for name in self.keys if name.startswith(key + "\\")]
        return tuple(name for name in below if "\\" not in name)


class Calls:
    """``SystemCalls`` of a Windows 11; every call can be made to fail."""

    def __init__(self) -> None:
        self.failing: set[str] = set()
        self.version: str | None = "2.6.3.0"
        self.asked_versions: list[str] = []

    def build(self) -> int:
        return 26100

    def firmware_virtualisation(self) -> bool | None:
        return None

    def memory_bytes(self) -> int:
        if "memory" in self.failing:
            raise OSError(5, "Access is denied")
        return 64 * 1024**3

    def power(self) -> Power:
        return Power(True, False, None)

    def file_version(self, path: str) -> str | None:
        self.asked_versions.append(path)
        return self.version

    def displays(self) -> tuple[Display, ...]:
        return (Display("\\\\.\\DISPLAY1", True, "NVIDIA GeForce RTX 3090"),)

    def adapters(self) -> tuple[Adapter, ...]:
        return ()

    def listeners(self, port: int) -> tuple[Listener, ...]:
        return (Listener("127.0.0.1", port, 4711, "wslrelay.exe"), Listener("0.0.0.0", port, 8, ""))


KEYS: Mapping[str, Mapping[str, RegistryValue]] = {
    questions.VERSION_KEY: {"ubr": 4202, "editionid": "Professional", "displayversion": "24H2"},
    questions.PLATFORM_KEY: {"start": 3},
    questions.WSL_PACKAGE_KEY: {"installlocation": "C:\\Program Files\\WSL\\"},
    questions.LXSS_KEY + "\\{1}": {"distributionname": "Ubuntu-24.04", "flags": 0xF, "state": 1},
    questions.LXSS_KEY + "\\{2}": {"distributionname": "old", "flags": 0x7, "state": 1},
    questions.LXSS_KEY + "\\{3}": {"flags": 0xF},
    questions.GRAPHICS_KEY: {"hwschmode": 2, "tdrdelay": 10},
    questions.FORWARD_KEY: {"0.0.0.0/8000": "172.20.1.5/8000", "nonsense": "x"},
}
CARDS = Cards(
    "591.44",
    (
        NvidiaCard(UUIDS[0], "NVIDIA GeForce RTX 3090", "00000000:01:00.0", True),
        NvidiaCard(UUIDS[1], "NVIDIA GeForce RTX 3090", None, None),
    ),
)
NETSH_JA = """
プロトコル tcp の除外ポート範囲

開始ポート    終了ポート
----------    --------
      5357        5357
     50000       50059     *

* - 管理されるポートの除外。
"""


def parts(**changes: object) -> WindowsParts:
    reading = GpuMemoryReading(
        (AdapterMemory(LUIDS[0], UUIDS[0], 900, 420), AdapterMemory(LUIDS[1], None, None, 310)), ()
    )
    made = WindowsParts(
        registry=Registry(KEYS),
        calls=Calls(),
        read_counters=lambda: reading,
        cards=lambda: CARDS,
        read_config=lambda: ConfigFile.of("C:\\Users\\u\\.wslconfig", b"[wsl2]\r\n"),
        connect=lambda address, port: "refused",
        excluded_ranges=lambda: NETSH_JA,
        lan_addresses=lambda: ("192.168.1.20",),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def ask(name: str, endpoint: str = "", **changes: object) -> list[str]:
    output = WindowsMachine(questions.questions(parts(**changes))).answer([name], endpoint)[name]
    assert output.returncode == 0, output.stderr
    return output.stdout.splitlines()


def test_every_probe_of_the_domain_has_its_question() -> None:
    assert set(questions.questions(parts())) == set(WINDOWS_PROBES)


def test_windows_11_is_told_by_its_build_not_by_its_name() -> None:
    assert ask("windows_system") == [
        *("build=26100", "revision=4202", "edition=Professional", "product=Windows 11 24H2"),
    ]


@pytest.mark.parametrize(
    ("build", "product"), [(21999, "Windows 10 24H2"), (22000, "Windows 11 24H2")]
)
def test_the_first_build_of_windows_11(build: int, product: str) -> None:
    calls = Calls()
    calls.build = lambda: build  # type: ignore[method-assign]
    assert ask("windows_system", calls=calls)[-1] == f"product={product}"


def test_a_flag_that_is_not_set_is_wsl_1_whatever_else_is() -> None:
    keys = {questions.LXSS_KEY + "\\{1}": {"distributionname": "x", "flags": 0x10, "state": 1}}
    assert ask("windows_wsl", registry=Registry(keys))[-1] == "distro 1 1 x"


def test_what_takes_a_moment_is_waited_for() -> None:
    def slow() -> Sequence[str]:
        threading.Event().wait(0.3)
        return ("192.168.1.21",)

    assert ask("windows_network", lan_addresses=slow)[0] == "address 192.168.1.21"


def test_wsl_from_registry_and_file_and_distributions_without_starting_them() -> None:
    calls = Calls()

    assert ask("windows_wsl", calls=calls) == [
        *("installed=yes", "wsl_version=2.6.3.0", "distro 2 1 Ubuntu-24.04", "distro 1 1 old"),
    ]
    assert calls.asked_versions == ["C:\\Program Files\\WSL\\wsl.exe"]
    assert ask("windows_wsl", registry=Registry({})) == ["installed=no", "wsl_version="]


def test_what_is_not_set_is_absent_not_zero() -> None:
    assert ask("windows_graphics") == [
        *("hags=on", "tdr_delay_s=10", "display \\\\.\\DISPLAY1 primary NVIDIA GeForce RTX 3090"),
    ]
    bare = ask("windows_graphics", registry=Registry({}))
    assert bare[0] == "hags=absent" and not [line for line in bare if "tdr" in line]
    assert ask("windows_power") == ["line=yes", "battery=no", "percent=-"]
    assert ask("windows_virtual") == ["firmware=unknown", "platform=yes"]


def test_cards_and_counters_say_when_they_do_not_know() -> None:
    assert ask("windows_gpus") == [
        f"gpu {UUIDS[0]} yes 591.44 NVIDIA GeForce RTX 3090",
        f"gpu {UUIDS[1]} unknown 591.44 NVIDIA GeForce RTX 3090",
    ]
    assert ask("windows_counters") == [
        f"adapter {LUIDS[0]} {UUIDS[0]} 900 420",
        f"adapter {LUIDS[1]} - - 310",
    ]


def test_network_in_any_language_with_and_without_a_server() -> None:
    asked = []

    def connect(address: str, port: int) -> str:
        asked.append((address, port))
        return "ok"

    assert ask("windows_network", "0.0.0.0:8000", connect=connect) == [
        "address 192.168.1.20",
        "excluded 5357 5357",
        "excluded 50000 50059",
        "forward 0.0.0.0 8000 172.20.1.5 8000",
        "listen 127.0.0.1 4711 wslrelay.exe",
        "listen 0.0.0.0 8 -",
        "checked=8000",
        "connect=ok",
    ]
    # Always 127.0.0.1: localhost may mean ::1 first, which nobody serves.
    assert asked == [("127.0.0.1", 8000)]
    assert ask("windows_network")[-1] == "connect=not-asked"


def test_one_question_that_fails_or_hangs_costs_itself_only() -> None:
    calls = Calls()
    calls.failing.add("memory")
    hold = threading.Event()

    def hang() -> Sequence[str]:
        hold.wait(30)
        return ()

    def no_counters() -> GpuMemoryReading:
        raise HostError(message("No counters."))

    made = parts(calls=calls, read_counters=no_counters, lan_addresses=hang)
    machine = WindowsMachine(questions.questions(made), timeout_s=0.5)
    answers = machine.answer([*WINDOWS_PROBES, "windows_nonsense"], "127.0.0.1:8000")
    hold.set()

    bad = {name: o.returncode for name, o in answers.items() if o.returncode != 0}
    assert bad == {
        "windows_memory": 1,
        "windows_counters": 1,
        "windows_network": None,
        "windows_nonsense": 3,
    }
    assert answers["windows_network"].timed_out
    assert "Access is denied" in answers["windows_memory"].stderr
    assert "No counters" in answers["windows_counters"].stderr


@pytest.mark.parametrize("value", ["two", -1, 3])
def test_odd_registry_values_do_not_break_the_answer(value: RegistryValue) -> None:
    registry = Registry({questions.GRAPHICS_KEY: {"hwschmode": value}})
    machine = WindowsMachine(questions.questions(parts(registry=registry)))
    output = machine.answer(["windows_graphics"])["windows_graphics"]

    assert output.returncode == 1 or output.stdout.startswith("hags=absent")
