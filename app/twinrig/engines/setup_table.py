"""How each engine is set up, as data: versions, wheels for each CUDA major, what proves it.

Reads ``resources/engines/setup.yaml``. A fault in it is a fault of this program, not of the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

SCHEMA_VERSION = 1
SETUP_TABLE = "engines/setup.yaml"
GIB = 1024**3


class SetupTableError(ValueError):
    """The table is malformed; the text names engine and field."""


@dataclass(frozen=True)
class WheelBuild:
    """Wheels of one CUDA major. ``driver`` is the lowest branch that runs them; ``group`` names
    the requirements of a source, "" where the engine is a package; ``python`` a PEP 440 range."""

    cuda: int
    driver: int
    indexes: tuple[str, ...]
    group: str
    python: str


@dataclass(frozen=True)
class SetupRecipe:
    """One engine. Texts may hold ``{version}``; ``source`` "" = it is a package.

    ``native`` are compiled modules of which one must import; see the table for the rest.
    """

    engine_id: str
    version: str
    requires: tuple[str, ...]
    source: str
    needs_bytes: int
    imports: tuple[str, ...]
    native: tuple[str, ...]
    shared: tuple[str, ...]
    carried: tuple[str, ...]
    builds: tuple[WheelBuild, ...]

    def build_for(self, driver: int) -> WheelBuild | None:
        """Wheels for a driver branch: the highest CUDA major that it runs; None = too old."""
        fitting = [build for build in self.builds if driver >= build.driver]
        return max(fitting, key=lambda build: build.cuda, default=None)


def parse_setup(text: str) -> Mapping[str, SetupRecipe]:
    """Recipes by engine id. Raises SetupTableError."""
    data = yaml.safe_load(text)
    if not isinstance(data, dict) or data.get("schema_version") != SCHEMA_VERSION:
        raise SetupTableError(f"{SETUP_TABLE}: schema_version must be {SCHEMA_VERSION}")
    engines = data.get("engines")
    if not isinstance(engines, dict):
        raise SetupTableError(f"{SETUP_TABLE}: needs a mapping named engines")
    return {name: _recipe(name, row) for name, row in engines.items()}


def fits(python: str, wanted: str) -> bool:
    """Whether a Python version lies in a PEP 440 range; what is no version does not."""
    try:
        return SpecifierSet(wanted).contains(Version(python), prereleases=True)
    except InvalidVersion:
        return False


def _recipe(name: str, row: Any) -> SetupRecipe:
    try:
        python = str(row["python"])
        recipe = SetupRecipe(
            engine_id=name,
            version=str(row["version"]),
            requires=_texts(row.get("requires", ())),
            source=str(row.get("source", "")),
            needs_bytes=int(row["needs_gib"] * GIB),
            imports=_texts(row["imports"]),
            native=_texts(row["native"]),
            shared=_texts(row.get("shared", ())),
            carried=_texts(row.get("carried", ())),
            builds=tuple(_build(build, python) for build in row["builds"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, InvalidSpecifier) as error:
        raise SetupTableError(f"{SETUP_TABLE}: {name}: {error!r}") from error
    if bool(recipe.source) == bool(recipe.requires) or not recipe.builds:
        raise SetupTableError(f"{SETUP_TABLE}: {name}: needs either source or requires, and builds")
    return recipe


def _build(row: Mapping[str, Any], python: str) -> WheelBuild:
    wanted = str(row.get("python", python))
    SpecifierSet(wanted)
    return WheelBuild(
        int(row["cuda"]),
        int(row["driver"]),
        _texts(row.get("indexes", ())),
        str(row.get("group", "")),
        wanted,
    )


def _texts(value: Sequence[Any]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError("a list is needed")
    return tuple(str(item) for item in value)
