"""Keeps the source text of the program out of its memory.

PySide reads the source of every module that is imported after it, to see whether the module uses
its ``__feature__`` switch, and Python's ``linecache`` keeps each line: 16 MiB for the panel.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Forget(MetaPathFinder):
    """Finds nothing; before a module is loaded it drops what was read for the one before.

    Once for all at the end would be too late: the lines lie between what stays then, and the
    memory does not come back. A trace that is printed later reads its few lines again.
    """

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        linecache.clearcache()
        return None


def keep_no_source_lines() -> None:
    """From now on, in this process. May be called again."""
    if not any(isinstance(finder, _Forget) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Forget())
