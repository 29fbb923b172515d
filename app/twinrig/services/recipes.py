"""Recipes: settings that worked for others, to be filled in with one's own model.

Two are shipped; anybody can make one of a profile, without paths, keys, names and addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from twinrig.domain.errors import UsageError
from twinrig.domain.options import SettingValue
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Network, Profile
from twinrig.files import read_small
from twinrig.messages import message
from twinrig.services.profile_codec import dump_profile, parse_profile
from twinrig.services.profile_store import MAX_PROFILE_BYTES
from twinrig.services.redaction import Redactor

_PLACEHOLDER = "/home/you/models"

NAMES = ("exl3-two-cards-wsl", "awq-two-cards-wsl")
"""Files of ``resources/profiles``, in the order in which they are offered."""


def load_recipes(read_text: Callable[[str], str]) -> tuple[Profile, ...]:
    """All recipes; their model's path is a placeholder. ``read_text`` gives a resource's text."""
    return tuple(parse_profile(read_text(f"profiles/{name}.yaml"), name) for name in NAMES)


def load_recipe(path: Path) -> Profile:
    """The recipe of a file. Raises UsageError, ProfileError and DamagedFileError."""
    try:
        text = read_small(path, MAX_PROFILE_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            message("There is no recipe {path} that can be read.", path=str(path)),
            message("Give the file of a recipe, or one of: {names}", names=", ".join(NAMES)),
        ) from error
    return parse_profile(text, str(path))


def make_recipe(profile: Profile, cards: Sequence[str] = ()) -> str:
    """Text of a recipe of this profile, to be passed on.

    What belongs to one machine is left out, what could name a person or a key is masked.
    ``cards`` are names of cards, told in a comment.
    """
    redactor = Redactor(names=[profile.target, profile.distro, profile.network.key_name])

    def masked(value: SettingValue) -> SettingValue:
        if isinstance(value, tuple):
            return tuple(redactor.redact(item) for item in value)
        return redactor.redact(value) if isinstance(value, str) else value

    recipe = Profile(
        id=profile.id,
        name=redactor.redact(profile.name),
        target="local",
        engine=EngineRef(profile.engine.id),
        model=ModelRef(f"{_PLACEHOLDER}/{profile.model.path.rstrip('/').rpartition('/')[2]}"),
        network=Network(port=profile.network.port),
        settings={name: masked(value) for name, value in profile.settings.items()},
        env={
            name: EnvEntry(redactor.redact(entry.value), redactor.redact(entry.reason))
            for name, entry in profile.env.items()
        },
        extra={name: masked(value) for name, value in profile.extra.items()},
    )
    lines = ["# A recipe of Twinrig: settings without paths, keys and names of a machine."]
    about = [f"{profile.engine.id} {profile.engine.version}".strip(), *cards]
    lines.append(f"# Worked with: {redactor.redact(', '.join(about))}")
    return "\n".join(lines) + "\n" + dump_profile(recipe)


def apply_recipe(recipe: Profile, draft: Profile) -> Profile:
    """``draft`` with exactly the recipe's settings and environment; the rest stays its own."""
    return replace(draft, settings=recipe.settings, env=recipe.env, extra=recipe.extra)
