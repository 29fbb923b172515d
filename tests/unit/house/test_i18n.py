"""The catalogue's own check: it finds sentences, and every kind of fault."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from unit.house.source_tree import ROOT


@pytest.fixture
def i18n() -> ModuleType:
    spec = importlib.util.spec_from_file_location("i18n", ROOT / ".ci" / "i18n.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOURCE = """from twinrig.messages import N_, message
A = N_("Plain")
B = message("GPU {index} is "
            "hot: {value}", index=1, value=f"{2} C")
"""
TABLE = """
options:
  - id: a
    label: Context length
    help: Longest conversation.
    choices: [not, text]
    nested: {risk: Careful.}
  - title: Do this
    instructions: [First., Second.]
"""
PO = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=utf-8\\n"
"""
WANTED = {
    "Plain": "簡素",
    "GPU {index} is hot: {value}": "GPU {index} は {value} です",
    "Context length": "文脈長",
    "Longest conversation.": "最長の会話。",
    "Careful.": "注意。",
    "Do this": "これを",
    "First.": "一。",
    "Second.": "二。",
}


@pytest.fixture
def project(tmp_path: Path, i18n: ModuleType) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "a.py").write_text(SOURCE)
    (tmp_path / "resources" / "engines").mkdir(parents=True)
    (tmp_path / "resources" / "engines" / "x.yaml").write_text(TABLE)
    write(tmp_path, i18n, WANTED)
    return tmp_path


def write(
    root: Path, i18n: ModuleType, entries: dict[str, str], *, flag: str = "", build: bool = True
) -> None:
    """Write ja.po, and ja.mo compiled from it."""
    po = root / "resources" / "i18n" / "ja.po"
    po.parent.mkdir(exist_ok=True)
    body = "".join(f'\n{flag}msgid "{k}"\nmsgstr "{v}"\n' for k, v in entries.items())
    po.write_text(PO + body, "utf-8")
    if build:
        po.with_suffix(".mo").write_bytes(i18n.compiled(i18n.read_catalogue(po)))


def test_every_sentence_is_found_once(project: Path, i18n: ModuleType) -> None:
    assert set(i18n.sentences(project)) == set(WANTED)


def test_a_complete_catalogue_has_no_fault(project: Path, i18n: ModuleType) -> None:
    assert list(i18n.faults(project)) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"Plain": None}, "not in ja.po: 'Plain'"),
        ({"Gone": "消えた"}, "stale in ja.po: 'Gone'"),
        ({"Plain": ""}, "not translated: 'Plain'"),
        ({"GPU {index} is hot: {value}": "GPU {index}"}, "fields differ"),
        ({"GPU {index} is hot: {value}": "{index} {value} {x}"}, "fields differ"),
        ({"GPU {index} is hot: {value}": "{index} {value"}, "unbalanced brace"),
    ],
)
def test_each_fault_is_told(
    project: Path, i18n: ModuleType, change: dict[str, str | None], says: str
) -> None:
    entries = {k: v for k, v in {**WANTED, **change}.items() if v is not None}
    write(project, i18n, entries)
    found = list(i18n.faults(project))
    assert len(found) == 1
    assert found[0].startswith(says)


def test_fuzzy_entries_are_faults(project: Path, i18n: ModuleType) -> None:
    write(project, i18n, WANTED, flag="#, fuzzy\n")
    assert len([f for f in i18n.faults(project) if f.startswith("fuzzy")]) == len(WANTED)


def test_a_catalogue_that_was_not_compiled_is_a_fault(project: Path, i18n: ModuleType) -> None:
    write(project, i18n, {**WANTED, "Plain": "単純"}, build=False)
    assert list(i18n.faults(project)) == ["ja.mo is not compiled from ja.po: run update"]
    (project / "resources" / "i18n" / "ja.mo").unlink()
    assert list(i18n.faults(project)) == ["ja.mo is missing: run update"]


def test_partial_allows_only_what_is_not_yet_translated(project: Path, i18n: ModuleType) -> None:
    write(project, i18n, {**WANTED, "Plain": ""})
    assert list(i18n.faults(project, partial=True)) == []


def test_a_sentence_that_is_no_literal_is_a_fault(project: Path, i18n: ModuleType) -> None:
    (project / "app" / "b.py").write_text('x = message(f"GPU {1}")\ny = message(name)\n')
    assert [f for f in i18n.faults(project) if "literal" in f] == [
        "not a literal sentence: app/b.py:1",
        "not a literal sentence: app/b.py:2",
    ]


def test_the_projects_catalogue_parses_and_keeps_its_fields(i18n: ModuleType) -> None:
    found = [f for f in i18n.faults(ROOT, partial=True) if not f.startswith(("not in", "stale"))]
    assert found == []
