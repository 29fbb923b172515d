"""Load phases told by vLLM's log. Shapes as vLLM 0.32 was run and 0.33 reads in source.

Prefixes come and go with versions - none up to 0.9, ``(APIServer pid=N)`` and
``(EngineCore_DP0 pid=N)`` from 0.10, ``(Worker_TP1 pid=N)`` for ranks, then the level, a time
without a year and ``[file.py:line]`` - so a phase is told by words inside the line alone.
"""

from __future__ import annotations

import re

from twinrig.domain.server import Phase
from twinrig.engines.base import PhaseEvent

_MAX_SCAN_CHARS = 600
"""The engine's configuration line has 4 kB and would match words of other phases."""

_SHARDS = re.compile(r"checkpoint shards:\s+(?P<percent>\d{1,3})% Completed")
_GRAPHS = re.compile(r"Capturing CUDA graphs?[^%]*?(?P<percent>\d{1,3})%")
_CLIENT_TEXT = re.compile(r'"(?:GET|POST|PUT|DELETE|HEAD|OPTIONS) /|Received request ')

# In the order of a start; the first phrase found decides.
_PHRASES: tuple[tuple[str, Phase], ...] = (
    ("non-default args:", Phase.CONFIG),
    ("Resolved architecture:", Phase.CONFIG),
    ("Using max model len", Phase.CONFIG),
    ("vLLM API server version", Phase.CONFIG),
    ("Initializing a V1 LLM engine (v", Phase.WORKERS),
    ("Initializing a V0 LLM engine (v", Phase.WORKERS),
    (" distributed_init_method=", Phase.WORKERS),
    (" in world size ", Phase.WORKERS),
    ("vLLM is using nccl==", Phase.WORKERS),
    ("generating GPU P2P access cache", Phase.WORKERS),
    ("Starting to load model", Phase.WEIGHTS),
    ("Loading weights took", Phase.WEIGHTS),
    ("Model loading took", Phase.WEIGHTS),
    ("Dynamo bytecode transform time", Phase.COMPILE),
    ("Compiling a graph for", Phase.COMPILE),
    ("Directly load the compiled graph", Phase.COMPILE),
    ("torch.compile took", Phase.COMPILE),
    ("torch.compile takes", Phase.COMPILE),
    ("saved AOT compiled function", Phase.COMPILE),
    ("Warming up model for the compilation", Phase.COMPILE),
    ("Available KV cache memory:", Phase.MEMORY),
    ("GiB for KV cache", Phase.MEMORY),
    (" KV cache size:", Phase.MEMORY),
    ("Auto-fit max_model_len:", Phase.MEMORY),
    ("Capturing CUDA graph", Phase.GRAPHS),
    ("Graph capturing finished", Phase.GRAPHS),
    ("Starting vLLM server on", Phase.LISTEN),
    ("Starting vLLM API server", Phase.LISTEN),
    ("Started server process", Phase.LISTEN),
    ("Application startup complete", Phase.LISTEN),
    ("API server: shutdown triggered", Phase.STOP),
    ("Shutting down", Phase.STOP),
    ("Application shutdown complete", Phase.STOP),
)
_PHRASE = re.compile("|".join(re.escape(phrase) for phrase, _ in _PHRASES))
_PHASES = dict(_PHRASES)


def vllm_phase_of(line: str) -> PhaseEvent | None:
    """The phase that a log line tells, with progress 0 to 1 for weights and graph bars.

    A line with several carriage returns (a bar on a terminal) counts by its last part.
    """
    text = line.rstrip("\r\n").rpartition("\r")[2][:_MAX_SCAN_CHARS]
    for pattern, phase in ((_SHARDS, Phase.WEIGHTS), (_GRAPHS, Phase.GRAPHS)):
        if match := pattern.search(text):
            return PhaseEvent(phase, min(int(match["percent"]), 100) / 100)
    match = _PHRASE.search(text)
    if match is None or _CLIENT_TEXT.search(text):
        return None
    return PhaseEvent(_PHASES[match[0]])
