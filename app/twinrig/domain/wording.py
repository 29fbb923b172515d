"""Words for the enumerations that people see; marked here once, translated at the edges."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from twinrig.domain.checks import Status
from twinrig.domain.memory import PartKind, Verdict
from twinrig.domain.options import OptionGroup
from twinrig.domain.server import Phase, ServerState
from twinrig.messages import N_

STATUS_WORDS: Mapping[Status, str] = MappingProxyType(
    {
        Status.PASS: N_("Fine"),
        Status.WARN: N_("Warning"),
        Status.FAIL: N_("Problem"),
        Status.SKIP: N_("Skipped"),
        Status.ERROR: N_("Could not tell"),
    }
)

STATE_WORDS: Mapping[ServerState, str] = MappingProxyType(
    {
        ServerState.STOPPED: N_("Stopped"),
        ServerState.STARTING: N_("Starting"),
        ServerState.LOADING: N_("Loading"),
        ServerState.READY: N_("Ready"),
        ServerState.DEGRADED: N_("Not answering as it should"),
        ServerState.BACKOFF: N_("Waiting before a restart"),
        ServerState.SLEEPING: N_("Sleeping"),
        ServerState.STOPPING: N_("Stopping"),
        ServerState.FAILED: N_("Failed"),
    }
)

PHASE_WORDS: Mapping[Phase, str] = MappingProxyType(
    {
        Phase.LAUNCH: N_("Launching the process"),
        Phase.IMPORT: N_("Importing the engine"),
        Phase.CONFIG: N_("Reading the configuration"),
        Phase.WORKERS: N_("Starting one worker per card"),
        Phase.WEIGHTS: N_("Loading weights"),
        Phase.COMPILE: N_("Compiling"),
        Phase.MEMORY: N_("Reserving the KV cache"),
        Phase.GRAPHS: N_("Capturing CUDA graphs"),
        Phase.LISTEN: N_("Opening the port"),
        Phase.PROBE: N_("Proving with a first reply"),
        Phase.SERVE: N_("Serving"),
        Phase.STOP: N_("Stopping"),
    }
)

GROUP_WORDS: Mapping[OptionGroup, str] = MappingProxyType(
    {
        OptionGroup.CONTEXT: N_("Context"),
        OptionGroup.CACHE: N_("KV cache and memory"),
        OptionGroup.PARALLEL: N_("Both cards"),
        OptionGroup.BATCH: N_("Parallel requests"),
        OptionGroup.DRAFT: N_("Speculative decoding"),
        OptionGroup.MODEL: N_("Model"),
        OptionGroup.LOADING: N_("Loading and compiling"),
        OptionGroup.SERVING: N_("Serving"),
    }
)

VERDICT_WORDS: Mapping[Verdict, str] = MappingProxyType(
    {
        Verdict.FITS: N_("Fits"),
        Verdict.TIGHT: N_("Fits, tightly"),
        Verdict.DOES_NOT_FIT: N_("Does not fit"),
        Verdict.UNKNOWN: N_("It cannot be told whether it fits"),
    }
)

PART_WORDS: Mapping[PartKind, str] = MappingProxyType(
    {
        PartKind.RESERVED: N_("Reserved"),
        PartKind.WEIGHTS: N_("Weights"),
        PartKind.KV: N_("KV cache"),
        PartKind.STATE: N_("States"),
        PartKind.DRAFTER: N_("Drafter"),
        PartKind.ACTIVATIONS: N_("Activations"),
        PartKind.RUNTIME: N_("Runtime"),
        PartKind.GRAPHS: N_("CUDA graphs"),
        PartKind.HEADROOM: N_("Headroom"),
    }
)

LIMIT_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "application clocks setting": N_("clock setting"),
        "software power cap": N_("power limit"),
        "hardware slowdown": N_("heat or power, by the hardware"),
        "sync boost": N_("sync boost"),
        "software thermal slowdown": N_("heat"),
        "hardware thermal slowdown": N_("heat, by the hardware"),
        "hardware power brake": N_("power supply"),
        "display clock setting": N_("display clock setting"),
        "board limit": N_("board limit"),
        "reliability": N_("voltage limit"),
    }
)
"""Reasons for lower clocks as ``GpuSample.throttle_reasons`` names them; idle is none."""


def limit_words(reasons: tuple[str, ...] | None) -> tuple[str, ...]:
    """Marked words for what holds a card back; unknown reasons stay as the driver's number."""
    return tuple(LIMIT_WORDS.get(reason, reason) for reason in reasons or () if reason != "idle")
