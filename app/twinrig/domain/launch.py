"""What is needed to launch one node of a server, ready to be looked at before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class StopSignal(StrEnum):
    """Signals the supervisor sends, gentle to final."""

    INT = "INT"
    TERM = "TERM"
    KILL = "KILL"


@dataclass(frozen=True)
class FileSpec:
    """A file that must exist before launch. ``path`` is on the target; mode as in chmod.

    ``keep_previous``: it is the user's own file, edited; an unchanged one is not written, and
    what is replaced stays beside it as ``NAME.previous``.
    """

    path: str
    content: str = field(repr=False)
    mode: int = 0o600
    keep_previous: bool = False


@dataclass(frozen=True)
class Endpoint:
    """Where the server answers; ``base_url`` has no trailing slash and no ``/v1``."""

    host: str
    port: int

    @property
    def base_url(self) -> str:
        """URL for a client on the same machine; a wildcard address is reached by loopback."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        return f"http://{host}:{self.port}"


@dataclass(frozen=True)
class Readiness:
    """How to tell that the server is ready.

    ``path`` answers 200 once the socket serves. ``completion_path`` with ``completion_body``
    is the sampled completion that must succeed before READY (greedy ones do not touch the
    paths that crash). Time-outs in seconds. ``liveness_path`` is asked once it serves
    ("" = ``path``).
    """

    path: str
    completion_path: str
    completion_body: Mapping[str, object]
    first_timeout_s: float = 300.0
    later_timeout_s: float = 60.0
    load_timeout_s: float = 3600.0
    liveness_path: str = ""


@dataclass(frozen=True)
class SleepWay:
    """How a running server gives the memory of the cards back, by POST to ``sleep_path``.

    ``wake_path`` "" = only a new start of its process loads the model again. ``token`` is the
    key for both, None = that of clients. Time-outs in seconds.
    """

    sleep_path: str
    wake_path: str = ""
    token: str | None = field(default=None, repr=False)
    sleep_timeout_s: float = 120.0
    wake_timeout_s: float = 300.0


@dataclass(frozen=True)
class LaunchSpec:
    """One node: exact argv, environment additions and files; nothing else is passed.

    ``env`` holds additions to a clean base environment, ``unset`` names to drop from it.
    ``secret_env`` names the entries of ``env`` that must be masked when shown; ``secrets`` are
    further values that must be masked wherever they turn up, the server's log included.
    ``sleep`` None: this server frees the cards only by ending.
    """

    node_id: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    files: tuple[FileSpec, ...]
    endpoint: Endpoint
    readiness: Readiness
    model_id: str
    metrics_path: str = "/metrics"
    unset: tuple[str, ...] = ()
    secret_env: tuple[str, ...] = ()
    cwd: str | None = None
    stop_signal: StopSignal = StopSignal.TERM
    stop_timeout_s: float = 30.0
    bearer_token: str | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    sleep: SleepWay | None = None

    @property
    def masked_values(self) -> tuple[str, ...]:
        """Every secret of this launch, longest first, for whoever shows or stores text of it."""
        values = {self.env[name] for name in self.secret_env if name in self.env}
        values.update(self.secrets)
        values.add(self.bearer_token or "")
        return tuple(sorted((v for v in values if v), key=lambda v: (-len(v), v)))
