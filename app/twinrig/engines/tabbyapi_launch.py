"""Files, argv and environment of one tabbyAPI start, and who may open its doors.

Without a key in the profile the checkout's own ``api_tokens.yml`` counts if there is one; else
the server is open to programs of this computer, as a vLLM profile without a key is.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinrig.domain.launch import Endpoint, FileSpec, LaunchSpec, Readiness, SleepWay
from twinrig.domain.options import Option
from twinrig.domain.profile import Profile
from twinrig.engines import tabbyapi_config as config
from twinrig.engines.base import RenderContext
from twinrig.engines.tabbyapi_edit import ConfigRefusedError, read_sections, yaml_value
from twinrig.messages import message

CONFIG_FILE = "config.yml"
TOKENS_FILE = "api_tokens.yml"
SCHEMA_FILE = "common/config_models.py"
MODEL_FILE = "tabby_config.yml"
WIDTH = "1000"
"""Columns of the console: no line of interest is longer, so none is folded."""

BASE_ENVIRONMENT: Mapping[str, str] = {
    "COLUMNS": WIDTH,
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "NO_COLOR": "1",
    "PYTHONUNBUFFERED": "1",
    "TABBY_LOG_CONSOLE_WIDTH": WIDTH,
}
PROBE_BODY: Mapping[str, object] = {
    "prompt": "Hello",
    "max_tokens": 8,
    "temperature": 1.0,
    "top_k": 20,
    "top_p": 0.95,
    "repetition_penalty": 1.1,
    "stream": False,
}
"""A sampled completion: every forward of it gathers the logits of both cards."""


@dataclass(frozen=True)
class Access:
    """``disable_auth`` None leaves the file's own word. ``tokens`` is a new text of the keys'
    file, None when it stays. ``key`` is what clients send, ``admin`` what the server's owner
    sends; ``secrets`` all keys that may be printed."""

    disable_auth: bool | None
    key: str | None = field(default=None, repr=False)
    tokens: str | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    admin: str | None = field(default=None, repr=False)


def access(profile: Profile, context: RenderContext, new_key: Callable[[], str]) -> Access:
    """Keys for this start. Raises ConfigRefusedError for a damaged ``api_tokens.yml``."""
    path = posixpath.join(context.install.folder, TOKENS_FILE)
    text = context.files.get(path)
    present = read_sections(text, path) if text is not None else {}
    own = _texts(present.get("api_key"))
    admin = _texts(present.get("admin_key"))
    if context.key:
        if context.key in own and admin:
            return Access(False, context.key, None, (*own, *admin), admin[0])
        keys = [*own, context.key] if context.key not in own else own
        admin = admin or [new_key()]
        tokens = (
            f"api_key: {yaml_value(keys if len(keys) > 1 else keys[0])}\n"
            f"admin_key: {yaml_value(admin[0])}\n"
        )
        return Access(False, context.key, tokens, (*keys, *admin), admin[0])
    if text is None or not own:
        return Access(True)
    settings = context.files.get(posixpath.join(context.install.folder, CONFIG_FILE)) or ""
    network = read_sections(settings, CONFIG_FILE).get("network")
    if isinstance(network, dict) and network.get("disable_auth") is True:
        return Access(None)
    if not admin:
        raise ConfigRefusedError(path, message("it has no admin_key"))
    return Access(None, own[0], None, (*own, *admin), admin[0])


def launch_spec(
    profile: Profile,
    context: RenderContext,
    table: Sequence[Option],
    wanted: config.Values,
    doors: Access,
) -> LaunchSpec:
    """The one node of a validated profile."""
    model_id = posixpath.basename(profile.model.path.rstrip("/"))
    return LaunchSpec(
        node_id=profile.nodes[0],
        argv=(context.install.executable, "main.py"),
        env=environment(profile, context),
        files=tuple(_files(profile, context, table, wanted, doors)),
        endpoint=Endpoint(profile.network.host, profile.network.port),
        readiness=Readiness(
            path="/v1/model",
            liveness_path="/health",
            completion_path="/v1/completions",
            completion_body={"model": model_id, **PROBE_BODY},
            later_timeout_s=300.0,
        ),
        model_id=model_id,
        metrics_path="",
        cwd=context.install.folder,
        stop_timeout_s=60.0,
        bearer_token=doors.key,
        secrets=doors.secrets,
        # Loading by request would forget config.yml (batch size, drafts): it starts anew instead.
        sleep=SleepWay("/v1/model/unload", token=doors.admin),
    )


def environment(profile: Profile, context: RenderContext) -> dict[str, str]:
    """Additions to a clean environment; the profile's own entries win over ours."""
    env = dict(BASE_ENVIRONMENT)
    if context.gpu_uuids:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(context.gpu_uuids)
    env.update({name: entry.value for name, entry in profile.env.items()})
    return env


def _files(
    profile: Profile,
    context: RenderContext,
    table: Sequence[Option],
    wanted: config.Values,
    doors: Access,
) -> list[FileSpec]:
    folder = context.install.folder
    path = posixpath.join(folder, CONFIG_FILE)
    text = config.config_text(context.files.get(path), wanted, path)
    files = [FileSpec(path, text, 0o600, keep_previous=True)]
    if doors.tokens is not None:
        tokens = posixpath.join(folder, TOKENS_FILE)
        files.append(FileSpec(tokens, doors.tokens, 0o600, keep_previous=True))
    samplers = config.sampler_values(profile, table)
    if samplers:
        preset = f"sampler_overrides/{config.preset_name(profile)}.yml"
        files.append(FileSpec(posixpath.join(folder, preset), config.preset_text(samplers)))
    return files


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [v for v in values if isinstance(v, str) and v]
