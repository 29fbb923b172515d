"""Whose processes these are."""

from __future__ import annotations

import pytest

from twinrig.hosts.local.proc_table import ProcEntry, parse_stat
from twinrig.hosts.local.run_ledger import (
    RunLedger,
    drop_ledger,
    ledger_path,
    load_ledger,
    members_of,
    save_ledger,
)


def table(*rows: tuple[int, int, int, int]) -> dict[int, ProcEntry]:
    return {pid: ProcEntry(pid, ppid, sid, start, "x") for pid, ppid, sid, start in rows}


def find(ledger, rows, carriers=(), own=5):
    return members_of(ledger, rows, lambda e: "run" if e.pid in carriers else None, own)


OWN = ((1, 0, 1, 0), (4, 1, 4, 10), (5, 4, 4, 11))


def test_run_id_session_and_descendants():
    rows = table(*OWN, (20, 5, 20, 50), (21, 20, 20, 51), (30, 21, 30, 52), (40, 1, 40, 53))
    assert find(RunLedger("run", "b"), rows, carriers=(20,)) == {20, 21, 30}


def test_orphans_by_what_was_written_down():
    rows = table(*OWN, (21, 1, 20, 51), (22, 21, 20, 52))
    assert find(RunLedger("run", "b", {20: 50, 21: 51}), rows) == {21, 22}


def test_a_pid_given_out_again_is_a_stranger():
    rows = table(*OWN, (21, 1, 20, 999))
    assert find(RunLedger("run", "b", {20: 50, 21: 51}), rows) == set()


def test_never_ourselves_our_ancestors_or_our_session():
    rows = table(*OWN, (6, 4, 4, 12), (7, 5, 7, 13))
    ledger = RunLedger("run", "b", {4: 10, 5: 11, 7: 13})
    assert find(ledger, rows) & {0, 1, 4, 5} == set()
    assert 7 in find(ledger, rows)


def test_a_ledger_survives_and_is_bound_to_its_boot(tmp_path):
    ledger = RunLedger("run", "boot-1", {3: 4})
    save_ledger(tmp_path, ledger)
    assert load_ledger(tmp_path, "run", "boot-1") == ledger
    assert load_ledger(tmp_path, "run", "boot-2").members == {}
    drop_ledger(tmp_path, "run")
    drop_ledger(tmp_path, "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", [b"", b"\xff", b"[]", b'{"boot_id":"b","run_id":"run"}', b"x" * 5_000_000]
)
def test_a_damaged_ledger_is_empty(tmp_path, text):
    ledger_path(tmp_path, "run").write_bytes(text)
    assert load_ledger(tmp_path, "run", "b").members == {}


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", "x" * 101, "a\0"])
def test_a_run_id_that_is_not_ours_names_no_file(tmp_path, run_id):
    assert ledger_path(tmp_path, run_id) is None
    save_ledger(tmp_path, RunLedger(run_id, "b", {1: 2}))
    assert list(tmp_path.iterdir()) == []


def test_stat_lines():
    rest = "1 2 3 " + " ".join(str(n) for n in range(4, 30))
    assert parse_stat(f"77 (a ) (b) S {rest}") == ProcEntry(77, 1, 3, 19, "a ) (b")
    assert parse_stat(f"77 (x) Z {rest}") is None
    assert parse_stat("") is None
    assert parse_stat("77 (x) S 1") is None
