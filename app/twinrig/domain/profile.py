"""A profile describes one server completely, without a secret in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from twinrig.domain.options import SettingValue

SCHEMA_VERSION = 1
PROFILE_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True)
class EngineRef:
    """Which server program: registry id, environment folder on the target, version as last read.

    ``environment`` is a Python virtual environment; "" lets the target find one.
    """

    id: str
    environment: str = ""
    version: str = ""


@dataclass(frozen=True)
class ModelRef:
    """Model folder on the target, and the name clients use ("" = the folder's name)."""

    path: str
    served_name: str = ""


@dataclass(frozen=True)
class Network:
    """Listen address; a key is kept in the secret store under ``key_name`` ("" = no key)."""

    host: str = "127.0.0.1"
    port: int = 8000
    key_name: str = ""


@dataclass(frozen=True)
class EnvEntry:
    """One environment variable of the engine's process; ``reason`` says who wanted it and why."""

    value: str
    reason: str = ""


@dataclass(frozen=True)
class Profile:
    """One server. ``settings`` are keyed by option id; ``extra`` by the engine's own key.

    ``nodes`` always has length 1 now; several nodes are a later round.
    """

    id: str
    name: str
    target: str
    engine: EngineRef
    model: ModelRef
    network: Network = Network()
    distro: str = ""
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    env: Mapping[str, EnvEntry] = field(default_factory=dict)
    extra: Mapping[str, SettingValue] = field(default_factory=dict)
    nodes: tuple[str, ...] = ("node0",)
    schema_version: int = SCHEMA_VERSION
