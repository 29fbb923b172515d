"""Versions of engine packages as the probe ``environment`` tells them."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from twinrig.checks.judging import tagged
from twinrig.domain.checks import Facts


def dist_version(facts: Facts, name: str) -> str:
    """Version of a distribution in the engine's environment; "" when it is not there."""
    dists = (line.partition(" ") for line in tagged(facts.probe("environment"), "dist"))
    return next((version for dist, _, version in dists if dist == name), "")


def within(version: str, specifier: str) -> bool | None:
    """Whether ``version`` lies in the range; local tags and pre-releases count as their base.
    None for a version that is none."""
    try:
        base = Version(version).base_version
    except InvalidVersion:
        return None
    return SpecifierSet(specifier).contains(base)
