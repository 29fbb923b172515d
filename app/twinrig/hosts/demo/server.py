"""The demo server: a process of its own that behaves like an LLM server without a model."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from twinrig.domain.errors import ProfileError
from twinrig.domain.server import Phase
from twinrig.hosts.demo.batch import Batch
from twinrig.hosts.demo.completions import Endpoints
from twinrig.hosts.demo.config import KEY_VARIABLE, DemoConfig, load_config
from twinrig.hosts.demo.httpd import MAX_HEADER_BYTES, HttpFault, Reply, read_request
from twinrig.hosts.demo.load import DemoLoad, remove_load, write_load
from twinrig.hosts.demo.loading import Loader, LoadFault, Rig
from twinrig.hosts.demo.log import DemoLog
from twinrig.hosts.demo.models import LARGE, model_at
from twinrig.hosts.demo.naps import Naps
from twinrig.hosts.demo.physics import Split, split_of

PUBLISH_S = 0.25
STATISTICS_S = 10.0
DRAIN_S = 1.0
RUN_ID_VARIABLE = "TWINRIG_RUN_ID"


def run_demo_server(config_path: str | None) -> int:
    """Serve until SIGTERM or SIGINT. 0 = stopped as asked, 1 = a fault, 2 = bad configuration."""
    log = DemoLog()
    try:
        config = load_config(config_path)
    except ProfileError as error:
        for fault in error.errors:
            log.error(f"{fault.path} {fault.text}".strip())
        return 2
    except OSError as error:
        log.error(f"{config_path}: {error}")
        return 2
    return asyncio.run(DemoServer(config, log, os.environ).run())


class DemoServer:
    """One run of the server: load, listen, serve, stop."""

    def __init__(self, config: DemoConfig, log: DemoLog, environ: Mapping[str, str]) -> None:
        self._config = config
        self._log = log
        self._key = environ.get(KEY_VARIABLE, "")
        self._run_id = environ.get(RUN_ID_VARIABLE, "")
        self._split = split_of(config.tensor_parallel_size, config.pipeline_parallel_size)
        self._rig = Rig()
        self._batch: Batch | None = None
        self._stop = asyncio.Event()
        self._crashed = False
        self._busy_since_s = time.monotonic()
        self._connections: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Exit code as of ``run_demo_server``."""
        if self._config.fault != "ignore_term":
            _on_signals(self._stop.set)
        else:
            _on_signals(lambda: None)
        listener = self._bind()
        if listener is None:
            return 1
        with contextlib.closing(listener):
            publisher = asyncio.create_task(self._publish())
            try:
                return await self._load_and_serve(listener)
            finally:
                await _cancelled(publisher)
                if self._config.load_file:
                    remove_load(Path(self._config.load_file))

    def _bind(self) -> socket.socket | None:
        """The port is bound before the load and listens after it, as with vLLM."""
        host, port = self._config.host, self._config.port
        try:
            if self._config.fault == "port_taken":
                raise OSError(errno.EADDRINUSE, "Address already in use")
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, kind)
        except OSError as error:
            self._log_bind_error(error)
            return None
        try:
            if sys.platform != "win32":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            self._log_bind_error(error)
            return None
        return listener

    def _log_bind_error(self, error: OSError) -> None:
        # Windows words it in the user's language; the log keeps to one form.
        taken = error.errno == errno.EADDRINUSE
        reason = "Address already in use" if taken else error.strerror
        place = f"{self._config.host}:{self._config.port}"
        self._log.error(f"OSError: [Errno {error.errno}] {reason}: {place}")

    async def _load_and_serve(self, listener: socket.socket) -> int:
        load = asyncio.create_task(Loader(self._config, self._log, self._rig).load())
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait({load, stop}, return_when=asyncio.FIRST_COMPLETED)
        if self._stop.is_set():
            await _cancelled(load, stop)
            self._log.phase(Phase.STOP, "Stopped while loading")
            return 0
        await _cancelled(stop)
        try:
            memory = load.result()
        except LoadFault as fault:
            self._log.error(str(fault))
            self._log.error("Engine core initialization failed. See root cause above.")
            return 1
        batch = Batch(
            self._split,
            self._config.max_num_seqs,
            memory.kv_tokens,
            self._config.speed_scale,
            (model_at(self._config.model_path) or LARGE).weights_bytes / LARGE.weights_bytes,
        )
        self._batch = batch
        naps = Naps(self._rig, memory, batch, self._config.card_count, self._config.load_scale)
        await self._serve(listener, batch, naps)
        return 0

    async def _serve(self, listener: socket.socket, batch: Batch, naps: Naps) -> None:
        endpoints = Endpoints(self._config, batch, self._key, naps)

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
            await _converse(endpoints, reader, writer)

        url = f"http://{self._config.host}:{self._config.port}"
        self._log.phase(Phase.LISTEN, f"Starting demo server on {url}")
        server = await asyncio.start_server(connected, sock=listener, limit=MAX_HEADER_BYTES)
        tasks = [
            asyncio.create_task(job)
            for job in (batch.run(), self._statistics(batch), self._break(batch))
        ]
        self._log.phase(Phase.SERVE, "Application startup complete.")
        try:
            await self._stop.wait()
            self._log.phase(Phase.STOP, "Shutting down")
        finally:
            server.close()
            batch.abort_all(failed=self._crashed)
            await self._drain()
            await _cancelled(*tasks)
        self._log.phase(Phase.STOP, "Application shutdown complete.")

    async def _drain(self) -> None:
        """Let running answers say their last words, then close what is still open."""
        if self._connections:
            await asyncio.wait(self._connections, timeout=DRAIN_S / 2)
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=DRAIN_S / 2)

    async def _break(self, batch: Batch) -> None:
        """The fault that the configuration asks for, after a while of service."""
        if self._config.fault not in ("crash", "hang"):
            return
        await asyncio.sleep(self._config.fault_after_s)
        if self._config.fault == "hang":
            batch.stalled = True
            return
        self._log.error(
            "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor."
        )
        self._crashed = True
        self._stop.set()

    async def _statistics(self, batch: Batch) -> None:
        """The periodic line; silent after one idle interval, as with vLLM."""
        last, idle = (0, 0), False
        while True:
            await asyncio.sleep(STATISTICS_S)
            now = (batch.counters.prompt_tokens, batch.counters.generation_tokens)
            prompt, generation = ((b - a) / STATISTICS_S for a, b in zip(last, now, strict=True))
            was_idle, idle = idle, now == last and not batch.running
            last = now
            if not (idle and was_idle):
                self._log.phase(
                    Phase.SERVE,
                    f"Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation "
                    f"throughput: {generation:.1f} tokens/s, Running: {batch.running} reqs, "
                    f"Waiting: {batch.waiting} reqs, GPU KV cache usage: {batch.kv_usage:.1%}",
                )

    async def _publish(self) -> None:
        """Tell the simulated cards what the engine does."""
        if not self._config.load_file:
            return
        path = Path(self._config.load_file)
        last_s = time.monotonic()
        while True:
            await asyncio.sleep(PUBLISH_S)
            now_s = time.monotonic()
            write_load(path, self._load_now(now_s, now_s - last_s))
            last_s = now_s

    def _load_now(self, now_s: float, elapsed_s: float) -> DemoLoad:
        loading = self._rig.loading_percent
        percent = (loading, loading if self._config.card_count > 1 else 0.0)
        if self._batch is not None:
            first, second = self._batch.take_busy()
            percent = (min(99.0, first / elapsed_s), min(99.0, second / elapsed_s))
        if not any(percent):
            self._busy_since_s = now_s
        return DemoLoad(
            at_s=time.time(),
            pid=os.getpid(),
            used_bytes=self._rig.used_bytes,
            busy_percent=percent,
            alternating=self._split is Split.LAYER and self._batch is not None and any(percent),
            busy_s=now_s - self._busy_since_s,
            run_id=self._run_id,
            port=self._config.port,
        )


async def _converse(
    endpoints: Endpoints, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """All requests of one connection; a client that vanishes ends it silently."""
    async with _closing(writer):
        keep_alive = True
        while keep_alive:
            reply = Reply(reader, writer, keep_alive=False)
            try:
                request = await read_request(reader)
                if request is None:
                    return
                reply.keep_alive = keep_alive = request.keep_alive
                await endpoints.answer(request, reply)
            except HttpFault as fault:
                keep_alive = reply.keep_alive
                await reply.send_json(fault.status, fault.body)


@contextlib.asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    except (ConnectionError, asyncio.CancelledError):
        # Cancelled only by the server's own stop: the task ends here either way.
        pass
    finally:
        writer.close()


async def _cancelled(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _on_signals(stop: Callable[[], None]) -> None:
    """SIGTERM and SIGINT (and Ctrl-Break on Windows) call ``stop`` in the event loop."""
    loop = asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
        number = getattr(signal, name, None)
        if number is None:
            continue
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
