"""What the overview says about a snapshot: pure functions, no window, no clock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from twinrig.domain.gpu import GpuInfo, GpuSample
from twinrig.domain.metrics import Snapshot
from twinrig.domain.quantities import NOT_AVAILABLE, duration, gib, number
from twinrig.domain.server import ANSWERING_STATES, ServerState
from twinrig.domain.supervision import ServerRecord, is_silent
from twinrig.domain.wording import PHASE_WORDS, STATE_WORDS, limit_words
from twinrig.messages import N_, Message, message

STATE_KINDS: Mapping[ServerState, str] = MappingProxyType(
    {
        ServerState.STOPPED: "muted",
        ServerState.STARTING: "busy",
        ServerState.LOADING: "busy",
        ServerState.READY: "ok",
        ServerState.DEGRADED: "warn",
        ServerState.BACKOFF: "warn",
        ServerState.SLEEPING: "muted",
        ServerState.STOPPING: "busy",
        ServerState.FAILED: "fail",
    }
)


@dataclass(frozen=True)
class StateView:
    """State of the server: ``kind`` is ok, warn, fail, busy or muted; ``detail`` may be None.

    ``progress`` is 0 to 1 within the load as a whole, None = unknown or not loading.
    """

    word: str
    kind: str
    detail: Message | None = None
    progress: float | None = None


@dataclass(frozen=True)
class CardView:
    """One graphics card. Fractions are 0 to 1; None is shown as "Not available", never as 0.

    ``limits`` are marked words for what holds its clock back; ``traffic_text`` is None while PCIe
    traffic is not read.
    """

    uuid: str
    title: Message
    name: str
    load: float | None
    load_text: Message
    memory: float | None
    memory_text: Message
    temperature_text: Message
    power_text: Message
    clock_text: Message
    stale: bool
    limits: tuple[str, ...] = ()
    traffic_text: Message | None = None


@dataclass(frozen=True)
class EndpointView:
    """Where clients connect; ``live`` = it answers now."""

    base_url: str
    model_id: str
    live: bool

    def curl(self, with_key: bool = False) -> str:
        """A request to paste into a shell; the key stays a variable, it is never copied."""
        body = {"model": self.model_id, "messages": [{"role": "user", "content": "Hello"}]}
        key = ' -H "Authorization: Bearer $API_KEY"' if with_key else ""
        data = json.dumps(body, ensure_ascii=False).replace("'", "'\\''")
        return (
            f"curl {self.base_url}/chat/completions{key}"
            f" -H \"Content-Type: application/json\" -d '{data}'"
        )


def state_view(record: ServerRecord | None, now_s: float) -> StateView:
    """Word, kind and one line of detail for the server."""
    if record is None:
        return StateView(STATE_WORDS[ServerState.STOPPED], "muted")
    word, kind = STATE_WORDS[record.state], STATE_KINDS[record.state]
    if is_silent(record, now_s):
        age = duration(now_s - record.updated_at_s)
        return StateView(word, "warn", message("Last heard of {time} ago", time=age))
    if record.state in (ServerState.STARTING, ServerState.LOADING):
        return StateView(word, kind, _phase_text(record, now_s), load_progress(record, now_s))
    return StateView(word, kind, _detail(record, now_s))


def freed_view(record: ServerRecord | None, freed_bytes: int | None) -> Message | None:
    """What freeing the cards has brought, or why the server did not do it."""
    if record is not None and record.sleep_fault is not None:
        return record.sleep_fault
    if freed_bytes is None:
        return None
    return message("Given back: {size} GiB of video memory.", size=gib(freed_bytes))


def load_progress(record: ServerRecord, now_s: float) -> float | None:
    """Share of the expected loading time that has passed; None when nothing is expected."""
    if not record.phases:
        return None
    phase = record.phases[-1]
    if phase.progress is not None:
        return min(max(phase.progress, 0.0), 1.0)
    if not phase.expected_s:
        return None
    return min((now_s - phase.started_at_s) / phase.expected_s, 0.99)


def card_views(snapshot: Snapshot) -> tuple[CardView, ...]:
    """One view per card, in PCI order, with or without a reading."""
    samples = {sample.uuid: sample for sample in snapshot.samples}
    return tuple(_card(info, samples.get(info.uuid)) for info in snapshot.gpus)


def endpoint_view(record: ServerRecord | None) -> EndpointView | None:
    """None while no server was started: there is no address to show."""
    if record is None or not record.base_url:
        return None
    live = record.state in ANSWERING_STATES
    return EndpointView(f"{record.base_url}/v1", record.model_id, live)


def _phase_text(record: ServerRecord, now_s: float) -> Message | None:
    if not record.phases:
        return None
    phase = record.phases[-1]
    word = Message(PHASE_WORDS[phase.phase])
    elapsed = duration(now_s - phase.started_at_s)
    if phase.expected_s:
        return message(
            "{phase}: {elapsed} of about {expected}",
            phase=word,
            elapsed=elapsed,
            expected=duration(phase.expected_s),
        )
    return message("{phase}: {elapsed}", phase=word, elapsed=elapsed)


def _detail(record: ServerRecord, now_s: float) -> Message | None:
    if record.state is ServerState.FAILED and record.failure is not None:
        return record.failure.next_step  # the verdict tells what happened
    if record.state is ServerState.DEGRADED and record.degraded_reason is not None:
        return record.degraded_reason
    if record.state is ServerState.BACKOFF and record.next_restart_at_s is not None:
        return message("Restarts in {time}", time=duration(record.next_restart_at_s - now_s))
    if record.sleep_fault is not None:
        return None  # said in its place
    if record.state is ServerState.READY and record.ready_at_s is not None:
        span = _calm(now_s - record.ready_at_s)
        if record.back_after_reboot:
            return message(
                "Back by itself after the computer's restart. Ready for {time}", time=span
            )
        return message("Ready for {time}", time=span)
    return None


def _calm(seconds: float) -> Message:
    """A span that changes its text rarely: a label that ticks costs a layout each second."""
    if seconds < 60:
        return message("less than a minute")
    if seconds < 3600:
        return message("{minutes} min", minutes=int(seconds // 60))
    return duration(seconds)


def _card(info: GpuInfo, sample: GpuSample | None) -> CardView:
    title = message("GPU {index}", index=info.index)
    if sample is None:
        sample = GpuSample(info.uuid, 0.0)
    total = sample.memory_total_bytes or info.memory_total_bytes
    used = sample.memory_used_bytes
    load = sample.utilisation_percent
    return CardView(
        uuid=info.uuid,
        title=title,
        name=info.name,
        load=None if load is None else load / 100,
        load_text=NOT_AVAILABLE if load is None else message("{value} %", value=load),
        memory=used / total if used is not None and total else None,
        memory_text=_memory(used, total),
        temperature_text=_value(N_("{value} °C"), sample.temperature_c),
        power_text=_power(sample.power_w, sample.power_limit_w or info.power_limit_w),
        clock_text=_value(N_("{value} MHz"), sample.clock_sm_mhz),
        stale=sample.stale,
        limits=limit_words(sample.throttle_reasons),
        traffic_text=_traffic(sample),
    )


def _traffic(sample: GpuSample) -> Message | None:
    """None while it is not read."""
    into, out = sample.pcie_in_bytes_s, sample.pcie_out_bytes_s
    if into is None or out is None:
        return None
    return message("{into} / {out}", into=f"{into / 1e9:.1f}", out=f"{out / 1e9:.1f}")


def _memory(used: int | None, total: int | None) -> Message:
    if used is not None and total:
        return message("{used} of {total} GiB", used=gib(used), total=gib(total))
    if total:
        return message("Use not available; {total} GiB in all", total=gib(total))
    return NOT_AVAILABLE if used is None else message("{used} GiB", used=gib(used))


def _power(power_w: float | None, limit_w: float | None) -> Message:
    if power_w is None:
        return NOT_AVAILABLE
    if limit_w is None:
        return message("{value} W", value=round(power_w))
    return message("{value} of {limit} W", value=round(power_w), limit=round(limit_w))


def _value(msgid: str, value: float | None) -> Message:
    return NOT_AVAILABLE if value is None else Message(msgid, {"value": number(value)})
