"""Shipped recipes: profiles that others found to work, to be filled in with one's own model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from twinrig.domain.profile import Profile
from twinrig.services.profile_codec import parse_profile

NAMES = ("exl3-two-cards-wsl", "awq-two-cards-wsl")
"""Files of ``resources/profiles``, in the order in which they are offered."""


def load_recipes(read_text: Callable[[str], str]) -> tuple[Profile, ...]:
    """All recipes; their model's path is a placeholder. ``read_text`` gives a resource's text."""
    return tuple(parse_profile(read_text(f"profiles/{name}.yaml"), name) for name in NAMES)


def apply_recipe(recipe: Profile, draft: Profile) -> Profile:
    """``draft`` with exactly the recipe's settings and environment; the rest stays its own."""
    return replace(draft, settings=recipe.settings, env=recipe.env, extra=recipe.extra)
