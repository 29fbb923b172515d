"""The files of the project and their syntax trees, read once."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "app" / "twinrig"
OTHERS = (ROOT / "installer", ROOT / ".ci", ROOT / "tests")


@cache
def product_files() -> tuple[Path, ...]:
    """Python files of the package."""
    return tuple(sorted(PACKAGE.rglob("*.py")))


@cache
def all_files() -> tuple[Path, ...]:
    """Python files of the whole project."""
    found = list(product_files())
    for folder in OTHERS:
        found += [*folder.rglob("*.py"), *folder.rglob("*.pyw")]
    return tuple(sorted(found))


@cache
def tree(path: Path) -> ast.Module:
    """Syntax tree of one file."""
    return ast.parse(path.read_text("utf-8"), str(path))


def module_name(path: Path) -> str:
    """``twinrig.domain.gpu`` of a product file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of one file."""
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Absolute module names that one file imports anywhere, with their lines."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module, node.lineno


@cache
def tracked_files() -> tuple[Path, ...]:
    """Files that git knows, or would add; empty outside a clone."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    paths = (ROOT / name for name in done.stdout.split("\0") if name)
    return tuple(path for path in paths if path.is_file())
