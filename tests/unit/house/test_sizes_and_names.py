"""Files and functions stay small, names say something, and every public thing says what it is."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import pytest

from unit.house.source_tree import (
    PACKAGE,
    ROOT,
    all_files,
    functions,
    module_name,
    product_files,
    tracked_files,
    tree,
)

FILE_LINES, FILE_MEDIAN = 500, 110
FUNCTION_LINES, FUNCTION_P95 = 60, 30
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}
TOP_LEVEL = {
    *("app", "resources", "tests", "installer", "docs", ".ci"),
    *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md"),
    *("THIRD-PARTY-NOTICES.md", ".gitignore", ".gitattributes"),
}


def lines_of(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_file_is_longer_than_the_limit() -> None:
    long = {str(p.relative_to(ROOT)): n for p in all_files() if (n := lines_of(p)) > FILE_LINES}
    assert long == {}


def test_the_median_file_is_short() -> None:
    assert statistics.median(map(lines_of, product_files())) <= FILE_MEDIAN


def test_no_function_is_longer_than_the_limit() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": length(node)
        for path in all_files()
        for node in functions(path)
        if length(node) > FUNCTION_LINES
    }
    assert long == {}


def test_nineteen_of_twenty_functions_are_short() -> None:
    lengths = sorted(length(node) for path in product_files() for node in functions(path))
    assert lengths[int(len(lengths) * 0.95)] <= FUNCTION_P95


def test_no_module_has_a_name_that_says_nothing() -> None:
    parts = {
        str(p.relative_to(ROOT)): set(module_name(p).split(".")) & FORBIDDEN_NAMES
        for p in product_files()
    }
    assert {name: bad for name, bad in parts.items() if bad} == {}


def test_app_is_a_source_root_with_one_package() -> None:
    assert not (PACKAGE.parent / "__init__.py").exists()
    assert [p.name for p in PACKAGE.parent.iterdir() if p.is_dir()] == ["twinrig"]


def test_the_top_level_holds_only_what_belongs_there() -> None:
    files = tracked_files()
    if not files:
        pytest.skip("not a git clone")
    assert {path.relative_to(ROOT).parts[0] for path in files} - TOP_LEVEL == set()


def undescribed(path: Path) -> list[str]:
    """Public classes and functions of one file without a docstring."""
    return [
        f"{path.name}:{node.lineno} {node.name}"
        for node in tree(path).body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]


def test_every_public_thing_of_the_core_is_described() -> None:
    core = [p for p in product_files() if "qt" not in p.relative_to(PACKAGE).parts]
    assert len(core) > 50
    assert {module_name(p): found for p in core if (found := undescribed(p))} == {}


def test_a_bare_class_would_be_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("class A:\n    pass\ndef b():\n    'Text.'\ndef _c(): pass\n")
    assert undescribed(path) == ["x.py:1 A"]


def test_every_module_says_what_it_is_for() -> None:
    assert [module_name(p) for p in product_files() if not ast.get_docstring(tree(p))] == []
