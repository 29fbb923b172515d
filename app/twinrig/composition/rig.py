"""What differs between targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from twinrig.domain.install import EngineInstall
from twinrig.domain.ports import GpuProbe, Host, WslDistros
from twinrig.domain.windows import WindowsSide
from twinrig.engines.base import Engine


@dataclass(frozen=True)
class Rig:
    """Adapters of one target. ``built_in`` are engines that come with Twinrig.

    ``quiet_host`` is for whoever only looks: it never starts a machine (None = ``host``).
    ``distro`` is the distribution that was asked for, ``distros`` all of them; on WSL only.
    ``windows`` is the Windows side, where Twinrig runs on Windows.
    """

    target: str
    host: Host
    open_gpu_probe: Callable[[], GpuProbe]
    on_wsl: bool
    engines: Mapping[str, Engine]
    built_in: Mapping[str, EngineInstall]
    quiet_host: Host | None = None
    distro: str = ""
    distros: WslDistros | None = None
    windows: WindowsSide | None = None

    @property
    def onlooker(self) -> Host:
        """The host for whoever only looks."""
        return self.quiet_host or self.host
