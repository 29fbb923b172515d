"""Where Twinrig keeps its own files: platform folders, or all below ``TWINRIG_HOME``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HOME_VARIABLE = "TWINRIG_HOME"
_NAME = "twinrig"


@dataclass(frozen=True)
class AppPaths:
    """Folders of this user; none of them need exist yet."""

    config: Path
    state: Path
    cache: Path
    log: Path

    @property
    def profiles(self) -> Path:
        """One YAML file per profile, of all targets together."""
        return self.config / "profiles"

    def target_state(self, target: str) -> Path:
        """Root of one target's ``StateLayout``; ``wsl:NAME`` and the like are made file-safe."""
        safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in target)
        return self.state / (safe.lstrip(".") or "_")


def find_paths(environ: Mapping[str, str]) -> AppPaths:
    """Folders for ``environ``: below ``TWINRIG_HOME`` when it is set, else the platform's own.

    A relative ``TWINRIG_HOME`` counts from the current folder.
    """
    home = environ.get(HOME_VARIABLE, "").strip()
    if home:
        root = Path(home).expanduser().absolute()
        return AppPaths(root / "config", root / "state", root / "cache", root / "log")
    import platformdirs

    dirs = platformdirs.PlatformDirs(_NAME, appauthor=False)
    return AppPaths(
        dirs.user_config_path, dirs.user_state_path, dirs.user_cache_path, dirs.user_log_path
    )
