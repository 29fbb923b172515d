"""What every engine must answer. Text in, text out: no file, process or network here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from twinrig.domain.errors import FieldError
from twinrig.domain.install import EngineInstall, InstallLayout
from twinrig.domain.launch import LaunchSpec
from twinrig.domain.memory import Card, SizingRules, SizingSettings
from twinrig.domain.metrics import EngineMetrics, ServerSetup
from twinrig.domain.options import Option, SettingValue
from twinrig.domain.profile import EnvEntry, Profile
from twinrig.domain.server import Phase
from twinrig.engines.adopting import Adopted, ForeignCommand


@dataclass(frozen=True)
class PhaseEvent:
    """A log line that tells a load phase; ``progress`` 0 to 1 where the line has it.

    ``port`` is told by lines in which the server says where it listens or will listen.
    """

    phase: Phase
    progress: float | None = None
    port: int | None = None


@dataclass(frozen=True)
class RenderContext:
    """What rendering needs besides the profile.

    ``run_folder`` is an absolute folder on the target for files; ``on_wsl`` decides the safe
    defaults; ``key`` is the API key or None; ``gpu_uuids`` the cards to use (empty = all).
    ``files`` holds the text of what ``Engine.reads`` names, None for a file that is not there.
    """

    install: EngineInstall
    run_folder: str
    on_wsl: bool = False
    key: str | None = None
    gpu_uuids: tuple[str, ...] = ()
    files: Mapping[str, str | None] = field(default_factory=dict)


class LogMeter(Protocol):
    """Counters of an engine that tells its work in the log only."""

    def feed(self, line: str) -> bool:
        """One more line; True when the counters have changed."""
        ...

    def metrics(self) -> EngineMetrics:
        """What all lines so far amount to."""
        ...


class Engine(Protocol):
    """One server program. A new engine is one module and one registry line."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str:
        """Name to show; a proper name, not translated."""
        ...

    @property
    def layout(self) -> InstallLayout:
        """How the engine is recognised on disk."""
        ...

    @property
    def simulated(self) -> bool:
        """True for an engine that runs on the simulated machine, and only there."""
        ...

    @property
    def unguarded_paths(self) -> tuple[str, ...]:
        """Paths that answer without the key, for whoever opens the server to a network."""
        ...

    @property
    def default_port(self) -> int: ...

    @property
    def trial(self) -> Mapping[str, SettingValue]:
        """Settings with which a tiny model starts soonest, in the least memory."""
        ...

    def options(self, version: str = "") -> tuple[Option, ...]:
        """Rows that ``version`` knows ("" or unparsable = all)."""
        ...

    def defaults(self, *, gpu_count: int, on_wsl: bool, version: str) -> Mapping[str, SettingValue]:
        """Settings of a new profile, for so many cards."""
        ...

    def default_env(self, *, gpu_count: int, on_wsl: bool, version: str) -> Mapping[str, EnvEntry]:
        """Environment of a new profile; each entry carries its reason."""
        ...

    def validate(self, profile: Profile) -> tuple[FieldError, ...]:
        """All faults of the profile's settings at once, cross-field rules included."""
        ...

    @property
    def sizing_rules(self) -> SizingRules:
        """Whose way of using memory an estimate for this engine follows."""
        ...

    def loads(self, quantization: str) -> bool:
        """Whether it can load models of this format ("" = not quantised)."""
        ...

    def sizing(self, profile: Profile, cards: tuple[Card, ...]) -> SizingSettings:
        """The profile as settings of an estimate; what it leaves to the engine stays default."""
        ...

    def setup(self, profile: Profile) -> ServerSetup:
        """How the profile splits the model, in words that hold for every engine."""
        ...

    def reads(self, profile: Profile, install: EngineInstall) -> tuple[str, ...]:
        """Absolute paths of files on the target whose text ``render`` needs."""
        ...

    def render(self, profile: Profile, context: RenderContext) -> tuple[LaunchSpec, ...]:
        """Exact files, argv and environment, one per node. Raises ProfileError when invalid."""
        ...

    def phase_of(self, line: str) -> PhaseEvent | None:
        """The phase that this log line tells, if any; never PROBE or SERVE, which no log proves."""
        ...

    def parse_metrics(self, text: str) -> EngineMetrics:
        """Body of the metrics endpoint; unknown or damaged lines are skipped."""
        ...

    def adoption_reads(self, command: ForeignCommand) -> tuple[str, ...] | None:
        """Files to read before ``adopt``; None when the command is of another program."""
        ...

    def adopt(self, command: ForeignCommand, files: Mapping[str, str | None]) -> Adopted | None:
        """A foreign command in the words of a profile; None when it is of another program."""
        ...

    def log_meter(self) -> LogMeter | None:
        """A fresh meter for one run; None for an engine with a metrics endpoint."""
        ...
