"""tabbyAPI with exllamav3 as an engine: a checkout that is run in place by its own Python.

Its version here is exllamav3's, which decides what works; tabbyAPI itself has none. Settings go
into its ``config.yml``, a key into ``api_tokens.yml``, sampler defaults into a preset of their own.
"""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from twinrig.domain.errors import FieldError, ProfileError
from twinrig.domain.install import EngineInstall, InstallLayout
from twinrig.domain.launch import LaunchSpec
from twinrig.domain.memory import Card, SizingRules, SizingSettings
from twinrig.domain.metrics import EngineMetrics, ServerSetup
from twinrig.domain.options import Option, SettingValue
from twinrig.domain.profile import EnvEntry, Profile
from twinrig.engines import tabbyapi_config as config
from twinrig.engines.adopting import Adopted, ForeignCommand
from twinrig.engines.base import LogMeter, PhaseEvent, RenderContext
from twinrig.engines.option_table import parse_options, rows_for
from twinrig.engines.tabbyapi_adoption import adopt, adoption_reads
from twinrig.engines.tabbyapi_launch import (
    CONFIG_FILE,
    MODEL_FILE,
    SCHEMA_FILE,
    TOKENS_FILE,
    access,
    launch_spec,
)
from twinrig.engines.tabbyapi_log import TabbyMeter, tabby_phase_of
from twinrig.engines.tabbyapi_sizing import tabbyapi_sizing
from twinrig.engines.tabbyapi_validation import ALLOCATOR_VARIABLES, validate_profile
from twinrig.messages import N_, message

TABLE = "engines/tabbyapi.yaml"


class TabbyApiEngine:
    """tabbyAPI since August 2025 (exllamav3 0.0.6), started as ``python main.py``."""

    id = "tabbyapi"
    name = "tabbyAPI"
    layout = InstallLayout(
        "exllamav3",
        "python",
        checkout=("main.py", "common/config_models.py", "backends/exllamav3"),
        usual_place="~/tabbyAPI",
        native=("exllamav3_ext",),
    )
    simulated = False
    unguarded_paths = ("/health", "/.well-known/serviceinfo", "/docs", "/redoc", "/openapi.json")
    default_port = 5000
    sizing_rules = SizingRules.EXL3
    trial: Mapping[str, SettingValue] = MappingProxyType(
        {
            "context_length": 1024,
            "cache_tokens": 1024,
            "max_batch_size": 1,
            "draft_mode": "disabled",
            "cuda_malloc_async": False,
        }
    )

    def __init__(
        self, table_text: str, new_key: Callable[[], str] = lambda: secrets.token_hex(16)
    ) -> None:
        self._table = parse_options(table_text, TABLE)
        self._new_key = new_key

    def options(self, version: str = "") -> tuple[Option, ...]:
        """Rows that ``version`` of exllamav3 knows ("" or unparsable = all)."""
        return rows_for(self._table, version)

    def defaults(self, *, gpu_count: int, on_wsl: bool, version: str) -> Mapping[str, SettingValue]:
        """Both cards together with equal shares, a modest context, an 8-bit cache."""
        known = {option.id for option in self.options(version)}
        settings: dict[str, SettingValue] = {
            "context_length": 16384,
            "cache_tokens": 16384,
            "cache_mode": "8,8",
            "max_batch_size": 4,
            "tensor_parallel": gpu_count > 1,
            "draft_mode": "disabled",
            "cuda_malloc_async": False,
        }
        if gpu_count > 1:
            settings["tensor_parallel_backend"] = "nccl" if on_wsl else "native"
            settings["gpu_split"] = ("10",) * gpu_count
        return {name: value for name, value in settings.items() if name in known}

    def default_env(self, *, gpu_count: int, on_wsl: bool, version: str) -> Mapping[str, EnvEntry]:
        """Nothing on native Linux; on WSL2 what keeps NCCL from paths that do not exist there."""
        if not on_wsl or gpu_count < 2:
            return {}
        return {
            "NCCL_P2P_DISABLE": EnvEntry(
                "1", N_("Under WSL2 the cards cannot reach each other's memory directly.")
            ),
            "NCCL_SOCKET_IFNAME": EnvEntry(
                "lo", N_("Both cards are in one machine, so NCCL needs no other interface.")
            ),
        }

    def validate(self, profile: Profile) -> tuple[FieldError, ...]:
        """All faults of the profile at once, cross-field rules included."""
        return validate_profile(profile, self._table)

    def loads(self, quantization: str) -> bool:
        """EXL3, and folders that are not quantised."""
        return not quantization or quantization.startswith("exl3")

    def sizing(self, profile: Profile, cards: tuple[Card, ...]) -> SizingSettings:
        """The profile as settings of an estimate."""
        return tabbyapi_sizing(self.id, profile.settings, profile.engine.version, cards)

    def setup(self, profile: Profile) -> ServerSetup:
        """Without tensor parallel nobody knows before the load over how many cards it spreads."""
        split = profile.settings.get("gpu_split")
        cards = max(2, len(split)) if isinstance(split, tuple) else 2
        slots = profile.settings.get("max_batch_size")
        together = profile.settings.get("tensor_parallel") is True
        return ServerSetup(
            tensor_parallel_size=cards if together else 1,
            pipeline_parallel_size=1 if together else None,
            max_num_seqs=slots if isinstance(slots, int) and not isinstance(slots, bool) else None,
            split_setting="tensor_parallel",
            context_setting="cache_tokens",
            slots_setting="max_batch_size",
            pool_setting="cache_tokens",
        )

    def reads(self, profile: Profile, install: EngineInstall) -> tuple[str, ...]:
        """Its configuration and keys, its schema, and what the model's folder overrules."""
        if not install.folder:
            return ()
        names = (CONFIG_FILE, TOKENS_FILE, SCHEMA_FILE)
        own = tuple(posixpath.join(install.folder, name) for name in names)
        return (*own, posixpath.join(profile.model.path, MODEL_FILE))

    def render(self, profile: Profile, context: RenderContext) -> tuple[LaunchSpec, ...]:
        """Exact files, argv and environment. Raises ProfileError when the profile has faults,
        ConfigRefusedError for a ``config.yml`` that cannot be edited safely."""
        version = context.install.version or profile.engine.version
        current = replace(profile, engine=replace(profile.engine, version=version))
        faults = [*self.validate(current), *_install_faults(current, context)]
        if faults:
            raise ProfileError(profile.name, faults)
        table = self.options(version)
        doors = access(current, context, self._new_key)
        wanted = config.wanted_values(current, table, doors.disable_auth)
        faults = list(_file_faults(current, context, wanted, table))
        if faults:
            raise ProfileError(profile.name, faults)
        return (launch_spec(current, context, table, wanted, doors),)

    def phase_of(self, line: str) -> PhaseEvent | None:
        """The phase that this log line tells, if any."""
        return tabby_phase_of(line)

    def parse_metrics(self, text: str) -> EngineMetrics:
        """Nothing: tabbyAPI has no metrics endpoint; see ``log_meter``."""
        return EngineMetrics()

    def adoption_reads(self, command: ForeignCommand) -> tuple[str, ...] | None:
        """Files to read before ``adopt``; None when the command is of another program."""
        return adoption_reads(command)

    def adopt(self, command: ForeignCommand, files: Mapping[str, str | None]) -> Adopted | None:
        """The same server as a profile."""
        return adopt(command, files, self._table)

    def log_meter(self) -> LogMeter | None:
        """Adds up the line at the end of each request."""
        return TabbyMeter()


def _install_faults(profile: Profile, context: RenderContext) -> Iterator[FieldError]:
    install = context.install
    if not install.executable.startswith("/") or not install.folder.startswith("/"):
        yield FieldError(
            "engine.environment",
            message("holds no tabbyAPI; choose its folder, which has a venv with exllamav3 in it"),
        )
    if profile.network.key_name and not context.key:
        yield FieldError(
            "network.key_name", message("names a key that is not stored; enter it again")
        )


def _file_faults(
    profile: Profile, context: RenderContext, wanted: config.Values, table: tuple[Option, ...]
) -> Iterator[FieldError]:
    """What only the files of this checkout and this model can tell."""
    folder = context.install.folder
    known = config.known_keys(context.files.get(posixpath.join(folder, SCHEMA_FILE)) or "")
    yield from config.unknown_wanted(wanted, known, table)
    if known and "cuda_malloc_async" not in known.get("memory", frozenset()):
        for name in ALLOCATOR_VARIABLES:
            if name in profile.env:
                yield FieldError(
                    f"env.{name}",
                    message("is always overwritten by this tabbyAPI; update tabbyAPI"),
                )
    path = posixpath.join(profile.model.path, MODEL_FILE)
    yield from config.overruled(context.files.get(path), wanted, table, path)
