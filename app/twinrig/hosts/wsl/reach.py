"""Whether a server listens inside WSL that cannot be reached from Windows.

WSL's relay opens Linux ports on 127.0.0.1 of Windows; after sleep or a fast start-up it may be dead
(microsoft/WSL #5317, #8825). The server is well then, and killing it would cure nothing.
"""

from __future__ import annotations

from twinrig.domain.errors import HostError
from twinrig.domain.launch import Endpoint
from twinrig.domain.ports import Clock, Host, Script

ASK_AGAIN_S = 30.0
"""Every question is a ``wsl.exe``, and a server that loads refuses for minutes."""

_LISTENS = "exec 3<>/dev/tcp/127.0.0.1/$1"


class InsideLook:
    """``host`` is for whoever only looks."""

    def __init__(self, host: Host, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._asked_at_s: float | None = None
        self._answer = False

    async def cut_off(self, endpoint: Endpoint) -> bool:
        """To be asked of a port that Windows refuses. False where it cannot be told."""
        now_s = self._clock.monotonic()
        if self._asked_at_s is None or now_s - self._asked_at_s >= ASK_AGAIN_S:
            self._answer = await self._listens(endpoint.port)
            self._asked_at_s = now_s
        return self._answer

    async def _listens(self, port: int) -> bool:
        try:
            script = Script("listens", _LISTENS, (str(port),))
            return (await self._host.run(script, timeout_s=5.0)).returncode == 0
        except HostError:
            return False
