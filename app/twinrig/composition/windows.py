"""The target ``wsl``: a distribution of WSL, reached from the Windows side."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from twinrig import assets
from twinrig.composition.rig import Rig
from twinrig.composition.wsl_target import wanted_distro
from twinrig.domain.wsl import TARGET, distro_of
from twinrig.engines.registry import load_engines
from twinrig.hosts.nvml import NvmlProbe
from twinrig.hosts.paths import AppPaths
from twinrig.hosts.windows.side import open_windows_side
from twinrig.hosts.wsl.distros import WslCatalogue
from twinrig.hosts.wsl.executable import find_wsl
from twinrig.hosts.wsl.host import WslHost
from twinrig.hosts.wsl.launcher import WslServerLauncher
from twinrig.hosts.wsl.listing import LxssRecord
from twinrig.hosts.wsl.registry import package_folder, read_records


def open_wsl_rig(target: str, paths: AppPaths, environ: Mapping[str, str]) -> Rig:
    """Adapters of this target. Nothing is asked yet, and no distribution is started."""
    wanted = distro_of(target) or wanted_distro(paths.config, environ)
    distros = open_distros(environ)
    host = WslHost(distros, environ, wanted, oem=_oem())
    return Rig(
        TARGET,
        host,
        NvmlProbe,
        True,
        load_engines(assets.read_text),
        {},
        quiet_host=host.only_looking(),
        distro=wanted,
        distros=distros,
        windows=open_windows_side(
            environ, paths.target_state(TARGET), (sys.executable, "-m", "twinrig")
        ),
    )


def open_launcher(rig: Rig, environ: Mapping[str, str]) -> WslServerLauncher:
    """Starts servers in the distribution of this rig."""
    distros = open_distros(environ)
    return WslServerLauncher(
        lambda: distros.executable, environ, rig.host, distros, rig.distro, oem=_oem()
    )


def open_distros(environ: Mapping[str, str]) -> WslCatalogue:
    """The distributions of this user."""
    if sys.platform == "win32":
        from twinrig.hosts.windows.registry import WindowsRegistry

        registry = WindowsRegistry()

        def records() -> tuple[LxssRecord, ...] | None:
            return read_records(registry)

        executable = find_wsl(environ, package_folder=lambda: package_folder(registry))
        return WslCatalogue(executable, environ, records=records, oem=_oem())
    return WslCatalogue(find_wsl(environ), environ)


def _oem() -> str:
    """Code page of Windows' console programs; Python knows it by this name on Windows only."""
    return "oem" if sys.platform == "win32" else "cp437"
