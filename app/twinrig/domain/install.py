"""What is known about an engine on the target, read from package metadata on disk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineInstall:
    """An environment that holds an engine. Versions are "" when unknown; CUDA tags like (12, 8).

    ``executable`` is the absolute path to start ("" when missing).
    """

    engine_id: str
    environment: str
    version: str
    executable: str
    python_version: str = ""
    torch_version: str = ""
    torch_cuda: tuple[int, int] | None = None
