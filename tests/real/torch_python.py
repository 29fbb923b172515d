"""A Python that has torch: named for it, or the one of the real vLLM."""

from __future__ import annotations

import os

import pytest

_VLLM = os.environ.get("TWINRIG_REAL_VLLM", "")
PYTHON = os.environ.get("TWINRIG_TORCH_PYTHON", "") or (f"{_VLLM}/bin/python" if _VLLM else "")
needs_torch = pytest.mark.skipif(
    not PYTHON,
    reason="neither TWINRIG_TORCH_PYTHON nor TWINRIG_REAL_VLLM names a Python with torch",
)
