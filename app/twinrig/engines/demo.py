"""The demo engine: a small server of Twinrig's own that looks like a real one from outside.

Its server lives in ``hosts.demo``; what both agree on is the JSON file written here, the phase
marks in the log and the names of the series, and a test starts the one with the other's file.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from twinrig.domain.errors import FieldError, ProfileError
from twinrig.domain.install import EngineInstall, InstallLayout
from twinrig.domain.launch import Endpoint, FileSpec, LaunchSpec, Readiness, SleepWay
from twinrig.domain.memory import Card, SizingRules, SizingSettings
from twinrig.domain.metrics import EngineMetrics, ServerSetup
from twinrig.domain.options import Option, SettingValue
from twinrig.domain.profile import ENV_NAME, EnvEntry, Profile
from twinrig.domain.server import Phase
from twinrig.engines import prometheus
from twinrig.engines.adopting import Adopted, ForeignCommand
from twinrig.engines.base import LogMeter, PhaseEvent, RenderContext
from twinrig.engines.field_rules import check_identity
from twinrig.engines.option_table import parse_options
from twinrig.engines.vllm_sizing import vllm_sizing
from twinrig.messages import N_, Message, message

TABLE = "engines/demo.yaml"
KEY_VARIABLE = "TWINRIG_DEMO_API_KEY"
LOAD_FILE = "demo-load.json"
CARDS = 2
LOWEST_PORT, HIGHEST_PORT = 1024, 65535
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_PHASE_LINE = re.compile(r"\[demo:([a-z]+)\] (?:(\d{1,3})% )?")
_SERIES = {
    "demo:generation_tokens_total": "generation_tokens",
    "demo:prompt_tokens_total": "prompt_tokens",
    "demo:num_requests_running": "requests_running",
    "demo:num_requests_waiting": "requests_waiting",
    "demo:kv_cache_usage_ratio": "kv_cache_usage",
    "process_start_time_seconds": "process_start_s",
}
_PHASES = frozenset(phase.value for phase in Phase)
_KV_SIZE = "demo:kv_cache_size_tokens"


class DemoEngine:
    """Runs on the demo rig, without a card and without a model."""

    id = "demo"
    name = "Demo engine"
    layout = InstallLayout("")
    simulated = True
    unguarded_paths = ("/health", "/metrics")
    default_port = 18080
    sizing_rules = SizingRules.VLLM
    trial: Mapping[str, SettingValue] = MappingProxyType({})

    def __init__(self, table_text: str) -> None:
        self._table = parse_options(table_text, TABLE)

    def options(self, version: str = "") -> tuple[Option, ...]:
        """All rows: engine and Twinrig always have the same version."""
        return self._table

    def defaults(self, *, gpu_count: int, on_wsl: bool, version: str) -> Mapping[str, SettingValue]:
        """Both simulated cards under tensor parallel, with a context that fits."""
        return {
            "context_length": 32768,
            "tensor_parallel_size": min(max(gpu_count, 1), CARDS),
            "gpu_memory_utilization": 0.88,
            "max_num_seqs": 8,
        }

    def default_env(self, *, gpu_count: int, on_wsl: bool, version: str) -> Mapping[str, EnvEntry]:
        """The setting that many people copy, and that needs a kernel setting to work."""
        reason = N_("Workers share memory by file descriptor; the demo rig shows what that needs.")
        return {"PYTORCH_CUDA_ALLOC_CONF": EnvEntry("expandable_segments:True", reason)}

    def validate(self, profile: Profile) -> tuple[FieldError, ...]:
        """All faults at once, in the order of the form."""
        return (
            *check_identity(profile),
            *_setting_faults(profile, {option.id: option for option in self._table}),
            *_network_faults(profile),
            *_other_faults(profile),
        )

    def loads(self, quantization: str) -> bool:
        """What vLLM loads, which it plays."""
        return not quantization.startswith("exl3")

    def sizing(self, profile: Profile, cards: tuple[Card, ...]) -> SizingSettings:
        """As for vLLM, whose settings it has, without a version of it."""
        return vllm_sizing(profile.settings, "", cards)

    def setup(self, profile: Profile) -> ServerSetup:
        """Its settings carry these very names."""
        return ServerSetup.from_sizes(profile.settings)

    def reads(self, profile: Profile, install: EngineInstall) -> tuple[str, ...]:
        """Nothing: its file is written anew for each start."""
        return ()

    def render(self, profile: Profile, context: RenderContext) -> tuple[LaunchSpec, ...]:
        """One JSON file, and Python itself as the program. Raises ProfileError when invalid."""
        faults = list(self.validate(profile))
        if not context.install.executable:
            faults.append(FieldError("engine", message("holds no program to start")))
        if profile.network.key_name and not context.key:
            faults.append(
                FieldError(
                    "network.key_name", message("names a key that is not stored; enter it again")
                )
            )
        if faults:
            raise ProfileError(profile.name, faults)
        folder = context.run_folder.replace("\\", "/")
        path = posixpath.join(folder, f"demo-{profile.id}.json")
        env = {name: entry.value for name, entry in profile.env.items()}
        if context.key:
            env[KEY_VARIABLE] = context.key
        return (
            LaunchSpec(
                node_id=profile.nodes[0],
                argv=(context.install.executable, "-m", "twinrig", "demo-server", "--config", path),
                env=env,
                files=(FileSpec(path, self._config_text(profile, folder)),),
                endpoint=Endpoint(profile.network.host, profile.network.port),
                readiness=_readiness(served_name(profile)),
                model_id=served_name(profile),
                secret_env=(KEY_VARIABLE,) if context.key else (),
                stop_timeout_s=10.0,
                bearer_token=context.key,
                sleep=SleepWay("/sleep", "/wake_up"),
            ),
        )

    def phase_of(self, line: str) -> PhaseEvent | None:
        """Lines are marked ``[demo:PHASE]``, with a percentage where there is progress."""
        found = _PHASE_LINE.search(line)
        if found is None or found[1] not in _PHASES:
            return None
        return PhaseEvent(Phase(found[1]), None if found[2] is None else int(found[2]) / 100)

    def parse_metrics(self, text: str) -> EngineMetrics:
        """Counters and gauges; what is not served stays None."""
        values = prometheus.collect(text, frozenset({*_SERIES, _KV_SIZE}))
        size = values.get(_KV_SIZE)
        counters = {field: values[name][-1] for name, field in _SERIES.items() if name in values}
        if size:
            counters["kv_cache_size_tokens"] = size[-1]
        return EngineMetrics.from_counters(counters)

    def adoption_reads(self, command: ForeignCommand) -> tuple[str, ...] | None:
        """None: nobody else starts a demo server."""
        return None

    def adopt(self, command: ForeignCommand, files: Mapping[str, str | None]) -> Adopted | None:
        """None: nobody else starts a demo server."""
        return None

    def log_meter(self) -> LogMeter | None:
        """None: it has a metrics endpoint."""
        return None

    def _config_text(self, profile: Profile, folder: str) -> str:
        values: dict[str, object] = {
            "host": profile.network.host,
            "port": profile.network.port,
            "model_path": profile.model.path,
            "served_name": served_name(profile),
            "load_file": posixpath.join(folder, LOAD_FILE),
        }
        for option in self._table:
            if option.id in profile.settings:
                values[option.engine_key], _ = option.check(profile.settings[option.id])
        return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def served_name(profile: Profile) -> str:
    """Name that clients use: the chosen one, else the folder's."""
    return profile.model.served_name or posixpath.basename(profile.model.path.rstrip("/"))


def _readiness(model_id: str) -> Readiness:
    return Readiness(
        path="/health",
        completion_path="/v1/completions",
        completion_body={
            "model": model_id,
            "prompt": "Hello",
            "max_tokens": 8,
            "temperature": 1.0,
            "top_k": 20,
            "top_p": 0.95,
            "repetition_penalty": 1.1,
            "stream": False,
        },
        first_timeout_s=60.0,
        later_timeout_s=30.0,
        load_timeout_s=1200.0,
    )


def _setting_faults(profile: Profile, table: Mapping[str, Option]) -> Iterator[FieldError]:
    sizes = 1
    for name, value in profile.settings.items():
        option = table.get(name)
        if option is None:
            fault: Message | None = message(
                "the demo engine has no setting {name}; remove it", name=name
            )
        else:
            converted, fault = option.check(value)
            if name.endswith("_parallel_size") and isinstance(converted, int):
                sizes *= converted
        if fault is not None:
            yield FieldError(f"settings.{name}", fault)
    if sizes > CARDS:
        yield FieldError(
            "settings.pipeline_parallel_size",
            message(
                "asks for {wanted} cards together with tensor_parallel_size; the demo rig has"
                " {shown}",
                wanted=sizes,
                shown=CARDS,
            ),
        )


def _network_faults(profile: Profile) -> Iterator[FieldError]:
    network = profile.network
    port: object = network.port
    number = isinstance(port, int) and not isinstance(port, bool)
    if not number or not LOWEST_PORT <= network.port <= HIGHEST_PORT:
        yield FieldError(
            "network.port",
            message(
                "must be a number from {low} to {high}, not {value}",
                low=LOWEST_PORT,
                high=HIGHEST_PORT,
                value=repr(port),
            ),
        )
    if network.host not in _LOOPBACK:
        yield FieldError(
            "network.host",
            message("must be 127.0.0.1: the demo engine serves this computer only"),
        )


def _other_faults(profile: Profile) -> Iterator[FieldError]:
    for name, entry in profile.env.items():
        if not ENV_NAME.fullmatch(name):
            yield FieldError(f"env.{name}", message("is not a name for an environment variable"))
        elif name == KEY_VARIABLE:
            yield FieldError(
                f"env.{name}",
                message("is a secret; enter it as a key, so that it is stored safely"),
            )
        elif "\0" in entry.value or "\n" in entry.value:
            yield FieldError(f"env.{name}", message("must be a text of one line"))
    for key in profile.extra:
        yield FieldError(
            f"extra.{key}", message("is not known; the demo engine has no more options")
        )
