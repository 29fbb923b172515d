"""Runs in the installed Python: starts the panel as its shortcut does, and uses real widgets.

``python.exe drive.py JOURNEY FOLDER [TARGET]``: writes JOURNEY.json into FOLDER, and asks for
pictures of the screen by files NAME.want, which are gone once they were taken.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication, QPlainTextEdit, QPushButton

sys.path.insert(0, str(Path(__file__).parent))

from patient import be_patient

import twinrig.qt.application as application
from twinrig.__main__ import main
from twinrig.domain.server import ServerState
from twinrig.qt.viewmodels.fixing import Stage
from twinrig.qt.widgets.fix_dialog import FixDialog

POLL_MS = 50
LIMIT_S = 240.0
"""For each condition: a machine where others work may be ten times slower."""
Journey = Callable[["Driver"], Iterator[object]]


class Driver(QObject):
    """Walks through a journey: each value it yields is a condition, or None for one moment."""

    def __init__(self, starter: Any, journey: Journey, folder: Path) -> None:
        super().__init__(starter)
        self.starter = starter
        self.folder = folder
        self.seen: dict[str, Any] = {}
        self._result = folder / f"{journey.__name__}.json"
        self._journey = journey(self)
        self._condition: Any = None
        self._deadline_s = 0.0
        starter.caught.connect(lambda error: self.end(f"uncaught: {error!r}"))
        QTimer.singleShot(0, self._go_on)

    @property
    def panel(self) -> Any:
        """None until the target was opened."""
        return self.starter.panel

    def page(self, page_id: str) -> Any:
        """Show a page and give it."""
        self.panel.context.navigate(page_id)
        return self.starter.window.pages[page_id]

    def picture(self, name: str) -> Callable[[], bool]:
        """Ask for a picture of the screen; the condition is that it was taken."""
        wish = self.folder / f"{name}.want"
        wish.write_text("")
        return lambda: not wish.exists()

    def end(self, fault: str = "") -> None:
        """Write what was seen and leave at once, as a panel that is killed does."""
        self.seen["fault"] = fault
        self._result.write_text(json.dumps(self.seen, ensure_ascii=False, indent=1), "utf-8")
        os._exit(1 if fault else 0)

    def _go_on(self) -> None:
        try:
            if callable(self._condition) and not self._condition():
                if time.monotonic() > self._deadline_s:
                    self.end(f"waited in vain at {self._journey.gi_frame.f_lineno}")  # type: ignore[attr-defined]
            else:
                self._condition = next(self._journey)
                self._deadline_s = time.monotonic() + LIMIT_S
        except StopIteration:
            self.end()
        except Exception:  # noqa: BLE001 - whatever went wrong is the result
            self.end(traceback.format_exc())
        QTimer.singleShot(POLL_MS, self._go_on)


def preflight(driver: Driver) -> Iterator[object]:
    """The list appears with answers of the other side; the menu of the tray opens."""
    yield lambda: driver.panel or driver.starter.failure
    if driver.panel is None:
        raise driver.starter.failure
    driver.seen["target"] = driver.panel.context.workbench.target
    driver.seen["platform"] = QApplication.platformName()
    page = driver.page("preflight")
    yield lambda: not page.model.running and any(page.model.counts().values())
    driver.seen["checks"] = {
        row.check_id: row.result.status.value for row in page.model.rows if row.result
    }
    yield driver.picture("preflight")
    yield from _tray(driver)


def _preview(driver: Driver) -> Iterator[object]:
    page = driver.page("preflight")
    yield lambda: not page.model.running and any(page.model.counts().values())
    at = next(n for n, row in enumerate(page.model.rows) if row.fixable)
    driver.seen["fixable"] = page.model.rows[at].check_id
    page._view.setCurrentIndex(page._table.index(at, 0))
    buttons: list[QPushButton] = []

    def offered() -> bool:
        buttons[:] = [b for b in page._detail.findChildren(QPushButton) if b.isVisible()]
        return bool(buttons)

    yield offered
    buttons[0].click()
    yield lambda: page.findChildren(FixDialog)
    (dialog,) = page.findChildren(FixDialog)
    yield lambda: dialog.flow.stage is Stage.PREVIEW and dialog.flow.can_apply
    driver.seen["preview"] = dialog.findChild(QPlainTextEdit).toPlainText()
    yield driver.picture("fix")
    dialog.reject()
    yield lambda: not page.findChildren(FixDialog)


def _tray(driver: Driver) -> Iterator[object]:
    tray = driver.panel.tray
    driver.seen["tray_available"] = tray.available
    window = driver.starter.window
    tray.menu.popup(window.mapToGlobal(window.rect().center()))
    yield lambda: tray.menu.isVisible()
    driver.seen["tray_menu"] = [a.text() for a in tray.menu.actions() if a.text()]
    yield driver.picture("tray")
    tray.menu.close()


def server(driver: Driver) -> Iterator[object]:
    """A fix is previewed; a server is started and watched; then the panel dies without a word."""
    yield lambda: driver.panel or driver.starter.failure
    if driver.panel is None:
        raise driver.starter.failure
    driver.seen["service"] = driver.panel.context.workbench.service_kind
    yield lambda: driver.panel.actions.profiles
    profile = driver.panel.actions.profiles[0]
    driver.panel.context.settings.current_profile = profile.id
    yield from _preview(driver)
    page = driver.page("server")
    yield lambda: page.panel.loaded
    driver.panel.actions.failed.connect(lambda error: driver.end(f"start: {error!r}"))
    driver.panel.actions.start(profile.id)

    def ready() -> bool:
        snapshot = driver.panel.live.latest
        record = None if snapshot is None else snapshot.server
        driver.seen["state"] = None if record is None else record.state.value
        return record is not None and record.state is ServerState.READY

    yield ready
    record = driver.panel.live.latest.server
    driver.seen["url"] = record.base_url
    driver.page("overview")
    yield lambda: driver.starter.window.current_id == "overview"
    yield driver.picture("server")


def drive(journey: Journey, folder: Path, words: list[str]) -> int:
    """Exit code of the panel; the journey ends it before that."""
    begin = application.Starter.begin

    def begin_and_drive(starter: Any, *, hidden: bool) -> None:
        begin(starter, hidden=hidden)
        starter.driver = Driver(starter, journey, folder)

    be_patient()
    application.Starter.begin = begin_and_drive
    return main(words)


if __name__ == "__main__":
    chosen = {"preflight": preflight, "server": server}[sys.argv[1]]
    sys.exit(drive(chosen, Path(sys.argv[2]), sys.argv[3:]))
