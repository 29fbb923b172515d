"""A further engine is one new module: nobody else asks which engine it is.

What differs belongs into the engine's own module. Elsewhere an id may stand in data only: rows of
a table by engine, or the engines that a check or fix is for.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from twinrig import assets
from twinrig.engines.registry import load_engines
from unit.house.source_tree import module_name, product_files, tree

IDS = frozenset(load_engines(assets.read_text)) - {"demo"}
"""The demo's id is the name of a target too."""
HOME = "twinrig.engines."
DATA = {
    "twinrig.fixes.planning",
    "twinrig.fixes.edit_table",
    "twinrig.diagnosis.facts",
    "twinrig.domain.memory",
    "twinrig.cli.estimate_arguments",
    "twinrig.services.case",
    "twinrig.services.run_context",
}
"""Modules that name an engine, or its package, in a table or as a default."""


def decisions(source: ast.Module) -> list[str]:
    """Comparisons with an id, memberships in a set of ids, and cases of a match."""
    found = []
    for node in ast.walk(source):
        if isinstance(node, ast.Compare):
            equal = any(isinstance(op, (ast.Eq, ast.NotEq)) for op in node.ops)
            sides = [node.left, *node.comparators]
            plain = equal and any(_is_id(side) for side in sides)
            among = any(_is_id(c) for side in sides if _is_group(side) for c in ast.walk(side))
            if plain or among:
                found.append(ast.unparse(node))
        elif isinstance(node, ast.MatchValue) and _is_id(node.value):
            found.append(f"case {ast.unparse(node)}")
    return found


def _is_id(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in IDS


def _is_group(node: ast.AST) -> bool:
    return isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Call))


def elsewhere() -> list[Path]:
    return [path for path in product_files() if not module_name(path).startswith(HOME)]


def test_nobody_decides_by_the_name_of_an_engine() -> None:
    assert {module_name(p): found for p in elsewhere() if (found := decisions(tree(p)))} == {}


def test_ids_stand_in_tables_only() -> None:
    named = {
        module_name(path)
        for path in elsewhere()
        if any(_is_id(node) for node in ast.walk(tree(path)))
    }
    checks = {name for name in named if name.startswith("twinrig.checks.")}
    assert named - checks == DATA


@pytest.mark.parametrize(
    "text",
    [
        "x.engine.id == 'vllm'",
        "'tabbyapi' != e",
        "e in ('vllm', 'other')",
        "e in frozenset({'tabbyapi'})",
        "match e:\n    case 'vllm':\n        pass",
    ],
)
def test_the_rule_sees_each_form(text: str) -> None:
    assert len(decisions(ast.parse(text))) == 1


def test_the_rule_leaves_data_alone() -> None:
    assert decisions(ast.parse("ROWS = {'vllm': 1}\nx = ROWS.get(e.id) is None\n'vllm' in t")) == []
