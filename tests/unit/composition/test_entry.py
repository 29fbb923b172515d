from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from twinrig import __main__ as entry
from twinrig import __version__
from twinrig.composition.language import choose_language
from twinrig.composition.panel import display_present


def test_version_imports_nothing_heavy() -> None:
    code = (
        "import sys, json; from twinrig.__main__ import main; code = main(['--version'])\n"
        "print(json.dumps([code, [m for m in sys.modules if m.split('.')[0] in"
        " ('asyncio', 'argparse', 'yaml', 'httpx', 'PySide6', 'platformdirs', 'gettext')]]))"
    )
    out = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert out[0] == f"twinrig {__version__}"
    assert json.loads(out[1]) == [0, []]


@pytest.mark.bench
def test_version_takes_at_most_four_times_an_empty_python() -> None:
    def best(*argv: str) -> float:
        times = []
        for _ in range(7):
            begun = time.perf_counter()
            subprocess.run([sys.executable, *argv], check=True, capture_output=True)
            times.append(time.perf_counter() - begun)
        return min(times)

    ratio = best("-m", "twinrig", "--version") / best("-c", "pass")
    print(f"twinrig --version: {ratio:.2f}x python -c pass")
    assert ratio <= 4


def test_no_verb_opens_the_panel_where_there_is_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple] = []
    monkeypatch.setattr("twinrig.composition.panel.display_present", lambda _: True)
    monkeypatch.setattr(
        "twinrig.composition.panel.open_panel",
        lambda target, language, *, hidden, replay: (
            opened.append((target, language, hidden, replay)) or 5
        ),
    )
    assert entry.main([]) == 5
    assert entry.main(["--target", "demo", "--language=ja", "--hidden"]) == 5
    assert entry.main(["--replay", "rig.jsonl"]) == 5
    assert opened == [
        ("auto", None, False, ""),
        ("demo", "ja", True, ""),
        ("auto", None, False, "rig.jsonl"),
    ]


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["--target", "wsl", "--distro", "Debian"], "wsl:Debian"),
        (["--distro=Debian"], "wsl:Debian"),
        (["--target", "demo", "--distro", "Debian"], "demo"),
        (["--target", "wsl"], "wsl"),
    ],
)
def test_a_distribution_is_part_of_the_target(
    monkeypatch: pytest.MonkeyPatch, words: list[str], target: str
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("twinrig.composition.panel.display_present", lambda _: True)
    monkeypatch.setattr(
        "twinrig.composition.panel.open_panel", lambda wanted, *_, **__: opened.append(wanted) or 0
    )
    entry.main(words)
    assert opened == [target]


def test_no_verb_is_the_whole_job_without_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr("twinrig.composition.panel.display_present", lambda _: False)
    monkeypatch.setattr("twinrig.composition.terminal.run_terminal", lambda w: ran.append(w) or 0)
    entry.main([])
    entry.main(["--target", "demo", "--hidden"])
    entry.main(["doctor", "--json"])
    entry.main(["--replay=rig.jsonl", "--language", "ja"])
    assert ran == [
        ["up"],
        ["--target", "demo", "up"],
        ["doctor", "--json"],
        ["--language", "ja", "watch", "--replay", "rig.jsonl"],
    ]


def test_without_qt_the_terminal_view_opens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> int:
        raise ImportError("libEGL.so.1: cannot open shared object file")

    ran: list[list[str]] = []
    monkeypatch.setattr("twinrig.composition.panel.display_present", lambda _: True)
    monkeypatch.setattr("twinrig.composition.panel.open_panel", broken)
    monkeypatch.setattr("twinrig.composition.terminal.run_terminal", lambda w: ran.append(w) or 0)
    assert entry.main([]) == 0
    assert ran == [["up"]]
    assert "libEGL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environ", "present"),
    [
        ({}, False),
        ({"DISPLAY": ":0"}, True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, True),
        ({"QT_QPA_PLATFORM": "offscreen"}, True),
        ({"DISPLAY": ""}, False),
    ],
)
def test_display(environ: dict[str, str], present: bool) -> None:
    assert display_present(environ) is present


@pytest.mark.parametrize(
    ("ini", "environ", "language"),
    [
        (None, {}, "en"),
        (None, {"LANG": "ja_JP.UTF-8"}, "ja"),
        (None, {"LANG": "ja_JP.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        (None, {"LANG": "de_DE.UTF-8"}, "en"),
        ("[General]\nlanguage=ja\n", {"LANG": "en_US.UTF-8"}, "ja"),
        ("[General]\nlanguage=en\n", {"LANG": "ja_JP.UTF-8"}, "en"),
        ("[General]\nlanguage=\n", {"LANG": "ja_JP.UTF-8"}, "ja"),
        ("[layout]\ngeometry=@ByteArray(\\x1\\xd9%\\xcb)\n", {"LANG": "ja_JP.UTF-8"}, "ja"),
        ("garbage \x00 without sections", {"LANG": "ja"}, "ja"),
        ("[General]\nlanguage=tlh\n", {}, "en"),
    ],
)
def test_language(tmp_path: Path, ini: str | None, environ: dict[str, str], language: str) -> None:
    if ini is not None:
        (tmp_path / "panel.ini").write_text(ini)
    assert choose_language(tmp_path, environ) == language


def test_windows_has_no_variable_for_its_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twinrig.composition.language.ui_language", lambda: "ja")
    assert choose_language(tmp_path, {}) == "ja"
    assert choose_language(tmp_path, {"LANG": "en_US.UTF-8"}) == "en"


def test_language_with_a_binary_or_unreadable_ini(tmp_path: Path) -> None:
    (tmp_path / "panel.ini").write_bytes(b"\xff\xfe\x00[General]")
    assert choose_language(tmp_path, {"LANG": "ja_JP"}) == "ja"
    (tmp_path / "panel.ini").unlink()
    (tmp_path / "panel.ini").mkdir()
    assert choose_language(tmp_path, {}) == "en"
