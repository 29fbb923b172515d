"""Facts about architecture classes, from ``resources/sizing/families.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from twinrig import assets
from twinrig.sizing.versions import Version, parse_version


@cache
def _facts() -> Mapping[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = yaml.load(assets.read_text("sizing/families.yaml"), Loader=loader)
    return found if isinstance(found, dict) else {}


def with_family_defaults(whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration with the keys that its class fills in; what is there stays."""
    table = _facts().get("defaults", {})
    added: dict[str, Any] = {}
    for part in (whole.get("text_config"), whole):
        if isinstance(part, Mapping) and isinstance(part.get("model_type"), str):
            added = {**table.get(part["model_type"], {}), **added}
    inner = whole.get("text_config")
    inside = inner if isinstance(inner, Mapping) else {}
    extra = {k: v for k, v in added.items() if k not in whole and k not in inside}
    return {**whole, **extra} if extra else whole


def ring_since(architecture: str) -> Version | None:
    """First exllamav3 whose sliding layers of this class are rings; None: never."""
    text = _facts().get("rings", {}).get(architecture)
    return parse_version(text) if isinstance(text, str) else None
