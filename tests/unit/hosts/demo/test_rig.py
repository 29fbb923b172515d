"""Files of the simulated machine: a world of its own below one folder."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from twinrig.domain.errors import ConflictError, HostError
from twinrig.hosts.demo.models import LARGE, MODELS, MODELS_FOLDER
from twinrig.hosts.demo.rig import PTRACE_FILE, RIG_VERSION, RigFiles

DROP_IN = "/etc/sysctl.d/60-twinrig-ptrace.conf"
LIMIT = 1 << 20


@pytest.fixture
def rig(tmp_path: Path) -> RigFiles:
    files = RigFiles(tmp_path / "rig")
    files.prepare()
    return files


def write(rig: RigFiles, path: str, data: bytes | None, root: bool = True, expected=None) -> None:
    rig.write(path, data, 0o644, root, expected)


def test_the_machine_is_laid_out(rig) -> None:
    assert rig.ptrace_scope == "1"
    assert [e.name for e in rig.entries(MODELS_FOLDER)] == sorted(MODELS)
    assert {e.name for e in rig.entries("/")} == {"etc", "home", "proc", "tmp"}
    assert b"Ubuntu" in (rig.read("/etc/os-release", LIMIT) or b"")


def test_it_needs_little_room(rig) -> None:
    assert sum(p.stat().st_size for p in rig.root.rglob("*") if p.is_file()) < 500_000


def test_weights_have_the_size_that_their_header_tells(rig) -> None:
    entries = rig.entries(f"{MODELS_FOLDER}/{LARGE.name}")
    weights = [e.size_bytes or 0 for e in entries if e.name.endswith(".safetensors")]
    assert len(weights) == LARGE.shard_count
    assert sum(weights) > LARGE.weights_bytes
    assert sum(weights) - LARGE.weights_bytes < 200_000
    config = next(e for e in entries if e.name == "config.json")
    assert config.size_bytes == len(LARGE.files()["config.json"])


def test_a_second_preparation_keeps_what_was_changed(rig) -> None:
    rig.set_ptrace_scope("0")
    write(rig, "/home/demo/note.txt", b"mine", root=False)
    rig.prepare()
    RigFiles(rig.root).prepare()
    assert rig.ptrace_scope == "0"
    assert rig.read("/home/demo/note.txt", LIMIT) == b"mine"


def test_a_preparation_that_was_cut_off_is_finished(rig) -> None:
    (rig.root / ".rig-version").unlink()
    rig.set_ptrace_scope("0")
    (rig.root / "home/demo/models" / LARGE.name / "config.json").write_bytes(b"ha")
    rig.prepare()
    assert rig.ptrace_scope == "0"
    assert (
        rig.read(f"{MODELS_FOLDER}/{LARGE.name}/config.json", LIMIT) == LARGE.files()["config.json"]
    )
    assert (rig.root / ".rig-version").read_text() == RIG_VERSION


def test_a_folder_that_cannot_be_made(tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(HostError) as caught:
        RigFiles(tmp_path / "file" / "rig").prepare()
    assert caught.value.next_step is not None


@pytest.mark.parametrize(
    "path",
    [
        "relative",
        "",
        "/etc/a:b",
        "/etc/a\\b",
        "/etc/a\0b",
        "/etc/con. ",
        "C:\\Windows",
    ],
)
def test_what_is_no_path_of_the_rig(rig, path) -> None:
    for action in (
        lambda: rig.read(path, LIMIT),
        lambda: rig.entries(path),
        lambda: write(rig, path, b"x"),
    ):
        with pytest.raises(HostError):
            action()


def test_dots_stay_inside(rig) -> None:
    (rig.root.parent / "secret").write_text("s")
    assert rig.read("/../../secret", LIMIT) is None
    write(rig, "/../../secret", b"mine")
    assert (rig.root.parent / "secret").read_text() == "s"
    assert rig.read("/secret", LIMIT) == b"mine"


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_links_do_not_lead_out(rig) -> None:
    (rig.root.parent / "secret").write_text("s")
    (rig.root / "home/demo/link").symlink_to(rig.root.parent)
    with pytest.raises(HostError, match="leads out of the demo rig"):
        rig.read("/home/demo/link/secret", LIMIT)
    with pytest.raises(HostError):
        write(rig, "/home/demo/link/secret", b"x")
    assert (rig.root.parent / "secret").read_text() == "s"


def test_home_is_expanded(rig) -> None:
    assert [e.name for e in rig.entries("~/models")] == sorted(MODELS)
    assert [e.name for e in rig.entries("~")] == ["models", "venvs"]


def test_missing_things_are_missing_not_errors(rig) -> None:
    assert rig.read("/etc/none", LIMIT) is None
    assert rig.read("/etc/os-release/x", LIMIT) is None
    assert rig.entries("/nowhere") == ()
    assert rig.entries("/etc/os-release") == ()
    assert not rig.is_folder("/nowhere")


def test_a_folder_is_not_a_file_and_a_huge_file_is_not_read(rig) -> None:
    with pytest.raises(HostError, match="cannot be read"):
        rig.read("/etc", LIMIT)
    with pytest.raises(HostError, match="larger than 10 bytes"):
        rig.read("/etc/os-release", 10)


def test_only_root_changes_the_system(rig) -> None:
    with pytest.raises(HostError, match="not permitted"):
        write(rig, DROP_IN, b"x", root=False)
    with pytest.raises(HostError, match="not permitted"):
        write(rig, "/home/demo/../../etc/x", b"x", root=False)
    assert rig.read(DROP_IN, LIMIT) is None
    write(rig, DROP_IN, b"x")
    assert rig.read(DROP_IN, LIMIT) == b"x"
    write(rig, "/home/demo/a/b", b"y", root=False)
    assert rig.read("~/a/b", LIMIT) == b"y"


def test_the_expected_hash_guards_a_change(rig) -> None:
    write(rig, DROP_IN, b"one", expected="")
    digest = hashlib.sha256(b"one").hexdigest()
    for wrong in ("", "0" * 64):
        with pytest.raises(ConflictError):
            write(rig, DROP_IN, b"two", expected=wrong)
    assert rig.read(DROP_IN, LIMIT) == b"one"
    write(rig, DROP_IN, b"two", expected=digest.upper())
    with pytest.raises(ConflictError):
        write(rig, DROP_IN, None, expected=digest)
    write(rig, DROP_IN, None, expected=hashlib.sha256(b"two").hexdigest())
    assert rig.read(DROP_IN, LIMIT) is None
    write(rig, DROP_IN, None, expected="")  # removing what is not there is fine


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"yes please\n"])
def test_a_damaged_setting_is_passed_on_as_it_is(rig, data) -> None:
    (rig.root / PTRACE_FILE[1:]).write_bytes(data)
    assert rig.ptrace_scope == data.decode("ascii", "replace").strip()
