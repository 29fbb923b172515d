"""From a profile and the cards of a target to settings of an estimate, and to measurements."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from twinrig.domain.errors import GpuUnavailableError, TwinrigError
from twinrig.domain.gpu import GpuInfo, GpuSample
from twinrig.domain.memory import GIB, Card, Measurement, SizingSettings
from twinrig.domain.options import SettingValue
from twinrig.domain.ports import Clock, GpuProbe, Host
from twinrig.domain.profile import Profile
from twinrig.domain.server import ServerState
from twinrig.services.calibration import (
    CalibrationStore,
    machine_key,
    make_measurement,
    settings_key,
)
from twinrig.services.controller import ServerController
from twinrig.services.sized_models import read_sized_model
from twinrig.sizing.estimate import SizedModel
from twinrig.sizing.start_log import read_start

WSL_RESERVE_BYTES = int(1.3 * GIB)
SAFE_RESERVE_BYTES = 2 * GIB
NATIVE_RESERVE_BYTES = GIB // 2
VLLM_DEFAULT_SHARE = 0.92
"""vLLM's own default share, as read in 0.32."""


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
    ) -> None:
        self._host = host
        self._open_probe = open_gpu_probe
        self._controller = controller
        self._clock = clock
        self.store = store
        self.on_wsl = on_wsl

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

    @property
    def reserve_bytes(self) -> int:
        """Kept free on a card whose free memory is not measured."""
        return WSL_RESERVE_BYTES if self.on_wsl else NATIVE_RESERVE_BYTES

    async def collect(self, load: Callable[[str], Profile]) -> Measurement | None:
        """Measure the server that is ready now, if it was not measured before."""
        record = await self._controller.active_record()
        if record is None or record.state is not ServerState.READY:
            return None
        try:
            profile = load(record.profile_id)
        except TwinrigError:
            return None
        gpus, samples = await self.gpus()
        version = profile.engine.version
        key = settings_key(profile.settings)
        base = Measurement(
            machine_key(gpus),
            profile.engine.id,
            version,
            profile.model.path,
            self._clock.now(),
            used_bytes=tuple(s.memory_used_bytes or 0 for s in samples),
            settings_key=key,
        )
        text = await asyncio.to_thread(self._log_of, record.profile_id)
        share = profile.settings.get("gpu_memory_utilization", VLLM_DEFAULT_SHARE)
        totals = [g.memory_total_bytes for g in gpus if g.memory_total_bytes]
        budget = None
        fixed = "kv_cache_memory_bytes" in profile.settings
        if totals and isinstance(share, (int, float)) and not fixed:
            budget = int(min(totals) * share)
        found = make_measurement(read_start(text.splitlines()), base, budget)
        if found is not None and self.store.add(found):
            return found
        return None

    def _log_of(self, profile_id: str) -> str:
        return self._controller.read_log(profile_id, limit_bytes=4 * 2**20).text


def cards_of(
    gpus: Sequence[GpuInfo], samples: Sequence[GpuSample], held_bytes: Mapping[str, int]
) -> tuple[Card, ...]:
    """Cards with what is free for a new server: what our own server holds counts as free."""
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
            free = min(total, total - used + held_bytes.get(gpu.uuid, 0))
        found.append(Card(total, free, gpu.name))
    return tuple(found)


def settings_of(
    profile: Profile,
    cards: tuple[Card, ...],
    *,
    reserve_bytes: int,
    measurement: Measurement | None = None,
) -> SizingSettings:
    """Settings of an estimate for a profile; what it leaves to the engine stays the default."""
    values = profile.settings
    tp = _number(values, "tensor_parallel_size")
    share = values.get("gpu_memory_utilization")
    pool = _number(values, "kv_cache_memory_bytes")
    return SizingSettings(
        engine_id="vllm" if profile.engine.id == "demo" else profile.engine.id,
        engine_version="" if profile.engine.id == "demo" else profile.engine.version,
        cards=cards,
        tensor_parallel=tp,
        pipeline_parallel=_number(values, "pipeline_parallel_size") or 1,
        context_tokens=_number(values, "context_length"),
        kv_dtype=str(values.get("kv_cache_dtype") or "auto"),
        max_num_seqs=_number(values, "max_num_seqs"),
        max_num_batched_tokens=_number(values, "max_num_batched_tokens"),
        draft_tokens=_draft_tokens(values.get("speculative_config")),
        prefix_caching=_flag(values, "enable_prefix_caching"),
        utilization=None if pool else _share(share),
        kv_pool_bytes=pool,
        enforce_eager=bool(values.get("enforce_eager", False)),
        text_only=bool(values.get("language_model_only", False)),
        reserve_bytes=reserve_bytes,
        measurement=measurement,
    )


def _number(values: Mapping[str, SettingValue], name: str) -> int | None:
    value = values.get(name)
    good = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return int(value) if good and isinstance(value, int) else None


def _share(value: SettingValue | None) -> float:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1
    return float(value) if good and isinstance(value, (int, float)) else VLLM_DEFAULT_SHARE


def _flag(values: Mapping[str, SettingValue], name: str) -> bool | None:
    value = values.get(name)
    return value if isinstance(value, bool) else None


def _draft_tokens(text: SettingValue | None) -> int:
    if not isinstance(text, str) or not text.strip():
        return 0
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return 0
    count = found.get("num_speculative_tokens") if isinstance(found, dict) else None
    good = isinstance(count, int) and not isinstance(count, bool) and 0 < count <= 64
    return int(count) if good and isinstance(count, int) else 0


def calibration_path(root: Path) -> Path:
    """File of the measurements of a target, below its state folder."""
    return root / "calibration.json"
