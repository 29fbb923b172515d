"""Runs the panel: first the window, then everything that takes time to load."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QLibraryInfo,
    QLocale,
    QMessageLogContext,
    QObject,
    QSocketNotifier,
    QTimer,
    QtMsgType,
    QTranslator,
    Signal,
    qInstallMessageHandler,
)
from PySide6.QtWidgets import QApplication

from twinrig.qt.icons import Icons
from twinrig.qt.main_window import MainWindow
from twinrig.qt.settings import PanelSettings
from twinrig.qt.single_instance import Role, SingleInstance
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
LOG_BYTES = 1024 * 1024


def run_panel(
    open_workbench: OpenWorkbench,
    target: str,
    language: str | None,
    folders: Folders,
    *,
    hidden: bool = False,
    argv: Sequence[str] = (),
) -> int:
    """Run until the user quits. ``folders`` are ours; ``hidden`` starts in the tray only.

    Returns 0, also when another panel runs already (its window is shown then), and 1 when that
    one does not react.
    """
    set_app_id()
    application = QApplication([sys.argv[0] if sys.argv else "twinrig", *argv])
    application.setApplicationName("twinrig")
    application.setApplicationDisplayName("Twinrig")
    application.setDesktopFileName("twinrig")
    application.setQuitOnLastWindowClosed(False)
    start_log(folders.log)
    instance = SingleInstance(folders.config)
    role = instance.elect()
    if role is not Role.FIRST:
        _log.info("another panel runs: %s", role.value)
        return 0 if role is Role.SECOND else 1
    starter = Starter(application, open_workbench, target, language, folders)
    instance.show_requested.connect(starter.window.bring_up)
    starter.begin(hidden=hidden)
    with end_on_signals(starter.end):
        code = application.exec()
    instance.close()
    return code


class Starter(QObject):
    """Shows the window at once and fills it when the workbench is there."""

    _caught = Signal(object)

    def __init__(
        self,
        application: QApplication,
        open_workbench: OpenWorkbench,
        target: str,
        language: str | None,
        folders: Folders,
    ) -> None:
        super().__init__(application)
        self._application = application
        self._open_workbench = open_workbench
        self._target = target
        self._folders = folders
        self._qt_texts: QTranslator | None = None
        self._bridge: Bridge | None = None
        self._ended = False
        self.panel: Panel | None = None
        self.settings = PanelSettings(folders.config / "panel.ini")
        self.theme = Theme(application, self.settings.theme)
        self.texts = Texts()
        self.apply_language(language or self.settings.language)
        self.icons = Icons()
        application.setWindowIcon(self.icons.coloured("twinrig"))
        self.window = MainWindow(self.texts, self.theme, self.icons, self.settings)
        self.window.on_close = self._close_early
        self.window.welcome.retry.connect(self._open)
        self.window.welcome.demo.connect(self._open_demo)
        self._caught.connect(self._report)

    def begin(self, *, hidden: bool) -> None:
        """Show the window, then load the rest."""
        sys.excepthook = self._excepthook
        threading.excepthook = lambda args: self._caught.emit(args.exc_value)
        self._application.commitDataRequest.connect(lambda _manager: self.end())
        if not hidden:
            self.window.show()
        # After the first paint: what comes now takes longer than the window itself.
        QTimer.singleShot(0, self._open)

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
        self._application.quit()

    def apply_language(self, language: str) -> None:
        """Switch all text, Qt's own included; "" = as the system."""
        code = language or system_language()
        self.texts.set_language(code)
        if self._qt_texts is not None:
            self._application.removeTranslator(self._qt_texts)
            self._qt_texts = None
        if code != "en":
            translator = QTranslator(self)
            folder = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
            if translator.load(QLocale(code), "qtbase", "_", folder):
                self._application.installTranslator(translator)
                self._qt_texts = translator

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

        self._bridge.submit(open_on_loop(), self, self._opened, self.window.welcome.show_failure)

    def _open_demo(self) -> None:
        self._target = "demo"
        self._open()

    def _opened(self, workbench: Workbench) -> None:
        from twinrig.qt.panel import Panel

        bridge = self._bridge
        if bridge is None:
            return
        self.panel = Panel(
            workbench,
            bridge,
            self.window,
            self.texts,
            self.theme,
            self.icons,
            self.settings,
            self._folders,
            self.apply_language,
        )
        self.panel.finished.connect(self.end)
        self.panel.start()

    def _close_early(self) -> bool:
        QTimer.singleShot(0, self.end)
        return True

    # -- what nobody caught ----------------------------------------------------------------------

    def _excepthook(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        _log.critical("unhandled exception", exc_info=(kind, error, trace))
        if not issubclass(kind, KeyboardInterrupt):
            self._caught.emit(error)

    def _report(self, error: BaseException) -> None:
        if self.panel is not None:
            self.panel.report(error)
        else:
            self.window.welcome.show_failure(error)


def start_log(folder: Path) -> None:
    """Log to ``panel.log`` (two files of 1 MiB); without a writable folder to nowhere."""
    handler: logging.Handler = logging.NullHandler()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            folder / "panel.log", maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8", delay=True
        )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for noisy in ("httpx", "httpcore", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    qInstallMessageHandler(_qt_message)


def _qt_message(kind: QtMsgType, _context: QMessageLogContext, text: str) -> None:
    levels = {QtMsgType.QtDebugMsg: logging.DEBUG, QtMsgType.QtInfoMsg: logging.INFO}
    logging.getLogger("qt").log(levels.get(kind, logging.WARNING), "%s", text)


@contextlib.contextmanager
def end_on_signals(end: Callable[[], None]):  # noqa: ANN201 - a generator for contextlib
    """Make Ctrl+C and SIGTERM end the panel in good order (the server is left running).

    Python runs its handlers only between byte codes, of which an idle Qt loop executes none: the
    wake-up socket makes it execute some.
    """
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    notifier = QSocketNotifier(reader.fileno(), QSocketNotifier.Type.Read)
    notifier.activated.connect(lambda: _swallow(reader))
    numbers = [signal.SIGINT, signal.SIGTERM]
    old = {number: signal.signal(number, lambda *_: end()) for number in numbers}
    old_fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(old_fd)
        for number, handler in old.items():
            signal.signal(number, handler)
        notifier.setEnabled(False)
        reader.close()
        writer.close()


def _swallow(reader: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        reader.recv(64)
