"""Opens the real panel, tries every page, language, tray and key store, and writes what it saw."""

from __future__ import annotations

import json
import logging
import platform
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer, qVersion
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QApplication, QWidget

from twinrig import __version__
from twinrig.files import write_atomic
from twinrig.messages import LANGUAGES

if TYPE_CHECKING:
    from twinrig.domain.ports import SecretStore
    from twinrig.qt.application import Starter
    from twinrig.qt.panel import Panel

_log = logging.getLogger(__name__)

OPEN_LIMIT_S = 120.0
KEY_LIMIT_S = 60.0
"""The first question to a key store may start a service, or load one from a cold disk."""
POLL_MS = 50
SETTLE_MS = 200


class SelfTest(QObject):
    """Runs once beside ``starter`` and ends it. ``exit_code``: 0 when nothing was amiss."""

    def __init__(self, starter: Starter, result: Path) -> None:
        super().__init__(starter)
        self._starter = starter
        self._result = result
        self._faults: list[str] = []
        self._seen: dict[str, Any] = facts_of_this_system()
        self._keys: dict[str, Any] | None = None
        self._steps = self._run()
        self.exit_code = 1
        starter.caught.connect(lambda error: self._fault(f"uncaught: {error!r}"))
        starter.window.welcome.painted.connect(self._painted)

    def begin(self) -> None:
        """To be called when the window was asked to show."""
        QTimer.singleShot(0, self._advance)

    # -- inside --------------------------------------------------------------------------------

    def _painted(self) -> None:
        self._seen["first_paint_unix_s"] = time.time()

    def _fault(self, text: str) -> None:
        self._faults.append(text)

    def _advance(self) -> None:
        try:
            pause_ms = next(self._steps)
        except StopIteration:
            self._finish()
        except Exception as error:  # noqa: BLE001 - the result is written whatever a page does
            _log.exception("self-test")
            self._fault(f"self-test: {error!r}")
            self._finish()
        else:
            QTimer.singleShot(pause_ms, self._advance)

    def _run(self) -> Iterator[int]:
        """Each value is a pause in milliseconds, in which the panel does its own work."""
        deadline_s = time.monotonic() + OPEN_LIMIT_S
        while self._starter.panel is None and self._starter.failure is None:
            if time.monotonic() > deadline_s:
                self._fault(f"the panel did not open within {OPEN_LIMIT_S:.0f} s")
                return
            yield POLL_MS
        panel = self._starter.panel
        if panel is None:
            self._fault(f"this machine cannot be opened: {self._starter.failure!r}")
            return
        panel.live.interrupted.connect(lambda error: self._fault(f"live data: {error!r}"))
        window = self._starter.window
        self._seen["target"] = panel.context.workbench.target
        self._seen["window_shown"] = window.isVisible()
        if "first_paint_unix_s" not in self._seen:
            self._fault("the window was never painted")
        self._seen["tray"] = {
            "available": panel.tray.available,
            "menu_entries": len(panel.tray.menu.actions()),
        }
        yield from self._pages(panel)
        yield from self._languages()
        yield from self._key_store(panel)

    def _pages(self, panel: Panel) -> Iterator[int]:
        window, shown = self._starter.window, []
        for page_id in window.page_ids:
            panel.context.navigate(page_id)
            yield SETTLE_MS
            if window.current_id != page_id or is_blank(window):
                self._fault(f"the page {page_id} does not show")
            shown.append(page_id)
        self._seen["pages"] = shown
        if not shown:
            self._fault("there is no page")

    def _languages(self) -> Iterator[int]:
        before, titles = self._starter.texts.language, {}
        for code in LANGUAGES:
            self._starter.apply_language(code)
            yield SETTLE_MS
            navigation = self._starter.window.navigation
            count = 0 if navigation is None else navigation.count()
            titles[code] = [navigation.item(row).text() for row in range(count)]
        self._starter.apply_language(before)
        self._seen["languages"] = titles
        if len({tuple(found) for found in titles.values()}) != len(LANGUAGES):
            self._fault("two languages show the same text")

    def _key_store(self, panel: Panel) -> Iterator[int]:
        bridge, secrets = panel.context.bridge, panel.context.workbench.secrets
        deadline_s = time.monotonic() + KEY_LIMIT_S
        bridge.submit(round_trip(secrets), self, self._keys_told, self._keys_failed)
        while self._keys is None:
            if time.monotonic() > deadline_s:
                self._keys_failed(TimeoutError(f"no answer within {KEY_LIMIT_S:.0f} s"))
            yield POLL_MS
        self._seen["key_store"] = self._keys

    def _keys_told(self, found: dict[str, Any]) -> None:
        self._keys = found
        if not found["round_trip"]:
            self._fault("the key store does not give back what it was given")

    def _keys_failed(self, error: Exception) -> None:
        self._keys = {"round_trip": False}
        self._fault(f"key store: {error!r}")

    def _finish(self) -> None:
        self._seen["faults"] = self._faults
        self._seen["fine"] = not self._faults
        try:
            write_result(self._result, self._seen)
        except OSError as error:
            _log.error("self-test: %s cannot be written: %s", self._result, error)
        else:
            self.exit_code = 0 if not self._faults else 1
        self._starter.end()


def facts_of_this_system() -> dict[str, Any]:
    """Versions and what Qt runs on; needs a QApplication."""
    # platform.release() and the like are not asked: they may start a query of Windows' WMI.
    return {
        "twinrig": __version__,
        "python": platform.python_version(),
        "system": sys.platform,
        "qt": qVersion(),
        "qt_platform": QGuiApplication.platformName(),
        "style": QApplication.style().objectName(),
        "font_families": len(QFontDatabase.families()),
        "window_shown": False,
    }


def write_result(path: Path, result: dict[str, Any]) -> None:
    """The result as JSON. Raises OSError."""
    text = json.dumps(result, ensure_ascii=False, indent=2) + "\n"
    write_atomic(path.absolute(), text.encode())


async def round_trip(secrets: SecretStore) -> dict[str, Any]:
    """Keep a made-up key, read it, forget it; the keys of profiles are not touched."""
    name, value = f"self-test-{uuid.uuid4().hex}", "ключ-鍵-" + uuid.uuid4().hex
    await secrets.set(name, value)
    try:
        kept = await secrets.get(name)
    finally:
        await secrets.delete(name)
    gone = await secrets.get(name) is None
    found = kept == value and gone
    return {"round_trip": found, "place": secrets.place, "lasting": secrets.lasting}


def is_blank(widget: QWidget) -> bool:
    """Whether a picture of the widget is one colour all over."""
    image = widget.grab().toImage()
    if image.isNull():
        return True
    first = image.pixel(0, 0)
    step = max(1, image.width() // 200)
    return all(
        image.pixel(x, y) == first
        for y in range(0, image.height(), step)
        for x in range(0, image.width(), step)
    )
