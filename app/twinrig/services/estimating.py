"""From a profile and the cards of a target to settings of an estimate, and to measurements."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from twinrig.domain.errors import GpuUnavailableError, TwinrigError
from twinrig.domain.gpu import GpuInfo, GpuSample
from twinrig.domain.memory import GIB, Card, Measurement
from twinrig.domain.ports import Clock, GpuProbe, Host
from twinrig.domain.profile import Profile
from twinrig.domain.server import ACTIVE_STATES, ServerState
from twinrig.engines.base import Engine
from twinrig.services.calibration import (
    CalibrationStore,
    machine_key,
    make_measurement,
    settings_key,
)
from twinrig.services.controller import ServerController
from twinrig.services.gpu_holders import read_holders
from twinrig.services.profile_store import ProfileStore
from twinrig.services.sized_models import read_sized_model
from twinrig.sizing.estimate import SizedModel
from twinrig.sizing.start_log import read_start

WSL_RESERVE_BYTES = int(1.3 * GIB)
SAFE_RESERVE_BYTES = 2 * GIB
NATIVE_RESERVE_BYTES = GIB // 2


class Estimating:
    """Facts for estimates on one target: cards, models, measurements."""

    def __init__(
        self,
        host: Host,
        open_gpu_probe: Callable[[], GpuProbe],
        controller: ServerController,
        clock: Clock,
        store: CalibrationStore,
        on_wsl: bool,
        engines: Mapping[str, Engine],
    ) -> None:
        self._host = host
        self._open_probe = open_gpu_probe
        self._controller = controller
        self._clock = clock
        self.store = store
        self.on_wsl = on_wsl
        self.engines = engines

    async def model(self, path: str) -> SizedModel:
        """What is known of a model folder. Raises UsageError and UnsizableError."""
        folder = path
        if path == "~" or path.startswith("~/"):
            folder = (await self._host.home()).rstrip("/") + path[1:]
        return await read_sized_model(self._host, folder)

    async def gpus(self) -> tuple[tuple[GpuInfo, ...], tuple[GpuSample, ...]]:
        """Cards and one reading of them; empty when there is no driver."""
        return await asyncio.to_thread(self._read_gpus)

    def _read_gpus(self) -> tuple[tuple[GpuInfo, ...], tuple[GpuSample, ...]]:
        try:
            probe = self._open_probe()
        except GpuUnavailableError:
            return (), ()
        try:
            return probe.devices(), probe.sample()
        except GpuUnavailableError:
            return (), ()
        finally:
            probe.close()

    async def cards(self) -> tuple[tuple[Card, ...], str]:
        """This target's cards with what is free and who holds the rest, and the machine's key.

        While our own server runs nothing is measured: what it holds is free when it restarts.
        """
        gpus, samples = await self.gpus()
        record = await self._controller.active_record()
        if record is not None and record.state in ACTIVE_STATES:
            samples = ()
        holders = await read_holders(self._host) if samples else {}
        return cards_of(gpus, samples, holders), machine_key(gpus)

    @property
    def reserve_bytes(self) -> int:
        """Kept free on a card whose free memory is not measured."""
        return WSL_RESERVE_BYTES if self.on_wsl else NATIVE_RESERVE_BYTES

    async def collect(self, profiles: ProfileStore) -> Measurement | None:
        """Measure the server that is ready now, unless this start was measured already.

        A profile that was edited since the start tells nothing about it.
        """
        record = await self._controller.active_record()
        if record is None or record.state is not ServerState.READY:
            return None
        started_s = record.started_at_s or 0.0
        profile = await asyncio.to_thread(_unchanged, profiles, record.profile_id, started_s)
        if profile is None:
            return None
        gpus, samples = await self.gpus()
        base = Measurement(
            machine_key(gpus),
            profile.engine.id,
            profile.engine.version,
            profile.model.path,
            self._clock.now(),
            used_bytes=tuple(s.memory_used_bytes or 0 for s in samples),
            settings_key=settings_key(profile.settings),
        )
        known = self.store.like(base)
        if known is not None and known.taken_at_s >= (record.ready_at_s or started_s):
            return None
        text = await asyncio.to_thread(self._log_of, record.profile_id)
        figures = read_start(text.splitlines())
        found = make_measurement(figures, base, self._budget(profile, gpus))
        return found if found is not None and self.store.add(found) else None

    def _budget(self, profile: Profile, gpus: Sequence[GpuInfo]) -> int | None:
        """What the smallest card gave to the server; None when it was given no share."""
        totals = [g.memory_total_bytes for g in gpus if g.memory_total_bytes]
        engine = self.engines.get(profile.engine.id)
        share = engine.sizing(profile, ()).utilization if engine is not None else None
        return int(min(totals) * share) if totals and share is not None else None

    def _log_of(self, profile_id: str) -> str:
        return self._controller.read_log(profile_id, limit_bytes=4 * 2**20).text


def _unchanged(profiles: ProfileStore, profile_id: str, since_s: float) -> Profile | None:
    """The profile as it was when its server started, None when that is not known."""
    try:
        if profiles.path(profile_id).stat().st_mtime > since_s:
            return None
        return profiles.load(profile_id)
    except (TwinrigError, OSError):
        return None


def cards_of(
    gpus: Sequence[GpuInfo],
    samples: Sequence[GpuSample],
    holders: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[Card, ...]:
    """Cards with what is free now; without a reading the free memory is not known.

    ``holders`` are programs by the card's uuid, see ``read_holders``.
    """
    programs = holders or {}
    readings = {sample.uuid: sample for sample in samples}
    found = []
    for gpu in gpus:
        sample = readings.get(gpu.uuid)
        total = gpu.memory_total_bytes or (sample.memory_total_bytes if sample else None)
        if not total:
            continue
        used = sample.memory_used_bytes if sample is not None else None
        free = None
        if used is not None:
            free = max(0, total - used)
        found.append(Card(total, free, gpu.name, holders=programs.get(gpu.uuid, ())))
    return tuple(found)


def calibration_path(root: Path) -> Path:
    """File of the measurements of a target, below its state folder."""
    return root / "calibration.json"
