"""What a set-up tells: its steps, its progress, and the cause of a step that failed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from twinrig.domain.errors import ConflictError, HostError, TwinrigError
from twinrig.messages import N_, Message, message


class SetupStep(StrEnum):
    """Steps in their order; SOURCE only for an engine that is run in place."""

    LOOK = "look"
    MAKE = "make"
    SOURCE = "source"
    FETCH = "fetch"
    INSTALL = "install"
    IMPORT = "import"
    REPLY = "reply"
    SWITCH = "switch"
    START = "start"


STEP_WORDS = {
    SetupStep.LOOK: N_("Looking at driver, Python and disk"),
    SetupStep.MAKE: N_("Making an environment of its own"),
    SetupStep.SOURCE: N_("Downloading the engine's source"),
    SetupStep.FETCH: N_("Downloading packages"),
    SetupStep.INSTALL: N_("Installing"),
    SetupStep.IMPORT: N_("Proving that its compiled part loads"),
    SetupStep.REPLY: N_("Proving with a first reply of a tiny model"),
    SetupStep.SWITCH: N_("Putting it into use"),
    SetupStep.START: N_("Proving with a first reply of your model"),
}


@dataclass(frozen=True)
class SetupProgress:
    """``line`` is what the program at work said last; ``fraction`` 0 to 1 where it tells."""

    step: SetupStep
    line: str = ""
    fraction: float | None = None


BUSY_CODE = 75
_RAW = re.compile(r"^Progress (\d+) of (\d+)$")
_CONNECTION = (
    "IncompleteRead|ProtocolError|Connection (?:broken|reset|refused|aborted)|ConnectionError"
    "|Read timed out|ReadTimeout|NewConnectionError|Max retries exceeded|name resolution"
    "|Network is unreachable|RemoteDisconnected|URLError|EOF occurred|timed out"
)
_NO_INDEX = re.compile(rf"(?s)(?:{_CONNECTION}).*\(from versions: none\)")
"""pip tells of an index that it never reached as of one that has no version at all."""
_LOST = (
    message("The connection was lost."),
    message("Try again; what is downloaded already is kept."),
)
_CAUSES: tuple[tuple[re.Pattern[str], Message, Message], ...] = (
    (
        re.compile(r"No space left on device|Errno 28\b|Disk quota exceeded"),
        message("The disk is full."),
        message("Free some space, then set it up again; the version in use was not touched."),
    ),
    (
        re.compile(r"DO NOT MATCH THE HASHES|BadZipFile|invalid wheel|has an invalid wheel"),
        message("A downloaded package is not what its index promised, so it was not installed."),
        message("Try again; if it happens again, look at the proxy or mirror in between."),
    ),
    (
        re.compile(r"ensurepip is not available|No module named '?(?:ensurepip|venv)"),
        message("This Python cannot make environments."),
        message('On Debian and Ubuntu: "sudo apt install python3-venv". Then try again.'),
    ),
    (_NO_INDEX, *_LOST),
    (
        re.compile(
            r"No matching distribution found|Could not find a version|HTTP Error 40[34]|"
            r"404 Client Error|ResolutionImpossible"
        ),
        message("There is no such version for this Python and this driver."),
        message("Choose another version with --version, or update the driver."),
    ),
    (re.compile(_CONNECTION), *_LOST),
)


def progress_of(step: SetupStep, line: str) -> SetupProgress:
    """A line of pip: its own progress as a fraction, everything else as it stands."""
    found = _RAW.match(line)
    if found is None:
        return SetupProgress(step, line)
    total = int(found[2])
    return SetupProgress(step, "", min(1.0, int(found[1]) / total) if total else None)


def may_help(output: str) -> bool:
    """Whether trying again may help. An older pip takes a cut connection for a wrong package."""
    lost = re.search(f"{_CONNECTION}|DO NOT MATCH THE HASHES", output)
    return lost is not None and "No space left" not in output


def step_fault(step: SetupStep, code: int | None, output: str) -> TwinrigError:
    """Why a step failed, and what to do; ``output`` is all that it said."""
    if code == BUSY_CODE:
        return ConflictError(
            message("Another set-up of this engine is still at work on this machine."),
            message("Wait until it has ended, then try again."),
        )
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = lines[-1] if lines else "-"
    for pattern, text, next_step in _CAUSES:
        if found := pattern.search(output):
            words = found[0].splitlines()[0]
            told = next((line for line in reversed(lines) if words in line), last)
            return HostError(
                message(
                    "{step}: {cause} ({line})",
                    step=Message(STEP_WORDS[step]),
                    cause=text,
                    line=told,
                ),
                next_step,
            )
    return HostError(
        message("{step} failed: {line}", step=Message(STEP_WORDS[step]), line=last),
        message("The version in use was not touched. Try again, or report what was said."),
    )
