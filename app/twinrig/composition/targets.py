"""The composition root: picks the adapters of a target and wires everything to them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from twinrig import __version__, assets
from twinrig.checks.registry import CHECKS
from twinrig.composition.keeping import service_manager
from twinrig.composition.rig import Rig
from twinrig.composition.supplies import engine_setup, model_hub
from twinrig.composition.wsl_target import check_wsl
from twinrig.domain.errors import HostError, UsageError
from twinrig.domain.supervision import StateLayout
from twinrig.domain.windows import WindowsSide
from twinrig.domain.wsl import is_wsl
from twinrig.engines.registry import load_engines
from twinrig.fixes.registry import load_fixes
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.http import HttpxClient
from twinrig.hosts.locks import FileLock
from twinrig.hosts.paths import AppPaths
from twinrig.hosts.secrets import KeyringSecrets
from twinrig.messages import message
from twinrig.services import native_import
from twinrig.services.collective import PROBE, CollectiveProbe, CollectiveProgram
from twinrig.services.controller import ServerController
from twinrig.services.fixer import Fixer
from twinrig.services.installs import USUAL_PLACES, EngineFinder
from twinrig.services.journal import Journal
from twinrig.services.models import USUAL_FOLDERS, WINDOWS_FOLDERS, ModelLibrary
from twinrig.services.native_import import NativeImportProbe
from twinrig.services.nccl_candidates import load_candidates
from twinrig.services.preflight import Preflight, ProbeProgram
from twinrig.services.profile_store import ProfileStore
from twinrig.services.setup_change import SetupChange
from twinrig.services.setup_machine import DriverLook
from twinrig.services.workbench import Workbench
from twinrig.services.wsl_restart import WslRestart

SECRETS_FILE = "secrets.json"
"""In the config folder. That it exists is the user's consent to keep keys in a file."""


def resolve_target(target: str, environ: Mapping[str, str] = os.environ) -> str:
    """The one that "auto" means here, or ``target`` itself where it can be had.

    ``wsl:NAME`` is a distribution of WSL. Raises HostError, UsageError.
    """
    if target == "auto":
        target = {"linux": "local", "win32": "wsl"}.get(sys.platform, "demo")
    if is_wsl(target):
        check_wsl(environ)
        return target
    if target == "local" and sys.platform != "linux":
        raise HostError(
            message("The target local needs Linux."),
            message("Use --target demo, or run Twinrig inside a WSL distribution."),
        )
    if target not in ("local", "demo"):
        raise UsageError(
            message("There is no target {target}.", target=target),
            message("Targets: {names}", names="auto, local, wsl, demo"),
        )
    return target


def open_workbench(
    target: str, paths: AppPaths, environ: Mapping[str, str] | None = None
) -> Workbench:
    """Everything for one target. Opens no connection and starts nothing."""
    environ = os.environ if environ is None else environ
    rig = open_rig(resolve_target(target, environ), paths, environ)
    root = paths.target_state(rig.target)
    layout = StateLayout(root)
    clock, http = SystemClock(), HttpxClient()
    profiles = ProfileStore(paths.profiles, rig.engines)
    finder = EngineFinder(rig.host, rig.engines, places=_places(environ), built_in=rig.built_in)
    collective = CollectiveProgram(rig.host, assets.read_text)
    preflight = _preflight(rig, finder, collective)
    journal = Journal(root / "journal.jsonl")
    manager = service_manager(rig.target, root, environ, rig.distro)
    secrets = open_secrets(paths, environ)
    controller = ServerController(
        layout, manager, profiles, http, FileLock(root), clock, rig.target
    )
    return Workbench(
        target=rig.target,
        label=rig.host.label,
        demo=rig.host.demo,
        on_wsl=rig.on_wsl,
        host=rig.host,
        open_gpu_probe=rig.open_gpu_probe,
        http=http,
        engines=rig.engines,
        profiles=profiles,
        models=_models(rig, paths, environ),
        installs=finder,
        preflight=preflight,
        fixer=_fixer(rig, profiles, journal, preflight, controller, FileLock(root)),
        journal=journal,
        controller=controller,
        secrets=secrets,
        layout=layout,
        clock=clock,
        service_kind=manager.kind,
        open_counters=rig.windows.open_counters if rig.windows else None,
        distro=rig.distro,
        quiet_host=rig.quiet_host,
        distros=rig.distros,
        collective=collective,
        candidates=load_candidates(assets.read_text("nccl/candidates.yaml")),
        setup=engine_setup(
            rig.host,
            rig.engines,
            DriverLook(preflight),
            SetupChange(rig.host, profiles, journal, controller, clock, rig.target),
            FileLock(root),
            environ,
            rig.on_wsl,
        ),
        hub=model_hub(rig.host, rig.engines, secrets, finder, environ),
        open_lock=lambda: FileLock(root),
    )


def _preflight(rig: Rig, finder: EngineFinder, collective: CollectiveProgram) -> Preflight:
    programs: dict[str, ProbeProgram] = {
        PROBE: CollectiveProbe(collective),
        native_import.PROBE: NativeImportProbe(rig.host, rig.engines, assets.read_text),
    }
    windows = rig.windows.facts if rig.windows else None
    return Preflight(rig.host, CHECKS, finder, SystemClock(), programs=programs, windows=windows)


def _fixer(
    rig: Rig,
    profiles: ProfileStore,
    journal: Journal,
    preflight: Preflight,
    controller: ServerController,
    lock: FileLock,
) -> Fixer:
    clock, windows = SystemClock(), rig.windows
    restart = None
    if rig.distros is not None:
        restart = WslRestart(rig.distros, controller, clock, rig.distro)
    return Fixer(
        rig.host,
        profiles,
        journal,
        preflight,
        load_fixes(assets.read_text("advice/fixes.yaml")),
        clock,
        rig.target,
        lock=lock,
        windows_files=windows.files if windows else None,
        elevation=windows.elevation if windows else None,
        wsl_restart=restart,
    )


def _models(rig: Rig, paths: AppPaths, environ: Mapping[str, str]) -> ModelLibrary:
    kept = paths.config / f"model-folders-{rig.target}.json"
    return ModelLibrary(rig.host, _model_folders(environ, rig.on_wsl), kept)


def open_rig(target: str, paths: AppPaths, environ: Mapping[str, str] = os.environ) -> Rig:
    """Adapters of a resolved target. The demo engine belongs to the demo rig only."""
    if is_wsl(target):
        from twinrig.composition.windows import open_wsl_rig

        return open_wsl_rig(target, paths, environ)
    engines = load_engines(assets.read_text)
    if target == "demo":
        from twinrig.hosts.demo.gpus import DemoGpuProbe
        from twinrig.hosts.demo.host import DemoHost, demo_install
        from twinrig.hosts.demo.windows import DemoWindows

        root = paths.target_state(target)
        own = demo_install(sys.executable, __version__)
        return Rig(
            target,
            DemoHost(root),
            lambda: DemoGpuProbe(root),
            False,
            engines,
            {"demo": own},
            windows=WindowsSide(DemoWindows()),
        )
    from twinrig.hosts.local.host import LocalHost
    from twinrig.hosts.nvml import NvmlProbe

    return Rig(target, LocalHost(environ), NvmlProbe, runs_on_wsl(), engines, {})


def open_secrets(paths: AppPaths, environ: Mapping[str, str]) -> KeyringSecrets:
    """The store of keys; a file only where the user has made one."""
    file = paths.config / SECRETS_FILE
    return KeyringSecrets(environ, file=file, file_consent=file.exists())


def runs_on_wsl(version: Path = Path("/proc/sys/kernel/osrelease")) -> bool:
    """Whether this Linux is a WSL2 distribution, told by its kernel's name."""
    try:
        return "microsoft" in version.read_text(encoding="utf-8", errors="replace").lower()
    except OSError:
        return False


def _places(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The environment that is active in this terminal comes first."""
    own = str(Path(sys.prefix))
    active = [environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    return (*(p for p in active if p.startswith("/") and p != own), *USUAL_PLACES)


def _model_folders(environ: Mapping[str, str], on_wsl: bool) -> tuple[str, ...]:
    hub = environ.get("HF_HUB_CACHE") or (
        f"{environ['HF_HOME']}/hub" if environ.get("HF_HOME") else ""
    )
    windows = WINDOWS_FOLDERS if on_wsl else ()
    return (*((hub,) if hub.startswith("/") else ()), *USUAL_FOLDERS, *windows)
