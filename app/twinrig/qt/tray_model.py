"""What the tray shows, as plain data: icon, tool tip, menu. No Qt here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from twinrig.domain.metrics import Snapshot
from twinrig.domain.quantities import gib
from twinrig.domain.server import ACTIVE_STATES, ANSWERING_STATES, ServerState
from twinrig.domain.supervision import is_silent
from twinrig.domain.wording import STATE_WORDS
from twinrig.messages import N_, Message, message
from twinrig.qt.viewmodels.figures import LastKnown, speed_words
from twinrig.services.verdict_words import Verdict

BAR_STEPS = 5
TOOLTIP_LIMIT = 127
"""Windows cuts longer tool tips."""

Translate = Callable[[Message | str], str]


class TrayIcon(StrEnum):
    """Each state has a shape of its own, not only a colour."""

    STOPPED = "stopped"
    LOADING = "loading"
    READY = "ready"
    WARNING = "warning"
    FAILED = "failed"


_ICONS: Mapping[ServerState, TrayIcon] = MappingProxyType(
    {
        ServerState.STOPPED: TrayIcon.STOPPED,
        ServerState.STARTING: TrayIcon.LOADING,
        ServerState.LOADING: TrayIcon.LOADING,
        ServerState.READY: TrayIcon.READY,
        ServerState.DEGRADED: TrayIcon.WARNING,
        ServerState.BACKOFF: TrayIcon.WARNING,
        ServerState.SLEEPING: TrayIcon.STOPPED,
        ServerState.STOPPING: TrayIcon.LOADING,
        ServerState.FAILED: TrayIcon.FAILED,
    }
)


@dataclass(frozen=True)
class MenuEntry:
    """``action`` is what a click means ("" = a line of text); an entry without text separates.

    ``checked`` None = not checkable. ``argument`` belongs to the action (a profile id).
    """

    action: str = ""
    text: Message | None = None
    enabled: bool = True
    checked: bool | None = None
    argument: str = ""
    children: tuple[MenuEntry, ...] = ()
    icon: str = ""


@dataclass(frozen=True)
class ProfileChoice:
    """A profile in the menu."""

    id: str
    name: str


@dataclass(frozen=True)
class TrayModel:
    """Everything the renderer needs; equal models need no redraw.

    ``bars`` are the loads of the first two cards in steps of 0 to ``BAR_STEPS``, None = not
    available; empty while no server answers.
    """

    icon: TrayIcon
    tooltip: str
    menu: tuple[MenuEntry, ...]
    bars: tuple[int | None, ...] = ()


def tray_model(
    snapshot: Snapshot | None,
    profiles: Sequence[ProfileChoice],
    current: str,
    meter_shown: bool,
    translate: Translate,
    judged: Verdict | None = None,
    *,
    recording: bool = False,
    freed_bytes: int | None = None,
    speed: Sequence[Message] | None = None,
) -> TrayModel:
    """Model for the present moment; ``current`` is the profile that Start would start.

    ``speed`` are its words, see ``speed_words``. With a ``recording`` the snapshot is not of this
    machine: nothing can be started or stopped.
    """
    return TrayModel(
        tray_icon(snapshot, judged),
        tooltip(snapshot, translate, freed_bytes, speed),
        menu(snapshot, profiles, current, meter_shown, recording=recording),
        load_bars(snapshot),
    )


def load_bars(snapshot: Snapshot | None) -> tuple[int | None, ...]:
    """Few steps, so that the icon is drawn anew only when the load really changes."""
    record = snapshot.server if snapshot else None
    if snapshot is None or record is None or record.state not in ANSWERING_STATES:
        return ()
    fresh = {s.uuid: s.utilisation_percent for s in snapshot.samples if not s.stale}
    loads = [fresh.get(info.uuid) for info in snapshot.gpus[:2]]
    return tuple(None if load is None else round(load / 100 * BAR_STEPS) for load in loads)


def tray_icon(snapshot: Snapshot | None, judged: Verdict | None = None) -> TrayIcon:
    """Icon of the state; a silent supervisor and a verdict of failure are warnings."""
    record = snapshot.server if snapshot else None
    if snapshot is None or record is None:
        return TrayIcon.STOPPED
    if is_silent(record, snapshot.taken_at_s):
        return TrayIcon.WARNING
    if record.state is ServerState.READY and judged is not None and judged.kind == "fail":
        return TrayIcon.WARNING
    return _ICONS[record.state]


def tooltip(
    snapshot: Snapshot | None,
    translate: Translate,
    freed_bytes: int | None = None,
    speed: Sequence[Message] | None = None,
) -> str:
    """Name and state, model, speed, both loads: a line each, within the limit as a whole."""
    if snapshot is None:
        return "Twinrig"
    record = snapshot.server
    state = translate(STATE_WORDS[record.state if record else ServerState.STOPPED])
    head = f"Twinrig: {state}"
    if snapshot.demo:
        head = f"{head} ({translate(N_('Demo rig'))})"
    if snapshot.recorded:
        head = f"{head} ({translate(N_('Recording'))})"
    lines = [head]
    words = speed_words(snapshot, LastKnown()) if speed is None else speed
    lines += [translate(word) for word in words]
    if record is not None and record.back_after_reboot and record.state in ANSWERING_STATES:
        lines.append(translate(N_("Back after the computer's restart")))
    if freed_bytes is not None:
        lines.append(translate(message("{size} GiB given back", size=gib(freed_bytes))))
    loads = _load_line(snapshot, translate)
    if loads:
        lines.append(loads)
    room = TOOLTIP_LIMIT - sum(len(line) + 1 for line in lines)
    name = record.model_id if record else ""
    if name and room > 8:
        lines.insert(1, _shorten(name, room))
    return _shorten("\n".join(lines), TOOLTIP_LIMIT)


def _load_line(snapshot: Snapshot, translate: Translate) -> str:
    samples = {sample.uuid: sample for sample in snapshot.samples}
    parts = []
    for info in snapshot.gpus:
        sample = samples.get(info.uuid)
        known = sample is not None and not sample.stale
        value = sample.utilisation_percent if sample is not None and known else None
        shown = "—" if value is None else f"{value} %"
        parts.append(f"{translate(message('GPU {index}', index=info.index))} {shown}")
    return "  ".join(parts)


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def menu(
    snapshot: Snapshot | None,
    profiles: Sequence[ProfileChoice],
    current: str,
    meter_shown: bool,
    *,
    recording: bool = False,
) -> tuple[MenuEntry, ...]:
    """Entries from top to bottom; the very same ones as long as nothing in them changes."""
    if recording:
        return _recording_menu(meter_shown)
    record = snapshot.server if snapshot else None
    facts = _MenuFacts(tuple(profiles), current, meter_shown)
    if record is not None:
        facts = replace(
            facts,
            state=record.state,
            running=record.profile_id if record.state in ACTIVE_STATES else "",
            can_sleep=record.can_sleep,
            has_url=bool(record.base_url),
        )
    return _menu(facts)


@dataclass(frozen=True)
class _MenuFacts:
    """All that the menu hangs on; a reading seldom changes it."""

    profiles: tuple[ProfileChoice, ...]
    current: str
    meter_shown: bool
    state: ServerState = ServerState.STOPPED
    running: str = ""
    can_sleep: bool = False
    has_url: bool = False


@lru_cache(maxsize=4)
def _menu(facts: _MenuFacts) -> tuple[MenuEntry, ...]:
    title = message("Server: {state}", state=Message(STATE_WORDS[facts.state]))
    choices = tuple(_choice(p, facts.current, facts.running) for p in facts.profiles)
    separator = MenuEntry()
    return (
        MenuEntry("", title, enabled=False),
        _start_or_stop(facts),
        _free_or_load(facts),
        MenuEntry("", message("Profile"), bool(choices), children=choices),
        separator,
        MenuEntry("copy-url", message("Copy base URL"), facts.has_url, icon="copy"),
        MenuEntry("meter", message("Meter window"), checked=facts.meter_shown),
        MenuEntry("open-recording", message("Open a recording…")),
        separator,
        *_LAST,
    )


_LAST = (
    MenuEntry("open", message("Open Twinrig"), icon="open"),
    MenuEntry("quit", message("Quit"), icon="quit"),
)


def _recording_menu(meter_shown: bool) -> tuple[MenuEntry, ...]:
    return (
        MenuEntry("", message("A recording is shown"), enabled=False),
        MenuEntry("close-recording", message("Back to this machine"), icon="undo"),
        MenuEntry("open-recording", message("Open a recording…")),
        MenuEntry(),
        MenuEntry("meter", message("Meter window"), checked=meter_shown),
        MenuEntry(),
        *_LAST,
    )


def _free_or_load(facts: _MenuFacts) -> MenuEntry:
    if facts.state is ServerState.SLEEPING:
        return MenuEntry("load", message("Load again"), icon="play")
    text = message("Free the cards")
    if facts.state not in ANSWERING_STATES:
        return MenuEntry("free", text, enabled=False)
    if not facts.can_sleep:
        text = message("Free the cards (stops the server)")
    return MenuEntry("free", text)


def _choice(profile: ProfileChoice, current: str, running: str) -> MenuEntry:
    """While a server runs, another profile means: switch to it (after a question)."""
    name = Message("{name}", {"name": profile.name})
    if not running:
        return MenuEntry("profile", name, True, profile.id == current, profile.id)
    if profile.id == running:
        return MenuEntry("profile", name, False, True, profile.id)
    text = message("Switch to {name}…", name=profile.name)
    return MenuEntry("switch", text, True, False, profile.id)


def _start_or_stop(facts: _MenuFacts) -> MenuEntry:
    if facts.state in ACTIVE_STATES:
        return MenuEntry(
            "stop", message("Stop server"), facts.state is not ServerState.STOPPING, icon="stop"
        )
    name = next((p.name for p in facts.profiles if p.id == facts.current), None)
    if name is not None:
        text = message("Start {name}", name=name)
        return MenuEntry("start", text, argument=facts.current, icon="play")
    return MenuEntry("start", message("Start server"), enabled=False, icon="play")
