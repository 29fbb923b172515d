"""Every engine that Twinrig knows. A new engine is one module and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twinrig.engines.base import Engine
from twinrig.engines.demo import DemoEngine
from twinrig.engines.tabbyapi import TabbyApiEngine
from twinrig.engines.vllm import VllmEngine


def load_engines(read_text: Callable[[str], str]) -> Mapping[str, Engine]:
    """Engines by id; ``read_text`` gives a resource's text by name.

    Raises OptionTableError when a table of this program is malformed.
    """
    engines: tuple[Engine, ...] = (
        VllmEngine(read_text("engines/vllm.yaml")),
        TabbyApiEngine(read_text("engines/tabbyapi.yaml")),
        DemoEngine(read_text("engines/demo.yaml")),
    )
    return {engine.id: engine for engine in engines}
