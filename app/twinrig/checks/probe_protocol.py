"""Builds the one call that carries all cheap probes, and reads its answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from twinrig.domain.checks import Check, ProbeOutput
from twinrig.domain.ports import CommandResult, Script
from twinrig.domain.probes import PROBE_SCRIPT, ProbeRequest, parse_frames
from twinrig.domain.profile import Profile

SLOW_PROBES = ("model", "model_config", "gpu", "driver", "holders")
"""Probes that can hang on a disk or a driver; they run last, so that the others are answered."""


def probe_names(checks: Iterable[Check], extra: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of all probes these checks look at, each once, slow ones last."""
    asked = [name for check in checks for name in (*check.probes, *check.optional)]
    wanted = dict.fromkeys(asked + list(extra))
    quick = [name for name in wanted if name not in SLOW_PROBES]
    return (*quick, *(name for name in SLOW_PROBES if name in wanted))


def request_for(
    profile: Profile | None,
    names: Sequence[str],
    *,
    nonce: str,
    environment: str = "",
    sysroot: str = "",
) -> ProbeRequest:
    """Arguments of the script for one profile; ``environment`` is the engine's, when found."""
    if profile is None:
        return ProbeRequest(nonce, tuple(names), environment=environment, sysroot=sysroot)
    return ProbeRequest(
        nonce,
        tuple(names),
        model_path=profile.model.path,
        environment=environment or profile.engine.environment,
        endpoint=f"{profile.network.host}:{profile.network.port}",
        sysroot=sysroot,
    )


def build_script(text: str, request: ProbeRequest) -> Script:
    """The call: ``text`` is ``resources/probes/linux.sh``, the values travel as arguments."""
    # A checkout on Windows may have turned the line ends.
    return Script(PROBE_SCRIPT, text.replace("\r\n", "\n"), request.to_args())


def read_answer(request: ProbeRequest, result: CommandResult) -> Mapping[str, ProbeOutput]:
    """An answer for every requested probe; those that did not end read as timed out when the
    whole call was, else as "did not run"."""
    found = parse_frames(request.nonce, result.output)
    answers: dict[str, ProbeOutput] = {}
    for name in request.names:
        output = found.get(name, ProbeOutput(name, None, ""))
        if output.returncode is None and result.timed_out:
            output = ProbeOutput(name, None, output.stdout, output.stderr, timed_out=True)
        answers[name] = output
    return answers
