from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from twinrig.domain.checks import Finding, Severity
from twinrig.domain.errors import ConflictError, HostError
from twinrig.messages import message
from twinrig.services import journal as journal_module
from twinrig.services.journal import AppliedStep, Journal, JournalEntry, Outcome

ENTRY = JournalEntry(
    id="a1",
    at_s=1700000000.5,
    target="local",
    fix_id="sysctl-ptrace-0",
    title=message("Change {path}", path=message("日本 {n}", n=1)),
    finding=Finding("pidfd-getfd-denied", (("scope", "1"),), Severity.WARNING, ("a", "b")),
)
STEP = AppliedStep("file", "--- a\n+++ b", {"path": "/etc/x", "before": None, "n": 3})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "local" / "journal.jsonl"


@pytest.fixture
def journal(path: Path) -> Journal:
    return Journal(path)


def test_no_file_is_an_empty_journal_and_no_problem(journal: Journal, path: Path) -> None:
    assert journal.entries() == ()
    assert journal.problem() is None
    assert not path.exists()


def test_entry_grows_event_by_event(journal: Journal, path: Path) -> None:
    journal.begin(ENTRY)
    assert journal.entries() == (ENTRY,)

    journal.record_step("a1", STEP)
    assert journal.entry("a1") == replace(ENTRY, steps=(STEP,))

    journal.confirm_step("a1", 0)
    done = replace(ENTRY, steps=(replace(STEP, done=True),))
    assert journal.entry("a1") == done

    journal.finish("a1", Outcome.APPLIED, proven=True)
    assert journal.entry("a1") == replace(done, outcome=Outcome.APPLIED, proven=True)

    journal.mark_undone("a1", 1700000099.0)
    entry = journal.entry("a1")
    assert entry is not None
    assert entry.undone_at_s == 1700000099.0
    assert not entry.can_undo
    assert len(path.read_bytes().splitlines()) == 5


def test_finding_and_nested_title_come_back_whole(journal: Journal, path: Path) -> None:
    journal.append(ENTRY)
    (entry,) = Journal(path).entries()

    assert str(entry.title) == "Change 日本 1"
    assert (entry.finding.severity, entry.finding.fixes) == (Severity.WARNING, ("a", "b"))


def test_whole_entry_at_once(journal: Journal) -> None:
    whole = replace(
        ENTRY,
        steps=(replace(STEP, done=True), STEP),
        outcome=Outcome.APPLIED,
        proven=True,
        undone_at_s=5.0,
    )
    journal.append(whole)

    assert journal.entries() == (whole,)


def test_entries_keep_their_order_when_they_interleave(journal: Journal) -> None:
    journal.begin(ENTRY)
    journal.begin(replace(ENTRY, id="b2"))
    journal.record_step("a1", STEP)

    assert [entry.id for entry in journal.entries()] == ["a1", "b2"]
    assert journal.entry("nobody") is None


@pytest.mark.parametrize(
    ("outcome", "undone", "expected"),
    [
        (Outcome.OPEN, None, True),
        (Outcome.APPLIED, None, True),
        (Outcome.ROLLED_BACK, None, False),
        (Outcome.APPLIED, 1.0, False),
    ],
)
def test_what_can_be_undone(outcome: Outcome, undone: float | None, expected: bool) -> None:
    assert replace(ENTRY, outcome=outcome, undone_at_s=undone).can_undo is expected


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b"{}",
        b"null",
        b"\xff\xfe\x00binary",
        b'{"schema_version":1,"id":"zz","event":"step","kind":"k","text":"t","data":{}}',
        b'{"schema_version":1,"id":"a1","event":"what"}',
        b'{"schema_version":1,"id":"a1","event":"done","index":7}',
        b'{"schema_version":1,"id":"a1","event":"end","outcome":"maybe","proven":true}',
        b'{"schema_version":1,"id":"x","event":"begin","at_s":"soon"}',
        b"[" * 100_000,
    ],
)
def test_damaged_line_is_reported_and_kept_and_the_others_are_read(
    journal: Journal, path: Path, line: bytes
) -> None:
    journal.append(ENTRY)
    with path.open("ab") as handle:
        handle.write(line + b"\n")
    journal.begin(replace(ENTRY, id="b2"))

    assert [entry.id for entry in journal.entries()] == ["a1", "b2"]
    problem = journal.problem()
    assert problem is not None
    assert str(path) in str(problem)
    assert "line 2" in str(problem)
    assert line in path.read_bytes()


def test_line_cut_by_a_crash_does_not_swallow_the_next_one(journal: Journal, path: Path) -> None:
    journal.append(ENTRY)
    with path.open("ab") as handle:
        handle.write(b'{"schema_version":1,"id":"c3","ev')
    journal.begin(replace(ENTRY, id="b2"))

    assert [entry.id for entry in journal.entries()] == ["a1", "b2"]


def test_lines_of_a_newer_version_are_kept_and_named(journal: Journal, path: Path) -> None:
    journal.append(ENTRY)
    newer = json.dumps({"schema_version": 99, "id": "n", "event": "begin"}).encode()
    with path.open("ab") as handle:
        handle.write(newer + b"\n")

    assert [entry.id for entry in journal.entries()] == ["a1"]
    assert "newer" in str(journal.problem())
    assert newer in path.read_bytes()


def test_huge_file_is_not_read_and_not_appended_to(
    journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "MAX_JOURNAL_BYTES", 1000)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 1001)

    assert journal.entries() == ()
    assert "larger" in str(journal.problem())
    with pytest.raises(ConflictError) as caught:
        journal.begin(ENTRY)
    assert caught.value.next_step is not None
    assert path.stat().st_size == 1001


def test_journal_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    with pytest.raises(HostError) as caught:
        Journal(blocked / "journal.jsonl").begin(ENTRY)
    assert caught.value.next_step is not None


def test_folder_in_the_place_of_the_file_is_a_problem_not_a_crash(
    journal: Journal, path: Path
) -> None:
    path.mkdir(parents=True)

    assert journal.entries() == ()
    assert "cannot be read" in str(journal.problem())


def test_every_event_is_synced_before_it_counts(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(fd), real(fd))[1])
    journal.begin(ENTRY)
    journal.record_step("a1", STEP)

    assert len(synced) == 2


def test_each_event_is_one_line_even_with_line_ends_in_its_texts(
    journal: Journal, path: Path
) -> None:
    journal.begin(ENTRY)
    journal.record_step("a1", replace(STEP, text="a\nb\r\n\u2028c"))

    assert path.read_bytes().count(b"\n") == 2
    entry = journal.entry("a1")
    assert entry is not None and entry.steps[0].text == "a\nb\r\n\u2028c"
