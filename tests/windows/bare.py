"""A window with one label, told when it was painted: what any Qt program costs here."""

import sys
import time

from PySide6.QtCore import QTimer
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QApplication, QLabel


class Label(QLabel):
    """Ends the program after its first paint."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        QTimer.singleShot(0, self._tell)

    def _tell(self) -> None:
        print(f"painted {time.time()}", flush=True)
        QApplication.quit()


application = QApplication(sys.argv)
label = Label("Twinrig")
label.resize(900, 600)
label.show()
sys.exit(application.exec())
