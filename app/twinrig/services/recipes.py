"""Shipped recipes: profiles that others found to work, to be filled in with one's own model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import EngineRef, ModelRef, Profile
from twinrig.services.profile_codec import parse_profile

NAMES = ("exl3-two-cards-wsl", "awq-two-cards-wsl")
"""Files of ``resources/profiles``, in the order in which they are offered."""


def load_recipes(read_text: Callable[[str], str]) -> tuple[Profile, ...]:
    """All recipes; their model's path is a placeholder. ``read_text`` gives a resource's text."""
    return tuple(parse_profile(read_text(f"profiles/{name}.yaml"), name) for name in NAMES)


def from_recipe(
    recipe: Profile,
    *,
    id: str,
    name: str,
    target: str,
    model_path: str,
    install: EngineInstall | None = None,
) -> Profile:
    """An unsaved profile made of a recipe; settings and environment are exactly the recipe's."""
    engine = EngineRef(
        recipe.engine.id,
        install.environment if install else "",
        install.version if install else "",
    )
    return replace(
        recipe, id=id, name=name, target=target, engine=engine, model=ModelRef(model_path)
    )
