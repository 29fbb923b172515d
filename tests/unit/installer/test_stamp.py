"""A second start trusts the stamp only while everything it tells is still so."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bootstrap import stamp
from bootstrap.places import Places


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A checkout whose environment is complete."""
    found = Places(str(tmp_path), windows=False)
    folder = tmp_path / "installer" / "requirements"
    folder.mkdir(parents=True)
    (folder / "linux.txt").write_bytes(b"a==1\nb==2\n")
    (folder / "dev-linux.txt").write_bytes(b"c==3\n")
    Path(found.scripts).mkdir(parents=True)
    Path(found.python).symlink_to(sys.executable)
    stamp.write(found, ("runtime",), (3, 11))
    return found


def test_a_finished_set_up_matches(places: Places) -> None:
    assert stamp.matches(places, ("runtime",))
    assert not stamp.matches(places, ("runtime", "dev"))


def test_changed_pins_do_not_match(places: Places) -> None:
    Path(places.requirements("runtime")).write_bytes(b"a==2\n")
    assert not stamp.matches(places, ("runtime",))


def test_line_ends_of_a_windows_checkout_do_not_count_as_a_change(places: Places) -> None:
    Path(places.requirements("runtime")).write_bytes(b"a==1\r\nb==2\r\n")
    assert stamp.matches(places, ("runtime",))


def test_a_python_that_is_gone_does_not_match(places: Places) -> None:
    Path(places.python).unlink()
    Path(places.python).symlink_to("/nowhere/python3.11")
    assert not stamp.matches(places, ("runtime",))


def test_a_python_that_was_replaced_by_another_does_not_match(
    places: Places, tmp_path: Path
) -> None:
    other = tmp_path / "python3.12"
    other.write_text("")
    Path(places.python).unlink()
    Path(places.python).symlink_to(other)
    assert not stamp.matches(places, ("runtime",))


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe\x00", b'{"schema": 2}', b'{"schema": 1, "files": 3}', b"null"],
)
def test_a_damaged_stamp_reads_as_none(places: Places, content: bytes) -> None:
    Path(places.stamp).write_bytes(content)
    assert stamp.read(places) == {}
    assert not stamp.matches(places, ("runtime",))


def test_removing_it_twice_is_no_error(places: Places) -> None:
    stamp.remove(places)
    stamp.remove(places)
    assert not Path(places.stamp).exists()


def test_it_is_replaced_as_a_whole(places: Places) -> None:
    stamp.write(places, ("runtime", "dev"), (3, 12))
    data = json.loads(Path(places.stamp).read_text())
    assert data["version"] == [3, 12]
    assert sorted(data["files"]) == ["dev", "runtime"]
    assert not Path(places.stamp + ".new").exists()


def test_a_missing_requirements_file_is_an_error_not_a_match(places: Places) -> None:
    Path(places.requirements("runtime")).unlink()
    with pytest.raises(FileNotFoundError):
        stamp.matches(places, ("runtime",))
