"""The last proof of a fix: the profile's own server starts and answers one sampled request.

A server counts as READY only after a sampled completion (temperature 1.0), so to wait for READY
is the proof. A server that runs is left alone, and one that was started for the proof is stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinrig.domain.errors import TwinrigError
from twinrig.domain.server import ACTIVE_STATES, ServerState
from twinrig.messages import Message, message
from twinrig.services.controller import ServerController

REQUESTED_BY = "proof"
READY_S = 1800.0
STOP_S = 120.0
_ENDED = frozenset({ServerState.READY, ServerState.FAILED, ServerState.STOPPED})


@dataclass(frozen=True)
class ServerProof:
    """``proven`` None: it could not be tried."""

    proven: bool | None
    text: Message


async def can_prove(controller: ServerController) -> bool:
    """Whether a server may be started now without harming one that runs."""
    return await controller.active_record() is None


async def prove_by_server(
    controller: ServerController, profile_id: str, *, ready_s: float = READY_S
) -> ServerProof:
    """Start, wait for the sampled reply, stop again; cancelled, it is stopped too."""
    if not await can_prove(controller):
        return ServerProof(
            None, message("A server runs; restart it to see whether the change helps.")
        )
    try:
        await controller.start(profile_id, REQUESTED_BY)
    except TwinrigError as error:
        return ServerProof(False, error.text)
    try:
        record = await controller.wait_for(profile_id, _ENDED, ready_s)
    except TwinrigError as error:
        return ServerProof(False, error.text)
    finally:
        await _stop(controller, profile_id)
    if record.state is ServerState.READY:
        return ServerProof(True, message("The server started and answered a request."))
    reason = record.failure.text if record.failure is not None else message("It ended by itself.")
    return ServerProof(False, message("The server did not get ready: {reason}", reason=reason))


async def _stop(controller: ServerController, profile_id: str) -> None:
    status = await controller.status(profile_id)
    if status.record is None or status.record.state not in ACTIVE_STATES:
        return
    await controller.stop(profile_id, REQUESTED_BY)
    await controller.wait_for(
        profile_id, frozenset({ServerState.STOPPED, ServerState.FAILED}), STOP_S
    )
