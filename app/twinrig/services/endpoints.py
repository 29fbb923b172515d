"""Where the running server of a profile answers, under which name and with which key."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

from twinrig.domain.errors import TwinrigError, UsageError
from twinrig.domain.ports import HttpClient
from twinrig.domain.profile import Profile
from twinrig.domain.server import ANSWERING_STATES
from twinrig.domain.supervision import ServerRecord
from twinrig.engines.base import RenderContext
from twinrig.messages import message
from twinrig.services.completions import ChatEndpoint
from twinrig.services.rendering import render_profile
from twinrig.services.workbench import Workbench

ASK_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Serving:
    """A server that answers, the profile it was started from, and how to reach it."""

    record: ServerRecord
    profile: Profile
    endpoint: ChatEndpoint


async def find_serving(bench: Workbench, profile_id: str = "") -> Serving:
    """The server that runs now. Raises UsageError when none answers, or not the wanted one."""
    record = await bench.controller.active_record()
    if record is None or record.state not in ANSWERING_STATES:
        raise UsageError(
            message("No server is ready."),
            message("Start one, and wait until it is ready."),
        )
    if profile_id and record.profile_id != profile_id:
        raise UsageError(
            message(
                "The server of {profile} is running on this target.", profile=record.profile_id
            ),
            message("Stop it first: one server at a time uses both cards."),
        )
    profile = await asyncio.to_thread(bench.profiles.load, record.profile_id)
    key = await key_of(bench, profile)
    context = await context_of(bench.http, record, profile, key)
    return Serving(record, profile, ChatEndpoint(record.base_url, record.model_id, key, context))


async def key_of(bench: Workbench, profile: Profile) -> str | None:
    """The key that clients send: the stored one, else the one the engine keeps itself."""
    if profile.network.key_name:
        return await bench.secrets.get(profile.network.key_name)
    engine = bench.engines.get(profile.engine.id)
    if engine is None:
        return None
    try:
        found = await bench.installs.find(profile.engine.id, profile.engine.environment)
        if not found or not engine.reads(profile, found[0]):
            return None
        context = RenderContext(found[0], "/tmp")
        specs = await render_profile(engine, profile, context, bench.host)
    except TwinrigError:
        return None
    return specs[0].bearer_token


async def context_of(
    http: HttpClient, record: ServerRecord, profile: Profile, key: str | None
) -> int | None:
    """Longest conversation in tokens: by the profile, else as the server tells it."""
    value = profile.settings.get("context_length")
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    try:
        reply = await http.get(record.base_url + "/v1/models", timeout_s=ASK_TIMEOUT_S, token=key)
        rows = json.loads(reply.body)["data"]
        told = rows[0].get("max_model_len")
    except (TwinrigError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return told if isinstance(told, int) and told > 0 else None
