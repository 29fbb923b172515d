"""Keeps the Japanese catalogue complete.

    python .ci/i18n.py update             extract, merge into ja.po, compile ja.mo
    python .ci/i18n.py check              fail on anything missing, stale, fuzzy or mismatched
    python .ci/i18n.py check --partial    the same, but entries may still lack a translation
    python .ci/i18n.py missing            print what has no translation yet

A msgid is the English sentence. Sources: N_() and message() in app/, and the text keys of the
YAML tables in resources/.
"""

from __future__ import annotations

import ast
import io
import string
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parents[1]
PO = ROOT / "resources" / "i18n" / "ja.po"
MO = PO.with_suffix(".mo")
KEYWORDS = frozenset({"N_", "message"})
YAML_FOLDERS = ("engines", "rules", "advice", "profiles")
YAML_KEYS = frozenset(
    {"label", "help", "unit", "risk", "text", "next_step", "title", "instructions", "summary"}
    | {"advice"}
)
FIXED = datetime(2026, 1, 1, tzinfo=UTC)  # dates in the header would change with every update


def main(argv: list[str]) -> int:
    """Exit code 0 = fine, 1 = faults, 2 = usage."""
    if argv == ["update"]:
        return update()
    if argv == ["missing"]:
        return missing()
    if argv in (["check"], ["check", "--partial"]):
        return check(ROOT, partial="--partial" in argv)
    print(__doc__, file=sys.stderr)
    return 2


def update() -> int:
    """Merge the sentences of the sources into ja.po and compile it."""
    catalogue = read_catalogue(PO) if PO.exists() else Catalog("ja")
    catalogue.update(template(ROOT), no_fuzzy_matching=True)
    catalogue.obsolete.clear()
    catalogue.project, catalogue.header_comment = "twinrig", "# Japanese texts of Twinrig."
    catalogue.fuzzy, catalogue.last_translator = False, "Twinrig"
    catalogue.msgid_bugs_address, catalogue.language_team = "", "Japanese"
    catalogue.version = ""
    catalogue.creation_date = catalogue.revision_date = FIXED
    PO.parent.mkdir(parents=True, exist_ok=True)
    out = io.BytesIO()
    write_po(out, catalogue, width=0, sort_output=True, ignore_obsolete=True, include_lineno=False)
    PO.write_bytes(out.getvalue())
    MO.write_bytes(compiled(read_catalogue(PO)))
    total = sum(1 for entry in catalogue if entry.id)
    print(f"ja: {len(translations(catalogue))} of {total} sentences")
    return 0


def missing() -> int:
    """Print the sentences without a translation, one a line."""
    known = translations(read_catalogue(PO))
    for sentence in sentences(ROOT):
        if sentence not in known:
            print(sentence)
    return 0


def check(root: Path, *, partial: bool = False) -> int:
    """Print every fault of the catalogue under ``root``."""
    found = list(faults(root, partial=partial))
    for fault in found:
        print(fault)
    print(f"i18n: {len(found)} faults")
    return 1 if found else 0


def faults(root: Path, *, partial: bool = False) -> Iterator[str]:
    """What is wrong, a line each."""
    po = root / "resources" / "i18n" / "ja.po"
    catalogue = read_catalogue(po)
    wanted = sentences(root)
    yield from unmarked(root)
    entries = {str(entry.id): entry for entry in catalogue if entry.id}
    yield from (f"not in ja.po: {s!r}" for s in wanted if s not in entries)
    yield from (f"stale in ja.po: {s!r}" for s in entries if s not in wanted)
    for sentence, entry in entries.items():
        if entry.fuzzy:
            yield f"fuzzy: {sentence!r}"
        if not entry.string:
            if not partial:
                yield f"not translated: {sentence!r}"
        elif (wrong := _field_fault(sentence, str(entry.string))) is not None:
            yield f"{wrong}: {sentence!r}"
    mo = po.with_suffix(".mo")
    if not mo.exists():
        yield "ja.mo is missing: run update"
    elif translations(_read_mo(mo)) != translations(catalogue):
        yield "ja.mo is not compiled from ja.po: run update"


def fields(text: str) -> set[str]:
    """Names in braces. Raises ValueError on an unbalanced brace."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def _field_fault(sentence: str, translation: str) -> str | None:
    try:
        wanted = fields(sentence)
    except ValueError:
        return None  # braces that are no fields: it is never formatted
    try:
        found = fields(translation)
    except ValueError:
        return "unbalanced brace in the translation of"
    return None if wanted == found else "fields differ in the translation of"


def sentences(root: Path) -> dict[str, list[str]]:
    """Every sentence of the sources with the files that have it."""
    found: dict[str, list[str]] = {}
    for path in sorted((root / "app").rglob("*.py")):
        for text in _python_sentences(path):
            found.setdefault(text, []).append(path.relative_to(root).as_posix())
    for folder in YAML_FOLDERS:
        for path in sorted((root / "resources" / folder).glob("*.yaml")):
            for text in yaml_sentences(yaml.safe_load(path.read_text("utf-8"))):
                found.setdefault(text, []).append(path.relative_to(root).as_posix())
    return found


def _python_sentences(path: Path) -> Iterator[str]:
    yield from (text for text in (_literal(call) for call in _marked(path)) if text)


def unmarked(root: Path) -> Iterator[str]:
    """Calls of N_ and message whose sentence is not one literal: nobody could translate it."""
    for path in sorted((root / "app").rglob("*.py")):
        if path.name != "messages.py":
            for call in _marked(path):
                if _literal(call) is None:
                    yield f"not a literal sentence: {path.relative_to(root)}:{call.lineno}"


def _marked(path: Path) -> Iterator[ast.Call]:
    tree = ast.parse(path.read_text("utf-8"), str(path))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    yield from (c for c in calls if isinstance(c.func, ast.Name) and c.func.id in KEYWORDS)


def _literal(call: ast.Call) -> str | None:
    """The sentence; adjacent literals are one to the parser."""
    first = call.args[0]
    fine = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return str(first.value) if fine and isinstance(first, ast.Constant) else None


def yaml_sentences(data: Any) -> Iterator[str]:
    """Texts under the text keys, at any depth; a list holds one sentence an entry."""
    if isinstance(data, list):
        for item in data:
            yield from yaml_sentences(item)
    elif isinstance(data, dict):
        for key, value in data.items():
            if key in YAML_KEYS:
                yield from _texts(value)
            if isinstance(value, (dict, list)):
                yield from yaml_sentences(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, list):
        yield from (v for v in value if isinstance(v, str) and v.strip())


def template(root: Path) -> Catalog:
    """The sentences of the sources as a catalogue without translations."""
    catalogue = Catalog()
    for text, files in sentences(root).items():
        catalogue.add(text, locations=[(name, 1) for name in dict.fromkeys(files)])
        catalogue[text].flags.discard("python-format")  # fields are {name}, never %s
    return catalogue


def read_catalogue(path: Path) -> Catalog:
    """ja.po. Raises PoFileError on damage: a half-read catalogue would drop translations."""
    with path.open("rb") as handle:
        return read_po(handle, locale="ja", abort_invalid=True)


def _read_mo(path: Path) -> Catalog:
    with path.open("rb") as handle:
        return read_mo(handle)


def translations(catalogue: Catalog) -> dict[str, str]:
    """Sentence -> translation, of those that have one and are not fuzzy."""
    return {str(e.id): str(e.string) for e in catalogue if e.id and e.string and not e.fuzzy}


def compiled(catalogue: Catalog) -> bytes:
    """ja.mo of a catalogue."""
    out = io.BytesIO()
    write_mo(out, catalogue)
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
