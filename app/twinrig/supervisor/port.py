"""Whether somebody already has the port a server wants, before the server is launched."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import sys

from twinrig.domain.launch import Endpoint

_CONNECT_TIMEOUT_S = 1.0
_REFUSAL_S = 5.0
"""Windows tries a port that refuses three times before it says so: about 2 s, on loopback too."""


async def port_in_use(endpoint: Endpoint) -> bool:
    """True when something listens on the port, or (Linux) has bound it without listening yet.

    vLLM binds before it loads the model and listens after: connecting alone would miss a second
    server that is loading.
    """
    return await _somebody_listens(endpoint) or _is_bound(endpoint)


async def is_refused(endpoint: Endpoint) -> bool:
    """True when connecting is refused outright, as opposed to unanswered or accepted."""
    try:
        async with asyncio.timeout(_REFUSAL_S):
            _, writer = await asyncio.open_connection(_reachable(endpoint.host), endpoint.port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    await _close(writer)
    return False


async def _somebody_listens(endpoint: Endpoint) -> bool:
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            _, writer = await asyncio.open_connection(_reachable(endpoint.host), endpoint.port)
    except (OSError, TimeoutError):
        return False
    await _close(writer)
    return True


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _is_bound(endpoint: Endpoint) -> bool:
    if sys.platform == "win32":  # the port belongs to another machine's network stack there
        return False
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((endpoint.host, endpoint.port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
