"""Everything one target offers, wired: what command line and panel are given to work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from twinrig.domain.ports import Clock, GpuProbe, Host, HttpClient, Lock, SecretStore, WslDistros
from twinrig.domain.supervision import StateLayout
from twinrig.domain.windows import WindowsCounters
from twinrig.engines.base import Engine
from twinrig.services.bench_store import BenchmarkStore
from twinrig.services.calibration import CalibrationStore
from twinrig.services.collective import CollectiveProgram
from twinrig.services.context_cost import kv_bytes_per_token
from twinrig.services.controller import ServerController
from twinrig.services.engine_setup import EngineSetup
from twinrig.services.estimating import Estimating, calibration_path
from twinrig.services.fixer import Fixer
from twinrig.services.gpu_sampler import GpuSampler
from twinrig.services.history_store import HistoryStore
from twinrig.services.hub import Hub
from twinrig.services.installs import EngineFinder
from twinrig.services.journal import Journal
from twinrig.services.lan import LanSharing
from twinrig.services.last_good import LastGood
from twinrig.services.models import ModelLibrary
from twinrig.services.monitor import Monitor
from twinrig.services.nccl_candidates import CandidateTable
from twinrig.services.persistence import PersistenceProof
from twinrig.services.preflight import Preflight
from twinrig.services.profile_store import ProfileStore
from twinrig.services.switching import Switching


@dataclass(frozen=True)
class Workbench:
    """One target. ``label`` is a marked sentence; ``demo`` data must be labelled with it.

    ``open_lock`` gives a new lock of the target's own.
    ``open_counters``: Windows' own counters of graphics memory, where the target has them.
    ``distro``: the distribution of WSL that was asked for, "" = its default one; ``distros``: all.
    """

    target: str
    label: str
    demo: bool
    on_wsl: bool
    host: Host
    open_gpu_probe: Callable[[], GpuProbe]
    http: HttpClient
    engines: Mapping[str, Engine]
    profiles: ProfileStore
    models: ModelLibrary
    installs: EngineFinder
    preflight: Preflight
    fixer: Fixer
    journal: Journal
    controller: ServerController
    secrets: SecretStore
    layout: StateLayout
    clock: Clock
    service_kind: str
    collective: CollectiveProgram
    candidates: Mapping[str, CandidateTable]
    setup: EngineSetup
    hub: Hub
    open_lock: Callable[[], Lock]
    open_counters: Callable[[], WindowsCounters] | None = None
    distro: str = ""
    quiet_host: Host | None = None
    distros: WslDistros | None = None

    @property
    def onlooker(self) -> Host:
        """The host for whoever only looks: it never starts a machine, HostError tells it sleeps."""
        return self.quiet_host or self.host

    def history_store(self) -> HistoryStore:
        """Minutes and events of this target, on disk."""
        return HistoryStore(self.layout.root / "history.sqlite3")

    def benchmark_store(self) -> BenchmarkStore:
        """Results of benchmarks on this target."""
        return BenchmarkStore(self.layout.root / "benchmarks.json")

    def persistence(self) -> PersistenceProof:
        """Proves that a server stays when it is left alone."""
        return PersistenceProof(self.controller, self.clock, self.service_kind, self.quiet_host)

    def lan(self) -> LanSharing:
        """Sharing servers with other devices."""
        return LanSharing(self.preflight, self.http, self.engines, self.journal)

    def last_good(self) -> LastGood:
        """Settings of each profile's last start that was proven."""
        return LastGood(self.layout, self.profiles)

    def switching(self) -> Switching:
        """From one profile's server to another's, and restarts that may go back."""
        return Switching(self.controller, self.profiles, self.last_good(), self.target)

    def monitor(self, interval_s: float = 1.0, *, detailed: bool = False) -> Monitor:
        """A new monitor with a sampler of its own; read it by one consumer.

        ``detailed``: with PCIe traffic and energy, which cost much more than the rest.
        """
        sampler = GpuSampler(
            self.open_gpu_probe, self.clock, interval_s, self.open_counters, detailed
        )
        facts = self.estimating(self.onlooker)
        return Monitor(
            sampler,
            self.controller,
            self.http,
            self.engines,
            self.clock,
            self.demo,
            interval_s,
            self.profiles.load,
            lambda profile: kv_bytes_per_token(facts, profile),
        )

    def estimating(self, host: Host | None = None) -> Estimating:
        """Facts for estimates: cards, models, and what earlier starts showed."""
        return Estimating(
            host or self.host,
            self.open_gpu_probe,
            self.controller,
            self.clock,
            CalibrationStore(calibration_path(self.layout.root)),
            self.on_wsl,
            self.engines,
        )
