"""What the panel remembers for itself (language, theme, geometry), in config/panel.ini.

Everything that affects a server lives in profiles instead.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from PySide6.QtCore import QByteArray, QObject, QSettings, Signal

INTERVALS_S = (0.5, 1.0, 2.0, 5.0)
MAX_FILE_BYTES = 1024 * 1024


class PanelSettings(QObject):
    """Typed access; damaged values read as their defaults.

    A file that is damaged as a whole is moved aside, never written over: ``moved_aside``.
    """

    current_profile_changed = Signal(str)
    interval_changed = Signal(float)
    detailed_changed = Signal(bool)
    flag_changed = Signal(str)

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.moved_aside = _move_aside_if_damaged(path)
        self._store = QSettings(str(path), QSettings.Format.IniFormat, self)

    @property
    def language(self) -> str:
        """Chosen language code; "" = follow the system."""
        return self._text("language")

    @language.setter
    def language(self, code: str) -> None:
        self._store.setValue("language", code)

    @property
    def theme(self) -> str:
        """ "system", "light" or "dark"."""
        value = self._text("theme")
        return value if value in ("light", "dark") else "system"

    @theme.setter
    def theme(self, mode: str) -> None:
        self._store.setValue("theme", mode)

    @property
    def interval_s(self) -> float:
        """Seconds between two readings of the cards."""
        try:
            value = float(self._text("interval_s") or 1.0)
        except ValueError:
            return 1.0
        return value if value in INTERVALS_S else 1.0

    @interval_s.setter
    def interval_s(self, seconds: float) -> None:
        if seconds != self.interval_s:
            self._store.setValue("interval_s", str(seconds))
            self.interval_changed.emit(seconds)

    @property
    def distro(self) -> str:
        """Distribution of WSL from the next start on; "" = WSL's default one."""
        return self._text("distro")

    @distro.setter
    def distro(self, name: str) -> None:
        self._store.setValue("distro", name)

    @property
    def detailed(self) -> bool:
        """Whether PCIe traffic and energy are read too; off, because of what they cost."""
        return self.flag("detailed_readings")

    @detailed.setter
    def detailed(self, wanted: bool) -> None:
        if wanted != self.detailed:
            self.set_flag("detailed_readings", wanted)
            self.detailed_changed.emit(wanted)

    @property
    def current_profile(self) -> str:
        """Id of the profile that pages work on; "" = none chosen yet."""
        return self._text("current_profile")

    @current_profile.setter
    def current_profile(self, profile_id: str) -> None:
        if profile_id != self.current_profile:
            self._store.setValue("current_profile", profile_id)
            self.current_profile_changed.emit(profile_id)

    def flag(self, name: str) -> bool:
        """A remembered yes, such as "the user was told about the tray"."""
        return self._text(f"flags/{name}") == "true"

    def set_flag(self, name: str, value: bool = True) -> None:
        if value != self.flag(name):
            self._store.setValue(f"flags/{name}", "true" if value else "false")
            self.flag_changed.emit(name)

    def blob(self, name: str) -> QByteArray:
        """Window geometry and the like; empty when unknown."""
        value = self._store.value(f"layout/{name}")
        return value if isinstance(value, QByteArray) else QByteArray()

    def set_blob(self, name: str, value: QByteArray) -> None:
        self._store.setValue(f"layout/{name}", value)

    def sync(self) -> bool:
        """Write now. False when the file cannot be written."""
        self._store.sync()
        return self._store.status() == QSettings.Status.NoError

    def _text(self, key: str) -> str:
        value = self._store.value(key, "")
        return value if isinstance(value, str) else ""


def _move_aside_if_damaged(path: Path) -> Path | None:
    """Where a damaged file is now; None when all is well or it cannot be moved."""
    with contextlib.suppress(OSError):
        if path.stat().st_size <= MAX_FILE_BYTES:
            trial = QSettings(str(path), QSettings.Format.IniFormat)
            trial.allKeys()  # until then it is not parsed
            if trial.status() is not QSettings.Status.FormatError and _is_text(path):
                return None
        aside = path.with_name(path.name + ".damaged")
        path.replace(aside)
        return aside
    return None


def _is_text(path: Path) -> bool:
    data = path.read_bytes()
    with contextlib.suppress(UnicodeDecodeError):
        return "\0" not in data.decode()
    return False
