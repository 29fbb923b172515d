"""Asks a running server how it is: readiness endpoint and counters, in short calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum

from twinrig.domain.errors import HostError
from twinrig.domain.launch import Endpoint, LaunchSpec
from twinrig.domain.metrics import EngineMetrics
from twinrig.domain.ports import HttpClient
from twinrig.messages import message

CUT_OFF = message(
    "The server answers inside WSL, but Windows does not reach its port. Restarting WSL cures that."
)


class Health(Enum):
    """SICK: answers 5xx. REFUSED: nobody listens. SILENT: no answer; it may only be busy.
    CUT_OFF: it listens where it runs, and what should pass that on does not."""

    FINE = "fine"
    SICK = "sick"
    REFUSED = "refused"
    SILENT = "silent"
    CUT_OFF = "cut-off"


async def ask_health(
    http: HttpClient,
    spec: LaunchSpec,
    timeout_s: float,
    silence: Callable[[Endpoint], Awaitable[Health]],
    path: str = "",
) -> Health:
    """vLLM 0.32 as run: 200 when it serves, 503 once its engine is dead, refused while loading.

    ``silence`` tells what it means that nobody answers."""
    try:
        response = await http.get(
            spec.endpoint.base_url + (path or spec.readiness.path),
            timeout_s=timeout_s,
            token=spec.bearer_token,
        )
    except HostError:
        return await silence(spec.endpoint)
    if response.status >= 500:
        return Health.SICK
    return Health.FINE if response.status == 200 else Health.SILENT


async def ask_metrics(
    http: HttpClient,
    spec: LaunchSpec,
    parse: Callable[[str], EngineMetrics],
    timeout_s: float,
) -> EngineMetrics | None:
    """Counters now; None when the server does not tell."""
    if not spec.metrics_path:
        return None
    try:
        response = await http.get(
            spec.endpoint.base_url + spec.metrics_path,
            timeout_s=timeout_s,
            token=spec.bearer_token,
        )
    except HostError:
        return None
    if response.status != 200:
        return None
    return parse(response.body.decode("utf-8", "replace"))
