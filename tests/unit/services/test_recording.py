"""Recordings: what is shown again is what was seen; damage costs a line, not the file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.pictures import LAYER, NOW_S, picture, server, stretch
from twinrig.domain.errors import DamagedFileError, NewerSchemaError, UsageError
from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import Phase, ServerState
from twinrig.domain.supervision import Failure, PhaseTime
from twinrig.messages import message
from twinrig.services.recording import (
    LONGEST_PAUSE_S,
    Recorder,
    Replay,
    decode,
    encode,
    recorded,
)
from twinrig.services.verdict import verdict

HARDWARE = Path(__file__).parents[2] / "fixtures" / "hardware"


class Clock:
    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return NOW_S

    def monotonic(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def failed() -> Snapshot:
    cause = Failure(message("Port {port} is taken.", port=8000), message("Choose another."))
    record = server(
        ServerState.FAILED, failure=cause, phases=(PhaseTime(Phase.WEIGHTS, NOW_S, 9.0, 0.5),)
    )
    return picture((1, None), tps=None, prompt=None, running=None, record=record, setup=None)


@pytest.mark.parametrize(
    "snapshot",
    [
        picture((67, 70)),
        picture((49, 48), setup=LAYER, cards=({"stale": True}, {"throttle_reasons": None})),
        failed(),
        replace(picture((0, 0)), server=None, gpus=(), samples=(), gpu_error="No driver."),
    ],
)
def test_nothing_is_lost(snapshot: Snapshot) -> None:
    line = encode(snapshot)
    assert "\n" not in line
    assert decode(line) == snapshot


def test_paths_of_the_machine_stay_at_home() -> None:
    record = server(log_path="/home/somebody/.local/state/twinrig/server.log")
    assert "somebody" not in encode(picture((1, 1), record=record))


@pytest.mark.parametrize("line", ["", "{", "[]", "null", '{"taken_at_s": 1}', "[" * 9999, "\x00"])
def test_anything_else_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        decode(line)


def test_a_later_version_may_know_more_fields() -> None:
    data = json.loads(encode(picture((67, 70))))
    data["samples"][0]["fan_percent"] = 40
    data["news"] = 1
    assert decode(json.dumps(data)) == picture((67, 70))


def test_a_recording_is_continued_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "rig.jsonl"
    for n in range(2):
        recorder = Recorder(path)
        recorder.add(picture((n, n)))
        recorder.close()
    assert list(recorded(path)) == [picture((0, 0)), picture((1, 1))]


def test_a_line_cut_off_by_a_crash_costs_one_line(tmp_path: Path) -> None:
    path = tmp_path / "rig.jsonl"
    recorder = Recorder(path)
    for snapshot in stretch((67, 70), 3):
        recorder.add(snapshot)
    recorder.close()
    text = path.read_text()
    path.write_text(text[:-100])
    assert len(list(recorded(path))) == 2
    lines = text.splitlines()
    path.write_bytes("\n".join([lines[0], "garbage", *lines[1:]]).encode() + b"\n\xff\xfe\n")
    assert len(list(recorded(path))) == 3


@pytest.mark.parametrize("content", [b"", b"hello", b"\x7fELF\x00", b"[1]\n", b"{}\n"])
def test_other_files_are_no_recordings_and_are_not_written_to(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match="not a recording"):
        list(recorded(path))
    if content:
        with pytest.raises(DamagedFileError):
            Recorder(path)
        assert path.read_bytes() == content


def test_newer_missing_and_unwritable_files_are_told(tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    newer.write_text('{"twinrig_recording": 2}\n')
    with pytest.raises(NewerSchemaError):
        list(recorded(newer))
    with pytest.raises(UsageError):
        list(recorded(tmp_path / "none"))
    with pytest.raises(UsageError):
        Recorder(tmp_path / "no" / "folder")
    with pytest.raises(UsageError):
        Recorder(tmp_path)


async def test_replay_keeps_the_pace_and_shortens_pauses(tmp_path: Path) -> None:
    path, clock = tmp_path / "rig.jsonl", Clock()
    recorder = Recorder(path)
    for at_s in (0.0, 1.0, 1.5, 600.0):
        recorder.add(picture((1, 1), at_s=NOW_S + at_s))
    recorder.close()
    seen = [s.taken_at_s - NOW_S async for s in Replay(path, clock, speed=2.0).snapshots()]
    assert seen == [0.0, 1.0, 1.5, 600.0]
    assert clock.slept == [0.5, 0.25, LONGEST_PAUSE_S / 2]


async def test_an_empty_recording_is_told(tmp_path: Path) -> None:
    Recorder(tmp_path / "r").close()
    with pytest.raises(DamagedFileError):
        async for _ in Replay(tmp_path / "r", Clock()).snapshots():
            pass


def test_a_replayed_stretch_is_judged_the_same(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    pictures = stretch((49, 48), setup=LAYER)
    for snapshot in pictures:
        recorder.add(snapshot)
    recorder.close()
    assert verdict(list(recorded(tmp_path / "r"))) == verdict(pictures)


def test_a_recording_of_two_real_cards_is_read_whole() -> None:
    """Two H200 under a decode load in plain torch: layers in turns, a pause, tensor parallel."""
    shots = list(recorded(HARDWARE / "h200-decode.jsonl"))
    assert len(shots) == 58 and not any(shot.demo for shot in shots)
    energy = [sum(s.energy_j or 0.0 for s in shot.samples) for shot in shots]
    assert energy == sorted(energy) and energy[-1] - energy[0] > 10_000
    sums = [sum(s.utilisation_percent or 0 for s in shot.samples) for shot in shots]
    assert max(sums[:19]) <= 105 and min(sums[-15:]) >= 190
    traffic = [s.pcie_in_bytes_s for shot in shots for s in shot.samples]
    assert all(value is not None and value < 64e9 for value in traffic)
