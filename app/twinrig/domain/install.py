"""What is known about an engine on the target, read from package metadata on disk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineInstall:
    """An environment that holds an engine. Versions are "" when unknown; CUDA tags like (12, 8).

    ``executable`` is the absolute path to start ("" when missing). ``folder`` is the source
    folder of an engine that is run in place ("" for an installed package).
    """

    engine_id: str
    environment: str
    version: str
    executable: str
    python_version: str = ""
    torch_version: str = ""
    torch_cuda: tuple[int, int] | None = None
    folder: str = ""


@dataclass(frozen=True)
class InstallLayout:
    """How to recognise an engine on disk.

    ``package`` is the distribution whose metadata tells the version ("" = comes with Twinrig),
    ``program`` what to start in the environment's ``bin``. ``checkout`` names files that mark a
    source folder which is run in place; the environment then lies in it or beside it.
    ``usual_place`` is where to advise people to install it. ``native`` are the Python modules that
    are compiled: they load only where torch, CUDA and driver fit.
    """

    package: str
    program: str = ""
    checkout: tuple[str, ...] = ()
    usual_place: str = ""
    native: tuple[str, ...] = ()
