"""Runs the panel: first the window, then everything that takes time to load."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QLibraryInfo,
    QLocale,
    QObject,
    QTimer,
    QTranslator,
    Signal,
)
from PySide6.QtWidgets import QApplication

from twinrig.qt.main_window import MainWindow
from twinrig.qt.settings import PanelSettings
from twinrig.qt.single_instance import Role, SingleInstance
from twinrig.qt.source_lines import keep_no_source_lines
from twinrig.qt.text import Texts, system_language
from twinrig.qt.theme import Theme
from twinrig.qt.windows_shell import set_app_id

if TYPE_CHECKING:
    from twinrig.qt.bridge import Bridge
    from twinrig.qt.panel import Panel
    from twinrig.qt.viewmodels.settings import Folders
    from twinrig.services.workbench import Workbench

_log = logging.getLogger(__name__)

OpenWorkbench = Callable[[str], "Workbench"]


def run_panel(
    open_workbench: OpenWorkbench,
    target: str,
    language: str | None,
    folders: Folders,
    *,
    hidden: bool = False,
    replay: Path | None = None,
    self_test: Path | None = None,
    relaunch: Callable[[str], None] | None = None,
    argv: Sequence[str] = (),
) -> int:
    """Run until the user quits. ``folders`` are ours; ``hidden`` starts in the tray only.

    ``replay`` is a recording to show; a panel that runs already shows it. ``self_test`` is where
    to write what a self-test found; it runs beside other panels, and its end is that of the call.
    ``relaunch`` opens a new panel on another target, once this one is gone.

    Returns 0, also when another panel runs already (its window is shown then), and 1 when that
    one does not react.
    """
    set_app_id()
    application = QApplication([sys.argv[0] if sys.argv else "twinrig", *argv])
    application.setApplicationName("twinrig")
    application.setApplicationDisplayName("Twinrig")
    application.setDesktopFileName("twinrig")
    application.setQuitOnLastWindowClosed(False)
    instance = SingleInstance(folders.config)
    role = Role.FIRST if self_test else instance.elect(replay)
    if role is not Role.FIRST:
        return 0 if role is Role.SECOND else 1
    starter = Starter(application, open_workbench, target, language, folders, replay)
    instance.show_requested.connect(starter.window.bring_up)
    instance.replay_requested.connect(starter.show_recording)
    starter.begin(hidden=hidden)
    if self_test is not None:
        return _tested(application, starter, self_test)
    code = application.exec()
    instance.close()
    if starter.next_target and relaunch is not None:
        relaunch(starter.next_target)
    return code


def _tested(application: QApplication, starter: Starter, result: Path) -> int:
    from twinrig.qt.self_test import SelfTest

    starter.first_run = False  # it would take the place of the page that is looked at
    test = SelfTest(starter, result)
    test.begin()
    return application.exec() or test.exit_code


class Starter(QObject):
    """Shows the window at once and fills it when the workbench is there."""

    caught = Signal(object)

    def __init__(
        self,
        application: QApplication,
        open_workbench: OpenWorkbench,
        target: str,
        language: str | None,
        folders: Folders,
        replay: Path | None = None,
    ) -> None:
        super().__init__(application)
        self._replay = replay
        self._application = application
        self._open_workbench = open_workbench
        self._target = target
        self._folders = folders
        self._qt_texts: QTranslator | None = None
        self._bridge: Bridge | None = None
        self._ended = False
        self.panel: Panel | None = None
        self.failure: BaseException | None = None
        self.next_target = ""
        self.first_run = True
        self.settings = PanelSettings(folders.config / "panel.ini")
        self.theme = Theme(application, self.settings.theme)
        self.texts = Texts()
        self.apply_language(language or self.settings.language)
        self.window = MainWindow(self.texts, self.settings)
        self.window.on_close = self._close_early
        self.window.welcome.retry.connect(self._open)
        self.window.welcome.demo.connect(self._open_demo)
        self.caught.connect(self._report)

    def begin(self, *, hidden: bool) -> None:
        """Show the window, then load the rest."""
        keep_no_source_lines()
        sys.excepthook = self._excepthook
        self._application.commitDataRequest.connect(lambda _manager: self.end())
        if hidden:
            QTimer.singleShot(0, self._load)
        else:
            # What comes after the first paint takes longer than the window itself.
            self.window.welcome.painted.connect(self._load)
            self.window.show()

    def _load(self) -> None:
        """What every run needs, but not before something is on the screen."""
        import threading

        from twinrig.qt.signals import EndOnSignals
        from twinrig.qt.start_log import start_log

        start_log(self._folders.log)
        threading.excepthook = lambda args: self.caught.emit(args.exc_value)
        EndOnSignals(self.end, self)
        self._open()

    def end(self) -> None:
        """Wind everything down and leave the event loop; a running server is left running."""
        if self._ended:
            return
        self._ended = True
        if self.panel is not None:
            self.panel.stop()
        if self._bridge is not None and not self._bridge.shutdown():
            _log.warning("some work did not end in time")
        self.window.hide()
        self._drop_qt_texts()
        self._application.quit()

    def show_recording(self, path: str) -> None:
        """Show a recording, at once or as soon as there is a panel."""
        if self.panel is None:
            self._replay = Path(path)
        else:
            self.panel.open_recording(Path(path))

    def apply_language(self, language: str) -> None:
        """Switch all text, Qt's own included; "" = as the system."""
        code = language or system_language()
        self.texts.set_language(code)
        self._drop_qt_texts()
        if code != "en":
            translator = QTranslator(self)
            folder = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
            if translator.load(QLocale(code), "qtbase", "_", folder):
                self._application.installTranslator(translator)
                self._qt_texts = translator

    def _drop_qt_texts(self) -> None:
        if self._qt_texts is not None:
            self._application.removeTranslator(self._qt_texts)
            self._qt_texts = None

    # -- opening -------------------------------------------------------------------------------

    def _open(self) -> None:
        # The late import is the point: asyncio, pages and services load behind a shown window.
        from twinrig.qt.bridge import Bridge

        if self._bridge is None:
            self._bridge = Bridge(self)
        self.window.welcome.show_opening()
        target, opener = self._target, self._open_workbench

        async def open_on_loop() -> Workbench:
            return opener(target)

        self._bridge.submit(open_on_loop(), self, self._opened, self._could_not_open)

    def _open_demo(self) -> None:
        self._target = "demo"
        self._open()

    def _opened(self, workbench: Workbench) -> None:
        from twinrig.qt.icons import Icons
        from twinrig.qt.panel import Panel

        icons = Icons()
        self._application.setWindowIcon(icons.coloured("twinrig"))
        bridge = self._bridge
        if bridge is None:
            return
        self.panel = Panel(
            workbench,
            bridge,
            self.window,
            self.texts,
            self.theme,
            icons,
            self.settings,
            self._folders,
            self.apply_language,
        )
        self.panel.finished.connect(self.end)
        self.panel.target_wanted.connect(self._change_target)
        self.panel.start()
        if self.first_run and self._replay is None:
            self.panel.first_run.begin()
        if self._replay is not None:
            self.panel.open_recording(self._replay)

    def _change_target(self, target: str) -> None:
        self.next_target = target
        self.end()

    def _could_not_open(self, error: Exception) -> None:
        _log.error("the target %s cannot be opened", self._target, exc_info=error)
        self.failure = error
        self.window.welcome.show_failure(error)

    def _close_early(self) -> bool:
        QTimer.singleShot(0, self.end)
        return True

    # -- what nobody caught ----------------------------------------------------------------------

    def _excepthook(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        _log.critical("unhandled exception", exc_info=(kind, error, trace))
        if not issubclass(kind, KeyboardInterrupt):
            self.caught.emit(error)

    def _report(self, error: BaseException) -> None:
        if self.panel is not None:
            self.panel.report(error)
        else:
            self.window.welcome.show_failure(error)
