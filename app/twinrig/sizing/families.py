"""Facts about architecture classes, from ``resources/sizing/families.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from twinrig import assets
from twinrig.sizing.reading import language_part
from twinrig.sizing.versions import Version, parse_version


@cache
def _facts() -> Mapping[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = yaml.load(assets.read_text("sizing/families.yaml"), Loader=loader)
    return found if isinstance(found, dict) else {}


def with_family_defaults(whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration with the keys that its classes fill in; what is there stays.

    A language part in a section of its own is saved without what its class has by default.
    """
    inner = language_part(whole)
    added = {**_of(whole, "defaults"), **_of(inner, "defaults")}
    if inner is not whole:
        added = {**_of(inner, "sections"), **added}
    extra = {k: v for k, v in added.items() if k not in whole and k not in inner}
    return {**whole, **extra} if extra else whole


def _of(part: Mapping[str, Any], table: str) -> Mapping[str, Any]:
    name = part.get("model_type")
    found = _facts().get(table, {}).get(name) if isinstance(name, str) else None
    return found if isinstance(found, Mapping) else {}


def ring_since(architecture: str) -> Version | None:
    """First exllamav3 whose sliding layers of this class are rings; None: never."""
    text = _facts().get("rings", {}).get(architecture)
    return parse_version(text) if isinstance(text, str) else None
