from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.demo_rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "home")
    rig.home.mkdir()
    yield rig
    for pid in rig.processes():
        os.kill(pid, signal.SIGKILL)
