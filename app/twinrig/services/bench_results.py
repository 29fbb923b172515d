"""From rounds of a benchmark to its result, and settings as plain values beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from twinrig.domain.benchmark import FIGURES, Figure, Load, LoadResult, Prompt, Round, Sampling
from twinrig.domain.errors import TwinrigError
from twinrig.domain.profile import Profile
from twinrig.messages import Message, message
from twinrig.services.bench_watch import mean_of_cards
from twinrig.services.sizing_settings import settings_of
from twinrig.services.workbench import Workbench
from twinrig.sizing.estimate import estimate

MASK = "…"
"""In the place of a value that may be secret."""

_SECRET = re.compile(r"token|key|secret|password", re.IGNORECASE)


def load_result(load: Load, rounds: Sequence[Round], fault: Message | None = None) -> LoadResult:
    """Rounds of one load put together; disturbed rounds count for no figure."""
    good = [r for r in rounds if not r.disturbed]
    figures = {}
    for name in FIGURES:
        known = [value for r in good if (value := getattr(r, name)) is not None]
        if (figure := Figure.of(known)) is not None:
            figures[name] = figure
    return LoadResult(
        load,
        figures,
        requests=sum(r.requests for r in rounds),
        failures=sum(r.failures for r in rounds),
        loops=sum(r.loops for r in good),
        disturbed=len(rounds) - len(good),
        prompt_tokens=max((r.prompt_tokens // r.requests for r in good), default=0),
        generation_tokens=sum(r.generation_tokens for r in good),
        server_generation_tokens=_counted_by_server(good),
        cards=mean_of_cards([r.cards for r in good]),
        fault=fault,
    )


def _counted_by_server(rounds: Sequence[Round]) -> int | None:
    counts = [r.server_generation_tokens for r in rounds]
    known = [count for count in counts if count is not None]
    return round(sum(known)) if known and len(known) == len(counts) else None


def words_of_load(load: Load) -> Message:
    """A load in words."""
    prompt = message("short prompt") if load.prompt is Prompt.SHORT else message("long prompt")
    sampling = message("sampled") if load.sampling is Sampling.SAMPLED else message("greedy")
    if load.streams == 1:
        return message("one stream, {prompt}, {sampling}", prompt=prompt, sampling=sampling)
    return message(
        "{streams} at once, {prompt}, {sampling}",
        streams=load.streams,
        prompt=prompt,
        sampling=sampling,
    )


def flat_settings(profile: Profile) -> Mapping[str, object]:
    """The profile by dotted names; the values of variables that may be secret are masked."""
    flat: dict[str, object] = {f"settings.{k}": _plain(v) for k, v in profile.settings.items()}
    flat |= {f"extra.{k}": _plain(v) for k, v in profile.extra.items()}
    flat |= {
        f"env.{k}": MASK if _SECRET.search(k) else entry.value for k, entry in profile.env.items()
    }
    return dict(sorted(flat.items()))


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


async def state_bytes(bench: Workbench, profile: Profile) -> int | None:
    """Memory that each parallel request costs for recurrent states; None when it cannot be told."""
    estimating = bench.estimating()
    try:
        cards, _ = await estimating.cards()
        model = await estimating.model(profile.model.path)
        settings = settings_of(
            bench.engines, profile, cards, reserve_bytes=estimating.reserve_bytes
        )
        return estimate(model, settings).state_bytes_per_slot_total or None
    except TwinrigError:
        return None
