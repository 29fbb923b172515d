"""Why a fix may have no plan here."""

from __future__ import annotations

from twinrig.domain.errors import UsageError
from twinrig.domain.profile import Profile
from twinrig.messages import Message, message

TABBY = frozenset({"tabbyapi"})
VLLM = frozenset({"vllm"})
"""Engines that a fix is for, in one place for all of them."""


class NothingToChangeError(UsageError):
    """What the fix would set is set already: it cannot be the way out."""


class NotForThisEngineError(UsageError):
    """The fix would harm, or does not exist in, this engine or version."""


class UndecidedError(UsageError):
    """The fix needs a value that nobody has measured; the user must choose."""


def needs_profile(profile: Profile | None) -> Profile:
    """The profile to edit. Raises UndecidedError when none was chosen."""
    if profile is None:
        raise UndecidedError(
            message("This fix changes a profile, and none was chosen."),
            message("Choose the profile and try again."),
        )
    return profile


def only_for(engines: frozenset[str], profile: Profile, title: Message) -> None:
    """Raises NotForThisEngineError for an engine that is not among those a fix is for."""
    if profile.engine.id not in engines:
        raise NotForThisEngineError(
            message("“{fix}” is not for {engine}.", fix=title, engine=profile.engine.id)
        )


def nothing_to_change(title: Message) -> NothingToChangeError:
    """For a plan whose every value is in place."""
    return NothingToChangeError(
        message("“{fix}” is in place already.", fix=title),
        message("Try another fix."),
    )
