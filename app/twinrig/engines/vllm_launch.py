"""From a valid profile to exact files, argv and environment: ``vllm serve --config FILE``.

vLLM turns the file into command-line words: ``true`` into ``--key``, a list into several words,
anything else into ``--key TEXT``. Three quirks of released versions: ``false`` does nothing, in
0.32 neither although its loader has code for it (as run: the outer parser does not know the
switch), so what is on by default needs ``no-KEY: true``; a nested map is only understood from
0.19, so JSON goes in as text; an unquoted ``no`` or ``1e5`` would change its meaning, so every
text is quoted.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from twinrig.domain.launch import Endpoint, FileSpec, LaunchSpec, Readiness, SleepWay
from twinrig.domain.options import Option, OptionKind, SettingValue
from twinrig.domain.profile import Profile
from twinrig.engines.base import RenderContext
from twinrig.engines.vllm_defaults import in_range

BASE_ENVIRONMENT: Mapping[str, str] = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "DO_NOT_TRACK": "1",
    "NO_COLOR": "1",
    "PYTHONUNBUFFERED": "1",
    "VLLM_DISABLE_LOG_LOGO": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
KEY_VARIABLE = "VLLM_API_KEY"
POLLED_PATHS = "/health,/metrics"
STOP_GRACE_S = 30.0
SLEEP = SleepWay("/sleep?level=1", "/wake_up")
"""Level 1 keeps the weights in RAM, so that it wakes in seconds; no key guards these paths."""
PROBE_BODY: Mapping[str, object] = {
    "prompt": "Hello",
    "max_tokens": 8,
    "temperature": 1.0,
    "top_k": 20,
    "top_p": 0.95,
    "repetition_penalty": 1.1,
    "stream": False,
}
"""A sampled completion: a greedy one does not touch the kernels that crash."""

_ON_BY_DEFAULT = frozenset({"async_scheduling", "enable_chunked_prefill", "enable_prefix_caching"})


def launch_spec(profile: Profile, table: Sequence[Option], context: RenderContext) -> LaunchSpec:
    """The one node of a validated profile. ``table`` holds the rows of the installed version."""
    path = posixpath.join(context.run_folder, f"vllm-{profile.id}.yaml")
    settings = {option.id: option for option in table}
    timeout = profile.settings.get("shutdown_timeout", 0)
    grace_s = float(timeout) if isinstance(timeout, (int, float)) else 0.0
    return LaunchSpec(
        node_id=profile.nodes[0],
        argv=(context.install.executable, "serve", "--config", path),
        env=environment(profile, context),
        files=(FileSpec(path, config_text(profile, settings, context.install.version)),),
        endpoint=Endpoint(profile.network.host, profile.network.port),
        readiness=Readiness(
            path="/health",
            completion_path="/v1/completions",
            completion_body={"model": served_name(profile), **PROBE_BODY},
        ),
        model_id=served_name(profile),
        secret_env=(KEY_VARIABLE,) if context.key else (),
        stop_timeout_s=STOP_GRACE_S + grace_s,
        bearer_token=context.key,
        sleep=SLEEP if profile.settings.get("enable_sleep_mode") is True else None,
    )


def served_name(profile: Profile) -> str:
    """Name that clients use: the chosen one, else the folder's."""
    return profile.model.served_name or posixpath.basename(profile.model.path.rstrip("/"))


def environment(profile: Profile, context: RenderContext) -> dict[str, str]:
    """Additions to a clean environment; the profile's own entries win over ours."""
    env = dict(BASE_ENVIRONMENT)
    if profile.settings.get("enable_sleep_mode") is True:
        env["VLLM_SERVER_DEV_MODE"] = "1"  # without it /sleep and /wake_up do not exist
    if context.gpu_uuids:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(context.gpu_uuids)
    env.update({name: entry.value for name, entry in profile.env.items()})
    if context.key:
        env[KEY_VARIABLE] = context.key
    return env


def config_text(profile: Profile, table: Mapping[str, Option], version: str) -> str:
    """The YAML file: flat, keys are vLLM's long option names, in the order of the table."""
    values: dict[str, object] = {
        "model": profile.model.path,
        "served-model-name": [served_name(profile)],
        "host": profile.network.host,
        "port": profile.network.port,
    }
    values.update(_quiet_access_log(profile, version))
    for option in table.values():
        value = profile.settings.get(option.id)
        if value is not None:
            values.update(_entry(option, value))
    for key, value in sorted(profile.extra.items()):
        values.update(_extra(key, value))
    head = "# Written by Twinrig for each start; edit the profile instead.\n"
    return head + yaml.dump(
        values, Dumper=_QuotingDumper, sort_keys=False, allow_unicode=True, width=2**20
    )


def _quiet_access_log(profile: Profile, version: str) -> dict[str, object]:
    """Our own polling must not fill the log; before 0.19 only the whole access log can go."""
    if in_range(version, ">=0.19", unknown=True):
        return {"disable-access-log-for-endpoints": POLLED_PATHS}
    return {"disable-uvicorn-access-log": True}


def _entry(option: Option, value: SettingValue) -> dict[str, object]:
    key = option.engine_key
    if option.kind is OptionKind.JSON:
        return {key: json.dumps(json.loads(str(value)), ensure_ascii=False)}
    if isinstance(value, tuple):
        return {key: list(value)}
    if value is False:
        return {f"no-{key}": True} if option.id in _ON_BY_DEFAULT else {}
    if option.kind is OptionKind.FLOAT and not isinstance(value, (bool, str)):
        return {key: float(value)}
    return {key: value}


def _extra(key: str, value: SettingValue) -> dict[str, object]:
    """Nothing is known of an extra option, so "off" is always said."""
    if value is False:
        return {f"no-{key}": True}
    return {key: list(value) if isinstance(value, tuple) else value}


class _QuotingDumper(yaml.SafeDumper):
    """Quotes every text value, so that no YAML reader can take it for something else."""

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> Any:
        node = super().represent_mapping(tag, mapping, flow_style)
        for key, _ in node.value:
            key.style = None
        return node

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _quoted(dumper: yaml.SafeDumper, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')


_QuotingDumper.add_representer(str, _quoted)
