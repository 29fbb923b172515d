"""The scripts that read and write files, as bash runs them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from twinrig.domain.ports import Script
from twinrig.hosts import linux_scripts as scripts
from twinrig.hosts.linux_answers import parse_entries, parse_glimpse


def run(script: Script, stdin: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-c", script.text, script.name, *script.args],
        input=stdin,
        capture_output=True,
        env={**os.environ, **environ},
        check=False,
    )


def write(path: Path | str, data: bytes | None, expected: str | None = None) -> int:
    return run(scripts.write_file(str(path), data, 0o640, expected), data or b"").returncode


def test_writing(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "deeper" / "a file"
    assert write(file, b"one", "") == 0
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"one", 0o640)
    assert write(file, b"two", "") == scripts.CONFLICT_CODE
    assert write(file, b"two", "0" * 64) == scripts.CONFLICT_CODE
    assert write(file, None, "0" * 64) == scripts.CONFLICT_CODE
    assert file.read_bytes() == b"one"
    assert write(file, b"\0\xff\n") == 0
    assert file.read_bytes() == b"\0\xff\n"
    assert write(file, None) == write(file, None) == 0
    assert list(file.parent.iterdir()) == []


def test_a_link_is_followed_and_a_broken_one_made_whole(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "far" / "real")
    assert write(tmp_path / "link", b"x", "") == 0
    assert (tmp_path / "far" / "real").read_bytes() == b"x"
    assert (tmp_path / "link").is_symlink()


def test_half_of_the_data_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    script = scripts.write_file(str(tmp_path / "f"), b"whole", 0o644, None)
    assert run(script, b"who").returncode == scripts.CUT_CODE
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]


def test_a_folder_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    assert write(tmp_path / "d", b"x") not in (0, scripts.CONFLICT_CODE)
    assert list((tmp_path / "d").iterdir()) == []
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


def test_home(tmp_path: Path) -> None:
    script = scripts.write_file("~/x y/z", b"mine", 0o600, "")
    assert run(script, b"mine", HOME=str(tmp_path)).returncode == 0
    assert (tmp_path / "x y" / "z").read_bytes() == b"mine"
    read = run(Script("r", scripts.READ_FILE, ("~/x y/z", "9")), HOME=str(tmp_path))
    assert (read.returncode, read.stdout) == (0, b"mine")


def read(path: Path, limit: int = 100) -> subprocess.CompletedProcess[bytes]:
    return run(Script("r", scripts.READ_FILE, (str(path), str(limit))))


def test_reading(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    (tmp_path / "empty").touch()
    (tmp_path / "broken").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert read(tmp_path / "f", 5).stdout == b"12345"
    assert read(tmp_path / "f", 4).returncode == scripts.TOO_LARGE_CODE
    assert (read(tmp_path / "empty").returncode, read(tmp_path / "empty").stdout) == (0, b"")
    for name in ("none", "broken", "f/below"):
        assert read(tmp_path / name).returncode == scripts.ABSENT_CODE
    for name in ("pipe", ""):
        refused = read(tmp_path / name)
        assert refused.returncode == scripts.UNREADABLE_CODE
        assert refused.stderr == b"not a regular file"


def test_listing(tmp_path: Path) -> None:
    for name in ("-n", ".hidden", "a b", "new\nline", "日本"):
        (tmp_path / name).write_bytes(b"xy")
    (tmp_path / "sub").mkdir()
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "broken").symlink_to("nowhere")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))).touch()
    done = run(Script("l", scripts.LIST_FOLDER, (str(tmp_path),)))
    found = {e.name: (e.is_dir, e.size_bytes) for e in parse_entries(done.stdout)}
    assert found == {
        **dict.fromkeys(("-n", ".hidden", "a b", "new\nline", "日本"), (False, 2)),
        **dict.fromkeys(("sub", "up"), (True, None)),
        "broken": (False, None),
        "\udcff": (False, 0),
    }
    for missing in (tmp_path / "none", tmp_path / "a b"):
        answer = run(Script("l", scripts.LIST_FOLDER, (str(missing),)))
        assert answer.returncode == scripts.ABSENT_CODE
    (tmp_path / "sub").rmdir()
    (tmp_path / "bare").mkdir()
    assert run(Script("l", scripts.LIST_FOLDER, (str(tmp_path / "bare"),))).stdout == b""


def test_marked_processes_are_killed_and_others_are_not() -> None:
    marked = subprocess.Popen(["sleep", "60"], env={"TWINRIG_CALL": "abc"})
    other = subprocess.Popen(["sleep", "60"], env={"TWINRIG_CALL": "abcd"})
    assert run(Script("k", scripts.KILL_MARKED, ("TWINRIG_CALL=abc",))).returncode == 0
    assert marked.wait(5) == -9
    assert other.poll() is None
    other.kill()
    other.wait()


def glance(*patterns: str, most: int = 99, limit: int = 1000, **environ: str):
    done = run(Script("glance", scripts.GLANCE, (str(most), str(limit), *patterns)), **environ)
    assert done.returncode == 0
    return parse_glimpse(done.stdout)


def test_a_glance_shows_patterns_of_folders_and_files(tmp_path: Path) -> None:
    home = tmp_path / "my home"
    for name in ("a b/x", "c/x", ".hidden/x", "[odd]/x"):
        (home / name).mkdir(parents=True)
        (home / name / "f.txt").write_bytes(b"\0" + name.encode())
    (home / "c" / "link").symlink_to("../a b")
    (home / "c" / "broken").symlink_to("nowhere")
    seen = glance("~", "~/*/x", "~/none", f"{home}/c/*", "--", "~/*/x/*.txt", HOME=str(home))
    assert seen.home == str(home)
    assert {e.name for e in seen.folders[str(home)]} == {"a b", "c", ".hidden", "[odd]"}
    assert sorted(p.removeprefix(str(home)) for p in seen.folders if p != str(home)) == [
        *("/[odd]/x", "/a b/x", "/c/link", "/c/x"),
    ]
    assert [e.name for e in seen.folders[f"{home}/c/link"]] == ["x"], "links are followed"
    assert {p.removeprefix(str(home)): d for p, d in seen.files.items()} == {
        "/a b/x/f.txt": b"\0a b/x",
        "/c/x/f.txt": b"\0c/x",
        "/[odd]/x/f.txt": b"\0[odd]/x",
    }
    odd = glance("--", "~/[[]odd]/x/f.txt", HOME=str(home))
    assert list(odd.files.values()) == [b"\0[odd]/x"]


def test_a_glance_has_bounds(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "f").write_bytes(b"x" * 40)
    (tmp_path / "0" / "pipe").mkdir()
    os.mkfifo(tmp_path / "0" / "fifo")
    seen = glance(f"{tmp_path}/*", "--", f"{tmp_path}/*/f*", most=2, limit=100)
    assert [Path(p).name for p in seen.folders] == ["0", "1"]
    assert [d if d is None else len(d) for d in seen.files.values()] == [40, 40, None, None]


def test_a_glance_at_nothing(tmp_path: Path) -> None:
    seen = glance("--", HOME=str(tmp_path))
    assert (seen.folders, seen.files) == ({}, {})
