from __future__ import annotations

import io

import pytest

from twinrig.cli.live import LiveView, draw, plain_line
from twinrig.cli.phases import PhaseFollower, phase_line
from twinrig.cli.terminal import Terminal
from twinrig.cli.text_width import width
from twinrig.domain.gpu import GpuInfo, GpuSample
from twinrig.domain.metrics import Snapshot, Throughput
from twinrig.domain.server import Phase, ServerState
from twinrig.domain.supervision import PhaseTime, ServerRecord
from twinrig.messages import Translator

S = ServerState
CARD = GpuInfo(0, "u0", "RTX 5070", 12 * 2**30)
LOST = GpuInfo(1, "u1", "RTX 5070", 12 * 2**30)
SAMPLE = GpuSample("u0", 100.0, 52, 9 * 2**30, 12 * 2**30, 148.4, 250.0, 61)
BLIND = GpuSample("u1", 100.0, stale=True)


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def terminal(tty: bool = False, language: str = "en") -> Terminal:
    out = Tty() if tty else io.StringIO()
    return Terminal(Translator(language), {"TERM": "xterm", "NO_COLOR": "1"}, out=out)


def record(state: ServerState, *phases: PhaseTime, **more: object) -> ServerRecord:
    values = {"base_url": "http://127.0.0.1:1", "model_id": "m", **more}
    return ServerRecord("one", "demo", "fake", "r", state, 100.0, 1, phases=phases, **values)


def snapshot(server: ServerRecord | None = None, **more: object) -> Snapshot:
    values: dict = {
        "taken_at_s": 100.0,
        "demo": True,
        "gpus": (CARD, LOST),
        "samples": (SAMPLE, BLIND),
        "server": server,
        "throughput": Throughput(41.23, None, 1, 0),
        **more,
    }
    return Snapshot(**values)


def test_phase_line_has_progress_elapsed_and_expected() -> None:
    phase = PhaseTime(Phase.WEIGHTS, 88.0, 30.0, 0.42)
    assert phase_line(terminal(), phase, 100.0) == "Loading weights 42 % 0:12 / about 0:30"
    assert phase_line(terminal(), PhaseTime(Phase.COMPILE, 99.0), 100.0) == "Compiling 0:01"


def test_plain_lines_are_labelled_and_unknown_is_not_zero() -> None:
    line = plain_line(terminal(), snapshot(record(S.READY, ready_at_s=40.0)), "Demo rig")
    assert line.startswith("[Demo rig] ")
    assert "Ready 1:00 41.2 T/s prompt n/a" in line
    assert "0: 52 % 9.0 GiB 61 °C 148 W" in line
    assert line.endswith("1: n/a n/a n/a n/a")


def test_view_shows_both_cards_and_the_server() -> None:
    lines = draw(terminal(), snapshot(record(S.READY, ready_at_s=40.0)), [None, 41.2], "Demo rig")
    text = "\n".join(lines)
    for words in (
        "Demo rig",
        "RTX 5070",
        "52 %",
        "9.0 GiB / 12.0 GiB",
        "(last known)",
        "one: Ready 1:00",
        "http://127.0.0.1:1/v1   m",
        "Generation 41.2 T/s",
        "prompt n/a",
    ):
        assert words in text


def test_no_cards_says_why() -> None:
    gone = snapshot(None, gpus=(), samples=(), gpu_error="No driver.", throughput=Throughput())
    assert "No driver." in draw(terminal(), gone, [], "This computer")
    assert plain_line(terminal(), gone, "x").endswith("| No driver.")


def test_redraw_goes_back_over_the_same_lines() -> None:
    term = terminal(tty=True)
    live = LiveView(term, "Demo rig")
    live.show(snapshot())
    first = term._out.getvalue()  # type: ignore[attr-defined]
    live.show(snapshot())
    second = term._out.getvalue()[len(first) :]  # type: ignore[attr-defined]
    assert second.startswith(f"\x1b[{first.count(chr(10))}A")
    assert all(
        width(line.replace("\x1b[K", "").replace("\x1b[J", "").strip("\r")) < term.width
        for line in first.splitlines()
    )


@pytest.mark.parametrize("tty", [True, False])
def test_follower_tells_each_phase_once(tty: bool) -> None:
    term = terminal(tty)
    now = [100.0]
    follow = PhaseFollower(term, lambda: now[0])
    for phase in (Phase.WEIGHTS, Phase.WEIGHTS, Phase.COMPILE):
        follow(record(S.LOADING, PhaseTime(phase, 100.0)))
    now[0] += 11
    follow(record(S.LOADING, PhaseTime(Phase.COMPILE, 100.0)))
    follow(record(S.READY))
    follow.done()
    text = term._out.getvalue().replace("\r\x1b[K", "\n" if tty else "")  # type: ignore[attr-defined]
    lines = [line for line in text.splitlines() if line]
    assert lines == ["Loading weights 0:00", "Compiling 0:00", "Compiling 0:11", "Ready"]


def test_follower_tells_a_coming_restart() -> None:
    term = terminal()
    PhaseFollower(term, lambda: 100.0)(
        record(S.BACKOFF, next_restart_at_s=115.0, last_exit="exit code 1", restarts=2)
    )
    assert term._out.getvalue() == (  # type: ignore[attr-defined]
        "Restart in 0:15 after exit code 1 (restarts so far: 2)\n"
    )
