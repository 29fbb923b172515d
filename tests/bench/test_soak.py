"""The panel beside a server under load, for minutes: what it costs, and whether it grows.

``TWINRIG_SOAK_S`` sets the length; the real processes run on the demo rig.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from real.client import StreamingClient

pytestmark = [
    pytest.mark.bench,
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads Linux's /proc"),
]

SOAK_S = float(os.environ.get("TWINRIG_SOAK_S", "1800"))
SETTLE_S = 60.0
CPU_PERCENT = 1.0
GROWTH_MIB = 5.0
PRIVATE_MIB = 120.0


def twinrig(*args: str) -> list[str]:
    return [sys.executable, "-m", "twinrig", "--target", "demo", *args]


def cpu_s(pid: int) -> float:
    """Processor time of one process, its children not counted."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def private_mib(pid: int) -> tuple[float, float]:
    """Memory that would come back if the process ended, and the part that was written to.

    The rest belongs to libraries: whether it counts as private hangs on other programs.
    """
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    lines = dict(line.split(":", 1) for line in text.splitlines()[1:])
    clean, dirty = (int(lines[key].split()[0]) for key in ("Private_Clean", "Private_Dirty"))
    return (clean + dirty) / 1024, dirty / 1024


@pytest.fixture
def environment(twinrig_home: Path) -> Iterator[dict[str, str]]:
    values = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(
        twinrig("up", "--yes", "--keep", "--seconds", "1"),
        env=values,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    yield values
    subprocess.run(twinrig("stop"), env=values, check=True, timeout=120, capture_output=True)


def record_of(home: Path) -> dict[str, object]:
    (path,) = home.glob("state/demo/servers/*/state.json")
    data: dict[str, object] = json.loads(path.read_text("utf-8"))
    return data


def test_the_panel_costs_little_and_does_not_grow(
    environment: dict[str, str], twinrig_home: Path
) -> None:
    before = record_of(twinrig_home)
    port = int(str(before["base_url"]).rpartition(":")[2])
    client = StreamingClient(port, str(before["model_id"]), max_tokens=500)
    with subprocess.Popen(twinrig(), env=environment) as panel:
        try:
            client.start()
            time.sleep(SETTLE_S)
            cpu, began = cpu_s(panel.pid), time.monotonic()
            _all_then, then = private_mib(panel.pid)
            while time.monotonic() - began < SOAK_S:
                time.sleep(1)
                assert panel.poll() is None, "the panel ended by itself"
            seconds = time.monotonic() - began
            percent = 100 * (cpu_s(panel.pid) - cpu) / seconds
            after, now = private_mib(panel.pid)
        finally:
            client.stop()
            panel.terminate()
    supervisor = before["supervisor_pid"]
    assert isinstance(supervisor, int)
    print(f"\n{seconds:.0f} s under load: panel {percent:.2f} % of a core (budget {CPU_PERCENT} %)")
    print(
        f"private memory {after:.1f} MiB, what was written to {then:.1f} -> {now:.1f} MiB;"
        f" supervisor {cpu_s(supervisor):.1f} s CPU"
    )
    assert client.faults == []
    assert client.replies > 0
    found = record_of(twinrig_home)
    assert (found["run_id"], found["restarts"], found["state"]) == (before["run_id"], 0, "ready")
    assert percent <= CPU_PERCENT
    assert after <= PRIVATE_MIB
    assert now - then <= GROWTH_MIB
