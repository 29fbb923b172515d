"""vLLM as an engine: option table, validation, launch, log phases and metrics behind one face."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from twinrig.domain.errors import FieldError, ProfileError
from twinrig.domain.install import EngineInstall, InstallLayout
from twinrig.domain.launch import LaunchSpec
from twinrig.domain.memory import Card, SizingRules, SizingSettings
from twinrig.domain.metrics import EngineMetrics, ServerSetup
from twinrig.domain.options import Option, SettingValue
from twinrig.domain.profile import EnvEntry, Profile
from twinrig.engines.adopting import Adopted, ForeignCommand
from twinrig.engines.base import LogMeter, PhaseEvent, RenderContext
from twinrig.engines.option_table import parse_options, rows_for
from twinrig.engines.vllm_adoption import adopt, adoption_reads
from twinrig.engines.vllm_defaults import default_environment, default_settings
from twinrig.engines.vllm_launch import launch_spec
from twinrig.engines.vllm_log import vllm_phase_of
from twinrig.engines.vllm_metrics import parse_vllm_metrics
from twinrig.engines.vllm_network_rules import UNGUARDED_PATHS
from twinrig.engines.vllm_sizing import vllm_sizing
from twinrig.engines.vllm_validation import validate_profile
from twinrig.messages import message

TABLE = "engines/vllm.yaml"


class VllmEngine:
    """vLLM 0.10.2 and later, started as ``vllm serve --config FILE``."""

    id = "vllm"
    name = "vLLM"
    layout = InstallLayout("vllm", "vllm", usual_place="~/venvs/vllm", native=("vllm._C",))
    simulated = False
    unguarded_paths = UNGUARDED_PATHS
    default_port = 8000
    sizing_rules = SizingRules.VLLM
    trial: Mapping[str, SettingValue] = MappingProxyType(
        {
            "context_length": 256,
            "max_num_seqs": 2,
            "gpu_memory_utilization": 0.15,
            "enforce_eager": True,
        }
    )

    def __init__(self, table_text: str) -> None:
        self._table = parse_options(table_text, TABLE)

    def options(self, version: str = "") -> tuple[Option, ...]:
        """Rows that ``version`` knows ("" or unparsable = all)."""
        return rows_for(self._table, version)

    def defaults(self, *, gpu_count: int, on_wsl: bool, version: str) -> Mapping[str, SettingValue]:
        """Settings of a new profile, for so many cards."""
        known = {option.id for option in self.options(version)}
        settings = default_settings(gpu_count=gpu_count, on_wsl=on_wsl)
        return {name: value for name, value in settings.items() if name in known}

    def default_env(self, *, gpu_count: int, on_wsl: bool, version: str) -> Mapping[str, EnvEntry]:
        """Environment of a new profile; each entry carries its reason."""
        return default_environment(gpu_count=gpu_count, on_wsl=on_wsl, version=version)

    def validate(self, profile: Profile) -> tuple[FieldError, ...]:
        """All faults of the profile at once, cross-field rules included."""
        return validate_profile(profile, self._table)

    def loads(self, quantization: str) -> bool:
        """All but exllamav3's own format (quantisations of 0.33 as read)."""
        return not quantization.startswith("exl3")

    def sizing(self, profile: Profile, cards: tuple[Card, ...]) -> SizingSettings:
        """The profile as settings of an estimate."""
        return vllm_sizing(profile.settings, profile.engine.version, cards)

    def setup(self, profile: Profile) -> ServerSetup:
        """Its settings carry these very names."""
        return ServerSetup.from_sizes(profile.settings)

    def reads(self, profile: Profile, install: EngineInstall) -> tuple[str, ...]:
        """Nothing: its file is written anew for each start."""
        return ()

    def render(self, profile: Profile, context: RenderContext) -> tuple[LaunchSpec, ...]:
        """Exact file, argv and environment. Raises ProfileError when the profile has faults.

        The version that counts is the installed one; the profile's note of it may be old.
        """
        version = context.install.version or profile.engine.version
        current = replace(profile, engine=replace(profile.engine, version=version))
        faults = list(self.validate(current))
        if not context.install.executable.startswith("/"):
            faults.append(
                FieldError(
                    "engine.environment",
                    message("holds no vLLM program; choose the environment that vLLM is in"),
                )
            )
        if profile.network.key_name and not context.key:
            faults.append(
                FieldError(
                    "network.key_name", message("names a key that is not stored; enter it again")
                )
            )
        if faults:
            raise ProfileError(profile.name, faults)
        return (launch_spec(current, self.options(version), context),)

    def phase_of(self, line: str) -> PhaseEvent | None:
        """The phase that this log line tells, if any."""
        return vllm_phase_of(line)

    def parse_metrics(self, text: str) -> EngineMetrics:
        """Body of ``/metrics``; unknown or damaged lines are skipped."""
        return parse_vllm_metrics(text)

    def adoption_reads(self, command: ForeignCommand) -> tuple[str, ...] | None:
        """Files to read before ``adopt``; None when the command is of another program."""
        return adoption_reads(command)

    def adopt(self, command: ForeignCommand, files: Mapping[str, str | None]) -> Adopted | None:
        """The same server as a profile."""
        return adopt(command, files, self._table)

    def log_meter(self) -> LogMeter | None:
        """None: ``/metrics`` counts every engine step."""
        return None
