"""Wires what brings engines and models onto a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinrig import assets
from twinrig.diagnosis.explain import explain_exit
from twinrig.diagnosis.rule_files import load_shipped
from twinrig.domain.ports import Host, SecretStore
from twinrig.domain.supervision import Failure
from twinrig.engines.base import Engine
from twinrig.engines.setup_table import SETUP_TABLE, parse_setup
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.locks import FileLock
from twinrig.services.engine_setup import EngineSetup, SetupSources
from twinrig.services.hub import PROGRAM, TABLE, Hub, engine_python, parse_table
from twinrig.services.installs import EngineFinder
from twinrig.services.setup_change import SetupChange
from twinrig.services.setup_machine import DriverLook
from twinrig.services.setup_reply import FirstReply
from twinrig.services.setup_script import SCRIPT

INDEX_VARIABLE = "TWINRIG_WHEEL_INDEX"
"""Replaces the wheel indexes of engine set-ups: a mirror, or a double in tests."""
SOURCE_VARIABLE = "TWINRIG_ENGINE_SOURCE"
"""Replaces the address of an engine's source; ``{version}`` in it is filled in."""
HUB_VARIABLE = "HF_ENDPOINT"
"""Another hub, under the name that the hub's own tools use."""


def engine_setup(
    host: Host,
    engines: Mapping[str, Engine],
    driver: DriverLook,
    change: SetupChange,
    lock: FileLock,
    environ: Mapping[str, str],
    on_wsl: bool,
) -> EngineSetup:
    """Set-ups of one target."""

    def explain(lines: Sequence[str], exit_text: str) -> Failure:
        return explain_exit(lines, exit_text, load_shipped(assets.read_text))

    return EngineSetup(
        host,
        engines,
        parse_setup(assets.read_text(SETUP_TABLE)),
        assets.read_text(SCRIPT),
        driver,
        change,
        SystemClock(),
        lock,
        FirstReply(host, engines, assets.read_text, explain, on_wsl),
        SetupSources(environ.get(INDEX_VARIABLE, ""), environ.get(SOURCE_VARIABLE, "")),
    )


def model_hub(
    host: Host,
    engines: Mapping[str, Engine],
    secrets: SecretStore,
    finder: EngineFinder,
    environ: Mapping[str, str],
) -> Hub:
    """The hub as this target reaches it."""
    return Hub(
        host,
        secrets,
        parse_table(assets.read_text(TABLE)),
        assets.read_text(PROGRAM),
        lambda: engine_python(finder, engines),
        environ.get(HUB_VARIABLE, ""),
    )
