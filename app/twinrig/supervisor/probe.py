"""One sampled completion: the proof that a server really generates."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from dataclasses import dataclass
from enum import Enum

from twinrig.domain.errors import HostError
from twinrig.domain.launch import LaunchSpec
from twinrig.domain.ports import Clock, HttpClient, HttpResponse
from twinrig.supervisor.waiting import within

_EXCERPT_CHARACTERS = 300
_GRACE_S = 5.0


class ProbeOutcome(Enum):
    """SILENT: no answer in time, or the connection broke; it proves nothing by itself.

    REFUSED: the server answers but will not do it (4xx); asking again cannot help.
    BROKEN: 5xx, or an answer that is no completion.
    """

    FINE = "fine"
    SILENT = "silent"
    REFUSED = "refused"
    BROKEN = "broken"


@dataclass(frozen=True)
class ProbeResult:
    """``status`` None = no answer. Tokens are those of the reply's ``usage``, 0 when not told."""

    outcome: ProbeOutcome
    status: int | None = None
    excerpt: str = ""
    prompt_tokens: int = 0
    generation_tokens: int = 0


async def run_probe(
    http: HttpClient, clock: Clock, spec: LaunchSpec, timeout_s: float
) -> ProbeResult:
    """Ask for the completion of ``spec.readiness``; never raises for a server's fault."""
    readiness = spec.readiness
    request = http.post_json(
        spec.endpoint.base_url + readiness.completion_path,
        readiness.completion_body,
        timeout_s=timeout_s,
        token=spec.bearer_token,
    )
    try:
        # The client's own limit counts from byte to byte; this one is for the whole answer.
        answered, response = await within(clock, timeout_s + _GRACE_S, _awaited(request))
    except HostError as error:
        return ProbeResult(ProbeOutcome.SILENT, excerpt=str(error)[:_EXCERPT_CHARACTERS])
    if not answered or response is None:
        return ProbeResult(ProbeOutcome.SILENT)
    return judge_reply(response.status, response.body)


async def _awaited(request: Awaitable[HttpResponse]) -> HttpResponse:
    return await request


def judge_reply(status: int, body: bytes) -> ProbeResult:
    """What a reply proves. 408 and 429 mean "later", like silence."""
    excerpt = body[: 4 * _EXCERPT_CHARACTERS].decode("utf-8", "replace")[:_EXCERPT_CHARACTERS]
    if status in (408, 429):
        return ProbeResult(ProbeOutcome.SILENT, status, excerpt)
    if 400 <= status < 500:
        return ProbeResult(ProbeOutcome.REFUSED, status, excerpt)
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = None
    if status != 200 or not isinstance(data, dict) or not data.get("choices"):
        return ProbeResult(ProbeOutcome.BROKEN, status, excerpt)
    usage = data.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return ProbeResult(
        ProbeOutcome.FINE,
        status,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        generation_tokens=_count(usage.get("completion_tokens")),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
