"""What may be imported, printed and named where; each rule is also shown to be able to fail."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from unit.house.source_tree import (
    PACKAGE,
    ROOT,
    imports,
    module_name,
    product_files,
    tracked_files,
    tree,
)

ONLY_IN = {
    "httpx": ("twinrig.hosts.http",),
    "pynvml": ("twinrig.hosts.nvml",),
    "keyring": ("twinrig.hosts.secrets",),
    "platformdirs": ("twinrig.hosts.paths",),
    "PySide6": ("twinrig.qt",),
    "shiboken6": ("twinrig.qt",),
}
STAR = re.compile(r"^\s*from\s+\S+\s+import\s+\*", re.MULTILINE)


def within(module: str, homes: tuple[str, ...]) -> bool:
    return any(module == home or module.startswith(home + ".") for home in homes)


def misplaced(path: Path, module: str) -> list[str]:
    """Imports of ``path`` that belong to other modules."""
    return [
        f"{module}:{line} imports {name}"
        for name, line in imports(path)
        if (homes := ONLY_IN.get(name.partition(".")[0])) and not within(module, homes)
    ]


def test_libraries_with_one_home_stay_there() -> None:
    assert [m for path in product_files() for m in misplaced(path, module_name(path))] == []


def test_the_rule_sees_an_import_inside_a_function(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("def f():\n    from PySide6.QtCore import QObject\n    import httpx\n")
    assert misplaced(path, "twinrig.services.x") == [
        "twinrig.services.x:2 imports PySide6.QtCore",
        "twinrig.services.x:3 imports httpx",
    ]
    assert misplaced(path, "twinrig.qt.x") == ["twinrig.qt.x:3 imports httpx"]


def test_nothing_is_imported_with_a_star() -> None:
    assert [module_name(p) for p in product_files() if STAR.search(p.read_text("utf-8"))] == []


def prints(path: Path) -> list[int]:
    """Lines that call print."""
    return [
        node.lineno
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]


def test_only_the_command_line_prints() -> None:
    others = [p for p in product_files() if not within(module_name(p), ("twinrig.cli",))]
    assert {module_name(p): lines for p in others if (lines := prints(p))} == {}


def test_layers_hold() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


BLOCKED = """
import importlib, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("PySide6", "shiboken6"):
            raise ImportError(f"{name} was imported")

sys.meta_path.insert(0, Refuse())
for name in sys.argv[1:]:
    importlib.import_module(name)
print("imported", len(sys.argv) - 1)
"""


def without_qt(modules: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED, *modules],
        capture_output=True,
        encoding="utf-8",
        cwd=PACKAGE.parent,
        check=False,
    )


def test_everything_but_the_panel_works_without_qt() -> None:
    modules = [
        name
        for name in map(module_name, product_files())
        if not within(name, ("twinrig.qt", "twinrig.composition.panel"))
        and not name.startswith("twinrig.hosts.windows")
    ]
    assert len(modules) > 20
    done = without_qt(modules)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"imported {len(modules)}\n"


def test_that_test_would_notice_qt() -> None:
    modules = [name for name in map(module_name, product_files()) if name == "twinrig.qt.bridge"]
    if not modules:
        pytest.skip("no panel yet")
    done = without_qt(modules)
    assert done.returncode != 0
    assert "was imported" in done.stderr


TEXT = {".py", ".pyw", ".md", ".toml", ".txt", ".yaml", ".sh", ".cmd", ".po", ".cfg", ".ini", ""}
ADDRESSES = re.compile(
    r"files\.pythonhosted\.org|pypi\.org/simple|--(extra-)?index-url|registry\.npmjs|"
    r"deb\.debian\.org|file:///opt|/opt/wheels|/work/(main|shared)"
)
ALLOWED = {"tests/unit/house/test_rules.py", "tests/unit/house/test_pins.py", ".ci/requirements.py"}


def addresses(text: str) -> list[str]:
    return [m.group(0) for m in ADDRESSES.finditer(text)]


def test_no_file_names_a_package_index_or_this_machine() -> None:
    files = tracked_files()
    if not files:
        pytest.skip("not a git clone")
    found = {}
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in TEXT and name not in ALLOWED:
            text = path.read_bytes()[:2_000_000].decode("utf-8", "replace")
            if hits := addresses(text):
                found[name] = hits
    assert found == {}


def test_that_rule_sees_an_address() -> None:
    assert addresses("--index-url https://pypi.org/simple")
    assert not addresses("see the package index")
