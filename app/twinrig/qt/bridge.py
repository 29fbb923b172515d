"""One asyncio loop on a thread of its own, and the only way back to the window: queued signals.

Callbacks always run on the GUI thread; a cancelled task, or one whose owner is gone, calls none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal
from shiboken6 import isValid

_log = logging.getLogger(__name__)

DRAIN_BUDGET_S = 0.008
CANCEL_LIMIT_S = 5.0
SWITCH_INTERVAL_S = 0.001
"""How long another thread that computes may keep the GUI thread waiting, each time that it comes
back from Qt: with Python's 5 ms, opening a log that is being judged held the window for 93 ms,
with 1 ms for 58 (medians)."""

Work = Coroutine[Any, Any, Any] | AsyncIterable[Any]


class TaskHandle:
    """A running piece of work. ``cancel`` may be called from any thread, and twice."""

    def __init__(
        self,
        bridge: Bridge,
        owner: QObject,
        on_result: Callable[[Any], object] | None,
        on_error: Callable[[Exception], object] | None,
        on_progress: Callable[[Any], object] | None,
    ) -> None:
        self._bridge = bridge
        self._owner = owner
        self._on_result = on_result
        self._on_error = on_error
        self._on_progress = on_progress
        self._cancelled = False
        self._task: asyncio.Task[None] | None = None
        self.finished = False

    @property
    def active(self) -> bool:
        """Neither finished nor cancelled."""
        return not self.finished and not self._cancelled

    @property
    def owner(self) -> QObject:
        return self._owner

    def cancel(self) -> None:
        """No callback runs after this returns (on the GUI thread)."""
        self._cancelled = True
        self._bridge.in_loop(self._cancel_task)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def launch(self, work: Work, loop: asyncio.AbstractEventLoop) -> None:
        """On the loop: begin, unless a cancel was quicker."""
        if self._cancelled:
            self._end(work)
            return
        self._task = loop.create_task(self._run(work))
        # A task that is cancelled before its first step never enters its coroutine.
        self._task.add_done_callback(lambda _task: self._end(work))

    async def _run(self, work: Work) -> None:
        try:
            if isinstance(work, Coroutine):
                result = await work
            else:
                result = None
                async for item in work:
                    self._bridge.post(self, "progress", item)
            self._bridge.post(self, "result", result)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 - every failure is shown on the GUI thread
            self._bridge.post(self, "error", error)

    def _end(self, work: Work) -> None:
        if isinstance(work, Coroutine):
            work.close()
        self._bridge.post(self, "end", None)

    def deliver(self, kind: str, value: Any) -> None:
        """On the GUI thread: call back, unless nobody wants to hear it any more."""
        if kind != "progress":
            self.finished = True
            self._bridge.forget(self)
        if self._cancelled or kind == "end" or not isValid(self._owner):
            return
        if kind == "progress" and self._on_progress is not None:
            self._on_progress(value)
        elif kind == "result" and self._on_result is not None:
            self._on_result(value)
        elif kind == "error":
            if self._on_error is not None:
                self._on_error(value)
            else:
                self._bridge.unhandled.emit(value)


class Bridge(QObject):
    """Owns the asyncio thread. Create it on the GUI thread; ``shutdown`` before quitting.

    ``unhandled`` carries exceptions of work that was submitted without ``on_error``.
    """

    unhandled = Signal(object)
    _wake = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._loop = asyncio.new_event_loop()
        self._executor = ThreadPoolExecutor(max_workers=4, thread_name_prefix="blocking")
        self._loop.set_default_executor(self._executor)
        self._handles: set[TaskHandle] = set()
        self._inbox: deque[tuple[TaskHandle, str, Any]] = deque()
        self._woken = threading.Event()
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._closed = False
        self._wake.connect(self._drain, Qt.ConnectionType.QueuedConnection)
        self._thread = threading.Thread(target=self._run, name="asyncio", daemon=True)
        self._thread.start()

    def submit(
        self,
        work: Work,
        owner: QObject,
        on_result: Callable[[Any], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        on_progress: Callable[[Any], object] | None = None,
    ) -> TaskHandle:
        """Run a coroutine, or consume an async iterator (each item goes to ``on_progress``).

        The work ends with its ``owner``. Without ``on_error`` a failure goes to ``unhandled``.
        """
        handle = TaskHandle(self, owner, on_result, on_error, on_progress)
        if self._closed:
            if isinstance(work, Coroutine):
                work.close()
            handle.finished = True
            return handle
        self._handles.add(handle)
        self.in_loop(lambda: handle.launch(work, self._loop))
        return handle

    def cancel_all(self, owner: QObject) -> None:
        """Cancel everything that belongs to ``owner``."""
        for handle in [h for h in self._handles if h.owner is owner]:
            handle.cancel()

    def at_shutdown(self, closer: Callable[[], Awaitable[None]]) -> None:
        """Await ``closer()`` on the loop after all work was cancelled."""
        self._closers.append(closer)

    def shutdown(self) -> bool:
        """Cancel, gather, close, stop, join; at most about twice the cancel limit.

        True when everything ended in time.
        """
        if self._closed:
            return True
        self._closed = True
        done = asyncio.run_coroutine_threadsafe(self._wind_down(), self._loop)
        try:
            clean = bool(done.result(2 * CANCEL_LIMIT_S))
        except TimeoutError:
            clean = False
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(1.0)
        self._inbox.clear()
        self._handles.clear()
        return clean and not self._thread.is_alive()

    def in_loop(self, call: Callable[[], object]) -> None:
        """Run ``call`` soon on the asyncio thread; nothing happens once the loop is closed."""
        # A loop that is closed already has no work left to reach.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    def post(self, handle: TaskHandle, kind: str, value: Any) -> None:
        """From the loop: hand something to the GUI thread. One wake-up covers many items."""
        self._inbox.append((handle, kind, value))
        if not self._woken.is_set() and not self._closed:
            self._woken.set()
            self._wake.emit()

    def forget(self, handle: TaskHandle) -> None:
        self._handles.discard(handle)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _drain(self) -> None:
        self._woken.clear()
        deadline = time.monotonic() + DRAIN_BUDGET_S
        while self._inbox:
            handle, kind, value = self._inbox.popleft()
            handle.deliver(kind, value)
            if time.monotonic() > deadline and self._inbox:
                # Let the window paint and answer keys before the rest.
                if not self._woken.is_set():
                    self._woken.set()
                    self._wake.emit()
                return

    async def _wind_down(self) -> bool:
        tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        pending: set[asyncio.Task[Any]] = set()
        if tasks:
            _, pending = await asyncio.wait(tasks, timeout=CANCEL_LIMIT_S)
        for closer in self._closers:
            try:
                await asyncio.wait_for(closer(), 1.0)
            except Exception:  # noqa: BLE001 - closing must go on
                _log.exception("closing a resource failed")
        await self._loop.shutdown_asyncgens()
        return not pending
