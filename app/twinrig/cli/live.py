"""The live view: two cards with bars, tokens per second and the server's state.

Drawing is pure: a snapshot and a history in, lines out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from twinrig.cli.format import UNKNOWN, bar, duration, gib, number, sparkline
from twinrig.cli.phases import phase_line
from twinrig.cli.terminal import Terminal
from twinrig.cli.text_width import clip
from twinrig.domain.gpu import GpuInfo, GpuSample
from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.domain.wording import STATE_WORDS, limit_words
from twinrig.messages import N_, Message, message
from twinrig.services.situation import is_busy
from twinrig.services.verdict_words import Verdict

HISTORY = 240
_TONES = {"ok": "good", "warn": "warn", "fail": "bad", "busy": "accent", "muted": "dim"}


class LiveView:
    """Remembers the recent tokens per second; draws one snapshot at a time."""

    def __init__(self, terminal: Terminal, label: str) -> None:
        self._terminal = terminal
        self._label = label
        self._history: deque[float | None] = deque(maxlen=HISTORY)
        self._drawn = 0
        self._judged_id = ""

    def show(self, snapshot: Snapshot, judged: Verdict | None = None) -> None:
        """Redraw in place on a terminal; one plain line elsewhere, and the verdict when it is
        another one."""
        self._history.append(snapshot.throughput.generation_tps)
        terminal = self._terminal
        if not terminal.moves_cursor:
            terminal.line(plain_line(terminal, snapshot, self._label))
            if judged is not None and judged.id != self._judged_id:
                self._judged_id = judged.id
                terminal.line("  " + terminal.text(judged.text))
            return
        width = terminal.width - 1
        drawn = draw(terminal, snapshot, self._history, self._label, judged)
        lines = [clip(text, width) for text in drawn]
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        terminal.write(up + "".join(f"\r\x1b[K{line}\n" for line in lines) + "\x1b[J")
        self._drawn = len(lines)


def plain_line(terminal: Terminal, snapshot: Snapshot, label: str) -> str:
    """``12:00:01 Ready 41.2 T/s prompt 0.0 T/s | 0: 52 % 9.1 GiB 61 °C 148 W | ...``."""
    rates = snapshot.throughput
    clock = time.strftime("%H:%M:%S", time.localtime(snapshot.taken_at_s))
    parts = [f"{clock} {_state(terminal, snapshot.server, snapshot.taken_at_s)}"]
    if snapshot.demo:
        parts.insert(0, f"[{terminal.text(Message(label))}]")
    if snapshot.recorded:
        parts.insert(0, f"[{terminal.text(message('Recording'))}]")
    parts.append(f"{number(rates.generation_tps, 'T/s', 1)}")
    if rates.told_at_end:
        parts[-1] = _told_at_end(terminal, snapshot)
    parts.append(terminal.text(message("prompt {rate}", rate=number(rates.prompt_tps, "T/s", 1))))
    cards = [f"{info.index}: {_card_figures(_sample(snapshot, info))}" for info in snapshot.gpus]
    if not cards:
        cards = [terminal.text(Message(snapshot.gpu_error or "No cards.")).split("\n")[0]]
    return " ".join(parts) + " | " + " | ".join(cards)


def draw(
    terminal: Terminal,
    snapshot: Snapshot,
    history: Sequence[float | None],
    label: str,
    judged: Verdict | None = None,
) -> list[str]:
    """The lines of the view."""
    lines = [_title(terminal, snapshot, label)]
    for info in snapshot.gpus:
        lines += _card(terminal, info, _sample(snapshot, info))
    if not snapshot.gpus:
        lines.append(terminal.text(Message(snapshot.gpu_error)) if snapshot.gpu_error else UNKNOWN)
    lines.append("")
    lines += _server(terminal, snapshot)
    if judged is not None:
        lines.append(terminal.style(terminal.text(judged.text), _TONES.get(judged.kind, "")))
    rates = snapshot.throughput
    lines.append(
        terminal.text(
            message(
                "Generation {generation}   prompt {prompt}   running {running}   waiting {waiting}",
                generation=number(rates.generation_tps, "T/s", 1),
                prompt=number(rates.prompt_tps, "T/s", 1),
                running=number(rates.requests_running),
                waiting=number(rates.requests_waiting),
            )
        )
    )
    if rates.told_at_end:
        lines[-1] = _told_at_end(terminal, snapshot)
    shown = list(history)[-max(10, terminal.width - 2) :]
    lines.append(sparkline(shown, unicode=terminal.unicode) or " ")
    lines.append(terminal.style(terminal.text(message("Ctrl+C ends the view.")), "dim"))
    return lines


def _told_at_end(terminal: Terminal, snapshot: Snapshot) -> str:
    """Of an engine that tells nothing before a reply has ended: never a zero."""
    rate = snapshot.throughput.last_reply_tps
    words = [terminal.text(message("generating"))] if is_busy(snapshot) else []
    if rate is not None:
        words.append(terminal.text(message("last reply {rate}", rate=number(rate, "T/s", 1))))
    return ", ".join(words) or UNKNOWN


def _title(terminal: Terminal, snapshot: Snapshot, label: str) -> str:
    name = terminal.text(Message(label))
    if snapshot.recorded:
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(snapshot.taken_at_s))
        name = terminal.text(message("Recording of {time}", time=began))
        if snapshot.demo:
            name += f" ({terminal.text(N_('Demo rig'))})"
    return terminal.style(f"Twinrig - {name}", "accent" if snapshot.demo else "bold")


def _sample(snapshot: Snapshot, info: GpuInfo) -> GpuSample | None:
    return next((s for s in snapshot.samples if s.uuid == info.uuid), None)


def _card(terminal: Terminal, info: GpuInfo, sample: GpuSample | None) -> list[str]:
    head = f"{info.index}  {info.name}"
    if sample is None:
        return [head, f"   {UNKNOWN}"]
    if sample.stale:
        head += "  " + terminal.style(terminal.text(message("(last known)")), "warn")
    load = sample.utilisation_percent
    used, total = sample.memory_used_bytes, sample.memory_total_bytes
    share = used / total if used is not None and total else None
    cells = max(10, min(40, terminal.width // 4))
    return [
        head,
        f"   {bar(None if load is None else load / 100, cells, unicode=terminal.unicode)}"
        f" {number(load, '%'):>6}   {number(sample.temperature_c, '°C')}"
        f"   {number(sample.power_w, 'W')}",
        f"   {bar(share, cells, unicode=terminal.unicode)} {gib(used)} / {gib(total)}"
        + _limits(terminal, sample),
        *_details(terminal, sample),
    ]


def _details(terminal: Terminal, sample: GpuSample) -> list[str]:
    """PCIe traffic and energy; nothing while they are not read."""
    values = (sample.pcie_in_bytes_s, sample.pcie_out_bytes_s)
    if values == (None, None) and sample.energy_j is None:
        return []
    into, out = (UNKNOWN if v is None else f"{v / 1e9:.2f} GB/s" for v in values)
    energy = UNKNOWN if sample.energy_j is None else f"{sample.energy_j / 3600:.1f} Wh"
    text = message("PCIe in {into}, out {out}   energy {energy}", into=into, out=out, energy=energy)
    return ["   " + terminal.text(text)]


def _limits(terminal: Terminal, sample: GpuSample) -> str:
    words = limit_words(sample.throttle_reasons)
    if not words:
        return ""
    listed = ", ".join(terminal.text(word) for word in words)
    return "   " + terminal.style(
        terminal.text(message("limited by {words}", words=listed)), "warn"
    )


def _card_figures(sample: GpuSample | None) -> str:
    if sample is None:
        return UNKNOWN
    figures = (
        number(sample.utilisation_percent, "%"),
        gib(sample.memory_used_bytes),
        number(sample.temperature_c, "°C"),
        number(sample.power_w, "W"),
    )
    return " ".join(figures)


def _server(terminal: Terminal, snapshot: Snapshot) -> list[str]:
    record = snapshot.server
    if record is None:
        return [terminal.text(message("No server runs on this target."))]
    lines = [f"{record.profile_id}: {_state(terminal, record, snapshot.taken_at_s)}"]
    if record.state in (ServerState.READY, ServerState.DEGRADED):
        lines.append(f"{record.base_url}/v1   {record.model_id}")
    if record.failure is not None:
        lines.append(terminal.style(terminal.text(record.failure.text), "bad"))
    return lines


def _state(terminal: Terminal, record: ServerRecord | None, now_s: float) -> str:
    if record is None:
        return terminal.text(message("No server"))
    if record.phases and record.state in (ServerState.STARTING, ServerState.LOADING):
        return phase_line(terminal, record.phases[-1], now_s)
    word = terminal.text(Message(STATE_WORDS[record.state]))
    if record.state is ServerState.READY and record.ready_at_s is not None:
        return f"{word} {duration(now_s - record.ready_at_s)}"
    return word
