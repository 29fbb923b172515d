"""The set-up without a console: a small progress window where tkinter exists, else none."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any

from bootstrap import stamp
from bootstrap.main import child_environment
from bootstrap.packages import NO_WINDOW
from bootstrap.places import Places
from bootstrap.problems import Problem
from bootstrap.progress import Progress, Silent
from bootstrap.work import set_up

NAMES = ("runtime",)
EARLY_S = 4.0


def run(root: str, argv: Sequence[str], show: Callable[[str], None]) -> int:
    """Set up when needed, start the panel without a console, and return once it lives.

    A fault, also one within the panel's first seconds, is given to ``show``.
    """
    places = Places(root)
    try:
        if not stamp.matches(places, NAMES):
            with_window(lambda progress: set_up(places, NAMES, None, progress))
        return start_panel(places, argv, show)
    except Problem as problem:
        show(f"{problem.text}\n\n{problem.next_step}")
        return problem.code


def start_panel(places: Places, argv: Sequence[str], show: Callable[[str], None]) -> int:
    """Start ``twinrig`` on its own; what it writes when it fails early is shown."""
    windowed = os.path.join(places.scripts, "pythonw.exe")
    python = windowed if os.path.exists(windowed) else places.python
    log = os.path.join(places.venv, "panel-start.log")
    with open(log, "wb") as sink:
        child = subprocess.Popen(
            [python, "-m", "twinrig", *argv],
            env=child_environment(os.environ),
            cwd=places.root,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            creationflags=NO_WINDOW,
        )
    try:
        code = child.wait(EARLY_S)
    except subprocess.TimeoutExpired:
        return 0
    if code != 0:
        with open(log, encoding="utf-8", errors="replace") as source:
            tail = "".join(source.readlines()[-8:])
        show(f"Twinrig ended at once (exit code {code}).\n\n{tail}\nThe log is {log}.")
    return code


def with_window(work: Callable[[Progress], None]) -> None:
    """Do ``work`` on a thread beside a progress window; its exception is raised here."""
    try:
        import tkinter
        from tkinter import ttk

        window: Any = tkinter.Tk()
    except Exception:  # noqa: BLE001 - no Tk or no screen: work without a window
        work(Silent())
        return
    window.title("Twinrig")
    window.resizable(False, False)
    label = ttk.Label(window, text="Setting Twinrig up (only this first time)", width=60)
    label.pack(padx=16, pady=(16, 8))
    bar = ttk.Progressbar(window, maximum=100.0, length=420)
    bar.pack(padx=16, pady=(0, 16))
    _Loop(window, label, bar).run(work)


class _Queued:
    """Progress from another thread; the window reads it in its own."""

    def __init__(self) -> None:
        self.updates: queue.SimpleQueue[tuple[float, str]] = queue.SimpleQueue()

    def show(self, percent: float, text: str) -> None:
        """Put it in the queue."""
        self.updates.put((percent, text))

    def close(self) -> None:
        """Nothing to do."""


class _Loop:
    """Runs the window until the work has ended."""

    def __init__(self, window: Any, label: Any, bar: Any) -> None:
        self._window, self._label, self._bar = window, label, bar
        self._progress = _Queued()
        self._failure: BaseException | None = None

    def run(self, work: Callable[[Progress], None]) -> None:
        """Show progress; raises what ``work`` raised."""
        thread = threading.Thread(target=self._work, args=(work,), daemon=True)
        thread.start()
        self._window.protocol("WM_DELETE_WINDOW", lambda: None)  # a half-made set-up helps nobody
        self._window.after(0, self._poll, thread)  # within the loop: a quit before it is lost
        self._window.mainloop()
        self._window.destroy()
        if self._failure is not None:
            raise self._failure

    def _work(self, work: Callable[[Progress], None]) -> None:
        try:
            work(self._progress)
        except BaseException as error:  # noqa: BLE001 - raised again in the window's thread
            self._failure = error

    def _poll(self, thread: threading.Thread) -> None:
        while not self._progress.updates.empty():
            percent, text = self._progress.updates.get()
            self._bar["value"] = max(float(self._bar["value"]), percent)
            self._label["text"] = text
        if thread.is_alive():
            self._window.after(100, self._poll, thread)
        else:
            self._window.quit()
