"""What Windows' Python lacks is found by its types; the search itself can fail."""

from __future__ import annotations

import importlib.util

from unit.house.source_tree import ROOT


def test_only_modules_that_run_on_windows_count() -> None:
    path = ROOT / ".ci" / "windows_types.py"
    spec = importlib.util.spec_from_file_location("windows_types", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    error = 'error: Module has no attribute "O_CLOEXEC"  [attr-defined]'
    lines = [
        f"app/twinrig/hosts/locks.py:50: {error}",
        f"app/twinrig/hosts/local/signals.py:17: {error}",
        "app/twinrig/supervisor/port.py:57: error: Statement is unreachable  [unreachable]",
    ]
    assert module.absent("\n".join(lines)) == lines[:1]
