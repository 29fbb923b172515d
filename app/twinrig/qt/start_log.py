"""Where the panel's own messages go, Qt's included."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
from pathlib import Path

from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

LOG_BYTES = 1024 * 1024


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
