"""Ties window, tray, meter and live data together for one workbench."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox, QWidget

from twinrig.domain.errors import TwinrigError
from twinrig.domain.metrics import Snapshot
from twinrig.domain.server import ACTIVE_STATES
from twinrig.domain.supervision import ServerRecord
from twinrig.messages import N_, Message
from twinrig.qt.actions import ServerActions
from twinrig.qt.bridge import Bridge
from twinrig.qt.dialogs import QuitAnswer, ask_quit, ask_recording, ask_switch, error_box
from twinrig.qt.first_run import FirstRun
from twinrig.qt.history_keeper import HistoryKeeper
from twinrig.qt.icons import Icons
from twinrig.qt.live import LiveData
from twinrig.qt.main_window import MainWindow
from twinrig.qt.meter import MeterWindow
from twinrig.qt.navigation import Navigation
from twinrig.qt.notifications import Notices
from twinrig.qt.pages.base import Page, PageContext
from twinrig.qt.pages.registry import PAGES
from twinrig.qt.settings import PanelSettings
from twinrig.qt.status_strip import StatusStrip
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme
from twinrig.qt.tray import Tray
from twinrig.qt.tray_model import ProfileChoice, tray_model
from twinrig.qt.viewmodels.figures import speed_words
from twinrig.qt.viewmodels.settings import Folders
from twinrig.services.bench_note import put_back_after_cut

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench

_log = logging.getLogger(__name__)

AskQuit = Callable[[Texts, str, QWidget | None], QuitAnswer]
AskSwitch = Callable[[Texts, str, str, QWidget | None], bool]


class Panel(QObject):
    """Lives from the opened workbench to the end. ``finished`` when the program may end.

    ``target_wanted`` when it shall end for a panel on another target.
    """

    finished = Signal()
    target_wanted = Signal(str)

    def __init__(
        self,
        workbench: Workbench,
        bridge: Bridge,
        window: MainWindow,
        texts: Texts,
        theme: Theme,
        icons: Icons,
        settings: PanelSettings,
        folders: Folders,
        apply_language: Callable[[str], None],
        ask: AskQuit = ask_quit,
        pages: tuple[type[Page], ...] = PAGES,
        may_switch: AskSwitch = ask_switch,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._bridge = bridge
        self._texts = texts
        self._settings = settings
        self._ask = ask
        self._ask_switch = may_switch
        self._quitting = False
        self._error_box: QMessageBox | None = None
        self.live = LiveData(workbench, bridge, settings.interval_s, self)
        self._keeper = HistoryKeeper(workbench, bridge, self.live, self)
        self.actions = ServerActions(workbench, bridge, self)
        self.meter = MeterWindow(texts, theme, icons, settings)
        self.tray = Tray(texts, icons, self)
        self._strip = StatusStrip(texts, theme, icons, window)
        self._notices = Notices(time.monotonic)
        self.context = PageContext(
            workbench=workbench,
            bridge=bridge,
            texts=texts,
            theme=theme,
            icons=icons,
            live=self.live,
            settings=settings,
            navigate=window.navigate,
            report=self.report,
            folders=folders,
            apply_language=apply_language,
            open_target=self._open_target,
        )
        self._wire(bridge)
        self._strip.set_target(workbench.label, workbench.demo)
        window.set_pages(pages, self.context, Navigation(texts, theme, icons, window), self._strip)
        self.first_run = FirstRun(workbench, bridge, window, settings, self)
        window.on_close = self._may_close
        bridge.at_shutdown(workbench.http.close)

    def start(self) -> None:
        """Begin to watch; show the tray icon."""
        self.live.set_visible(self._window.isVisible())
        self.live.set_detailed(self._settings.detailed)
        self.live.start()
        self.actions.read_profiles()
        self.meter.restore()
        self._update_tray()
        self.tray.show()
        self._bridge.submit(
            put_back_after_cut(self.context.workbench), self, self._put_back, self.report
        )

    def stop(self) -> None:
        """Stop what ticks; the bridge is shut down by its owner afterwards."""
        self._quitting = True
        self.live.stop()
        self._keeper.finish()
        self.tray.hide()
        self.meter.remember()
        self.meter.close()
        self._window.remember_geometry()
        self._settings.sync()

    def report(self, error: BaseException) -> None:
        """Show a failure; while one is shown, others are only logged."""
        _log.error("reported to the user", exc_info=error)
        if self._error_box is not None or self._quitting:
            return
        box = error_box(self._texts, error, self._window if self._window.isVisible() else None)
        self._error_box = box
        box.finished.connect(self._error_closed)
        box.open()

    def open_recording(self, path: Path | None = None) -> None:
        """Show a recording in place of this machine; without a path the user is asked for one."""
        parent = self._window if self._window.isVisible() else None
        wanted = path or ask_recording(self._texts, parent)
        if wanted is not None:
            self.live.open_recording(wanted)
            self._window.bring_up()
            self._window.navigate("overview")

    def request_quit(self) -> None:
        """Quit, after asking about a running server."""
        record = self._active_record()
        if record is None:
            self._finish()
            return
        name = record.model_id or record.profile_id
        parent = self._window if self._window.isVisible() else None
        answer = self._ask(self._texts, name, parent)
        if answer is QuitAnswer.LEAVE:
            self._finish()
        elif answer is QuitAnswer.STOP:
            self._strip.show_note(N_("Stopping the server before quitting…"))
            self.actions.stop(record.profile_id, self._finish)

    # -- inside --------------------------------------------------------------------------------

    def _wire(self, bridge: Bridge) -> None:
        self.live.snapshot.connect(self._take)
        self.live.interrupted.connect(lambda error: _log.warning("live data: %s", error))
        self.live.recording_failed.connect(self.report)
        self.live.recording_changed.connect(self._recording_changed)
        self.actions.failed.connect(self.report)
        self.actions.profiles_changed.connect(self._update_tray)
        bridge.unhandled.connect(self.report)
        self.tray.triggered.connect(self._do)
        self.tray.about_to_show.connect(self.actions.read_profiles)
        self.tray.message_clicked.connect(self._window.bring_up)
        self.meter.closed.connect(self._update_tray)
        self.meter.closed.connect(lambda: self._visibility_changed(self._window.isVisible()))
        self._texts.changed.connect(self._update_tray)
        self._settings.interval_changed.connect(self.live.set_interval)
        self._settings.detailed_changed.connect(self.live.set_detailed)
        self._settings.current_profile_changed.connect(lambda _id: self._update_tray())
        self._window.visibility_changed.connect(self._visibility_changed)

    def _put_back(self, told: Message | None) -> None:
        """What was done about a measurement that was cut off."""
        if told is not None:
            self.report(TwinrigError(told))

    def _take(self, snapshot: Snapshot) -> None:
        if self.live.settled:
            return
        self._strip.show_snapshot(snapshot, self.live.last_known)
        self.meter.show_snapshot(snapshot, self.live.last_known)
        self._update_tray()
        if snapshot.recorded:
            return
        notice = self._notices.take(snapshot, self.live.verdict)
        if notice is not None:
            title, text = self._texts.tr(notice.title), self._texts.tr(notice.text)
            self.tray.notify(title, text, problem=notice.kind != "ready")

    def _recording_changed(self) -> None:
        self._strip.show_recording(self.live.recording.name if self.live.recording else "")
        if self.live.latest is None:
            self._strip.show_snapshot(None)
            self.meter.show_snapshot(None)
        self._update_tray()

    def _update_tray(self) -> None:
        profiles = [ProfileChoice(p.id, p.name) for p in self.actions.profiles]
        current = self.actions.chosen(self._settings.current_profile)
        latest = self.live.latest
        model = tray_model(
            latest,
            profiles,
            current,
            self.meter.isVisible(),
            self._texts.tr,
            self.live.verdict,
            recording=self.live.recording is not None,
            freed_bytes=self.live.freed.freed_bytes,
            speed=speed_words(latest, self.live.last_known) if latest is not None else (),
        )
        self.tray.show_model(model)

    def _do(self, action: str, argument: str) -> None:
        record = self._active_record()
        deeds: dict[str, Callable[[], object]] = {
            "open": self._window.bring_up,
            "quit": self.request_quit,
            "start": lambda: self.actions.start(argument),
            "stop": lambda: self.actions.stop(record.profile_id) if record else None,
            "free": lambda: self.actions.free(record.profile_id) if record else None,
            "load": lambda: self.actions.start(record.profile_id) if record else None,
            "profile": lambda: self._choose_profile(argument),
            "switch": lambda: self._switch(argument),
            "copy-url": self._copy_url,
            "meter": self._toggle_meter,
            "open-recording": self.open_recording,
            "close-recording": self.live.close_recording,
        }
        deeds.get(action, lambda: None)()

    def _choose_profile(self, profile_id: str) -> None:
        self._settings.current_profile = profile_id

    def _switch(self, profile_id: str) -> None:
        record = self._active_record()
        names = {profile.id: profile.name for profile in self.actions.profiles}
        running = record.profile_id if record is not None else ""
        parent = self._window if self._window.isVisible() else None
        wanted = names.get(profile_id, profile_id)
        if not running or self._ask_switch(
            self._texts, names.get(running, running), wanted, parent
        ):
            self._choose_profile(profile_id)
            self.actions.switch(profile_id)

    def _copy_url(self) -> None:
        snapshot = self.live.machine
        if snapshot is not None and snapshot.server is not None and snapshot.server.base_url:
            QGuiApplication.clipboard().setText(f"{snapshot.server.base_url}/v1")

    def _toggle_meter(self) -> None:
        self.meter.setVisible(not self.meter.isVisible())
        self.meter.remember()
        self._visibility_changed(self._window.isVisible())
        self._update_tray()

    def _visibility_changed(self, visible: bool) -> None:
        self.live.set_visible(visible or self.meter.isVisible())

    def _active_record(self) -> ServerRecord | None:
        record = self.live.machine.server if self.live.machine else None
        return record if record is not None and record.state in ACTIVE_STATES else None

    def _may_close(self) -> bool:
        if self._quitting:
            return True
        if not self.tray.available:
            self.request_quit()
            return self._quitting
        self._window.hide()
        if not self._settings.flag("told_about_tray"):
            self._settings.set_flag("told_about_tray")
            self.tray.notify(
                self._texts.tr(N_("Twinrig is still here")),
                self._texts.tr(N_("Closing the window keeps it in the tray. Quit is in its menu.")),
            )
        return False

    def _error_closed(self, _result: int) -> None:
        if self._error_box is not None:
            self._error_box.deleteLater()
            self._error_box = None

    def _open_target(self, target: str) -> None:
        self._quitting = True
        self.target_wanted.emit(target)

    def _finish(self) -> None:
        self._quitting = True
        self.finished.emit()
