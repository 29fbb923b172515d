"""Counter names, cards by LUID, and the reading loop of pdh.dll against a stand-in."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from twinrig.domain.errors import HostError
from twinrig.hosts.windows.adapters import (
    Adapter,
    NvidiaCard,
    cards_by_luid,
    luid_text,
    pci_place,
)
from twinrig.hosts.windows.counter_names import CounterValues, parse_instance, reading
from twinrig.hosts.windows.counters import PATHS, CounterItem, PdhCounters

ONE, TWO = "0x00000000_0x0000D1C7", "0x00000001_0x0000E2A1"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("luid_0x00000000_0x0000d1c7_phys_0", (None, ONE, 0)),
        ("pid_1234_luid_0x00000000_0x0000D1C7_phys_1", (1234, ONE, 1)),
        ("pid_1234_luid_0x00000000_0x0000D1C7_phys_0#1", (1234, ONE, 0)),
    ],
)
def test_instance_names(name: str, expected: tuple[int | None, str, int]) -> None:
    found = parse_instance(name)

    assert found is not None
    assert (found.pid, found.luid, found.part) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "_Total",
        "pid_x_luid_0x00000000_0x0000D1C7_phys_0",
        "luid_0x0_0x1_phys_0",
        "pid_12_luid_0x00000000_0x0000D1C7_phys_0_eng_0_engtype_3D",
    ],
)
def test_other_names_are_no_instances(name: str) -> None:
    assert parse_instance(name) is None


def test_linked_parts_add_up_and_unknown_cards_stay_unknown() -> None:
    made = reading(
        CounterValues(
            adapter_dedicated=[(f"luid_{ONE}_phys_0", 100), (f"luid_{ONE}_phys_1", 50)],
            adapter_shared=[(f"luid_{ONE}_phys_0", 7), (f"luid_{TWO}_phys_0", 9), ("_Total", 16)],
            process_dedicated=[(f"pid_4_luid_{ONE}_phys_0", 60), (f"pid_4_luid_{TWO}_phys_0", -1)],
            process_shared=[(f"pid_5_luid_{TWO}_phys_0", 3), (f"pid_4_luid_{TWO}_phys_0", 0)],
        ),
        {ONE: "GPU-1"},
    )

    assert [(a.luid, a.card_uuid, a.dedicated_bytes, a.shared_bytes) for a in made.adapters] == [
        (ONE, "GPU-1", 150, 7),
        (TWO, None, None, 9),
    ]
    assert [
        (p.pid, p.luid, p.card_uuid, p.dedicated_bytes, p.shared_bytes) for p in made.processes
    ] == [(4, ONE, "GPU-1", 60, None), (4, TWO, None, None, 0), (5, TWO, None, None, 3)]
    assert (made.shared_bytes_of("GPU-1"), made.shared_bytes_of("GPU-2")) == (7, None)


def card(uuid: str, place: str | None) -> NvidiaCard:
    return NvidiaCard(uuid, "NVIDIA", place, None)


def test_cards_are_joined_by_their_place_on_the_bus() -> None:
    adapters = [Adapter(ONE, 1, 0, 0), Adapter(TWO, 0x41, 0, 0), Adapter("0x1", 0, 2, 0)]
    cards = [card("GPU-1", "00000000:01:00.0"), card("GPU-2", "0000:41:00.0"), card("GPU-3", None)]

    assert cards_by_luid(adapters, cards) == {ONE: "GPU-1", TWO: "GPU-2"}


def test_what_cannot_be_told_apart_is_left_out() -> None:
    twice = [Adapter(ONE, 1, 0, 0), Adapter(TWO, 1, 0, 0)]

    assert cards_by_luid(twice, [card("GPU-1", "00000000:01:00.0")]) == {}
    domains = [card("GPU-1", "00000000:01:00.0"), card("GPU-2", "00000001:01:00.0")]
    assert cards_by_luid([Adapter(ONE, 1, 0, 0)], domains) == {}
    assert cards_by_luid([], domains) == {}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("00000000:01:00.0", (1, 0, 0)),
        ("0000:C1:1F.7", (0xC1, 0x1F, 7)),
        ("01:00.0", (1, 0, 0)),
        ("", None),
        ("PCI\\VEN_10DE", None),
        ("00000000:01:00.9", None),
    ],
)
def test_places_on_the_bus(text: str, place: tuple[int, int, int] | None) -> None:
    assert pci_place(text) == place


def test_luids_are_written_as_the_counters_write_them() -> None:
    assert (luid_text(0, 0xD1C7), luid_text(-1, 1)) == (ONE, "0xFFFFFFFF_0x00000001")


class FakePdh:
    """pdh.dll: sizes must be asked for twice, values have a status each."""

    def __init__(self, *values: tuple[str, int, int]) -> None:
        self.rows = list(values)
        self.codes: dict[str, int] = {}
        self.paths: list[str] = []
        self.grow = 1
        self.closed = 0
        self.opened = 0

    def PdhOpenQueryW(self, source: None, user: int, query: Any) -> int:
        self.opened += 1
        query._obj.value = 77
        return self.codes.get("open", 0)

    def PdhAddEnglishCounterW(self, query: Any, path: str, user: int, counter: Any) -> int:
        self.paths.append(path)
        counter._obj.value = len(self.paths)
        return self.codes.get(path, 0)

    def PdhCollectQueryData(self, query: Any) -> int:
        return self.codes.get("collect", 0)

    def PdhCloseQuery(self, query: Any) -> int:
        self.closed += 1
        return 0

    def PdhGetFormattedCounterArrayW(
        self, counter: Any, form: int, size: Any, count: Any, buffer: Any
    ) -> int:
        assert form == 0x400
        if "array" in self.codes:
            return self.codes["array"]
        if self.grow:
            self.grow -= 1
            size._obj.value *= 4
            return 0x800007D2 - 2**32  # as ctypes gives a negative long
        items = ctypes.cast(buffer, ctypes.POINTER(CounterItem))
        for index, (name, status, value) in enumerate(self.rows):
            items[index] = CounterItem(name, status, value)
        count._obj.value = len(self.rows)
        return 0


def test_a_reading_asks_english_names_and_skips_values_that_mean_nothing() -> None:
    pdh = FakePdh((f"luid_{ONE}_phys_0", 0, 5 * 1024**3), (f"luid_{TWO}_phys_0", 0xC0000BBA, 123))
    counters = PdhCounters(lambda: {ONE: "GPU-1"}, pdh)
    made = counters.read()
    counters.read()

    assert [(a.card_uuid, a.dedicated_bytes) for a in made.adapters] == [("GPU-1", 5 * 1024**3)]
    assert tuple(pdh.paths) == PATHS and pdh.opened == 1
    counters.close()
    counters.close()
    assert pdh.closed == 1


@pytest.mark.parametrize("code", [0x800007D5, 0xC0000BC6, 0x800007D1])
def test_a_moment_without_instances_is_an_empty_reading(code: int) -> None:
    pdh = FakePdh()
    pdh.codes["array"] = code - 2**32

    assert PdhCounters(dict, pdh).read().adapters == ()


def test_a_list_that_never_fits_is_told_and_asked_for_no_longer() -> None:
    pdh = FakePdh()
    pdh.grow = 99
    with pytest.raises(HostError, match="0x800007D2"):
        PdhCounters(dict, pdh).read()
    assert 99 - pdh.grow == 6, "64 KiB, four times as much each time, up to more than 64 MiB"


def test_nothing_is_registered_for_the_query() -> None:
    class Strict(FakePdh):
        def PdhOpenQueryW(self, source: None, user: int, query: Any) -> int:
            assert (source, user) == (None, 0)
            return super().PdhOpenQueryW(source, user, query)

        def PdhAddEnglishCounterW(self, query: Any, path: str, user: int, counter: Any) -> int:
            assert user == 0
            return super().PdhAddEnglishCounterW(query, path, user, counter)

    assert PdhCounters(dict, Strict()).read().adapters == ()


@pytest.mark.parametrize("where", ["open", PATHS[2], "collect", "array"])
def test_every_refusal_is_told_with_its_number(where: str) -> None:
    pdh = FakePdh()
    pdh.codes[where] = 0xC0000BB8 - 2**32
    with pytest.raises(HostError) as caught:
        PdhCounters(dict, pdh).read()

    assert "0xC0000BB8" in str(caught.value.text)
    assert pdh.closed == (1 if where == PATHS[2] else 0)


def test_without_windows_there_are_no_counters() -> None:
    with pytest.raises(HostError):
        PdhCounters(dict).read()


def test_the_structure_has_the_size_of_the_real_one() -> None:
    assert ctypes.sizeof(CounterItem) == 24 and CounterItem.value.offset == 16
