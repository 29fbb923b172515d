"""The first run as steps: what is done, what comes next, and why something cannot be done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from twinrig.domain.checks import CheckResult, Status
from twinrig.domain.errors import TwinrigError
from twinrig.domain.gpu import GpuInfo
from twinrig.domain.install import EngineInstall
from twinrig.domain.memory import Verdict
from twinrig.domain.profile import Profile
from twinrig.domain.server import ANSWERING_STATES, ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.domain.wording import STATE_WORDS
from twinrig.messages import N_, Message, message
from twinrig.qt.viewmodels.setting_up import SETUP_FINDINGS
from twinrig.qt.viewmodels.sizing import SizingAnswer

MODEL_CHECK = "model-folder"
"""The check that knows whether the profile's model is there and whole."""

_ON_THE_WAY = frozenset({ServerState.STARTING, ServerState.LOADING, ServerState.STOPPING})


class StepId(StrEnum):
    """In the order of the way."""

    MACHINE = "machine"
    CHECK = "check"
    FIX = "fix"
    ENGINE = "engine"
    MODEL = "model"
    PLAN = "plan"
    START = "start"
    CHAT = "chat"
    LOGON = "logon"


TITLES: Mapping[StepId, str] = {
    StepId.MACHINE: N_("This machine"),
    StepId.CHECK: N_("Check it"),
    StepId.FIX: N_("Fix what is wrong"),
    StepId.ENGINE: N_("An engine: the program that serves the model"),
    StepId.MODEL: N_("A model"),
    StepId.PLAN: N_("Does it fit?"),
    StepId.START: N_("Start the server"),
    StepId.CHAT: N_("Ask it something"),
    StepId.LOGON: N_("Start at logon?"),
}


class StepState(StrEnum):
    """BUSY: at work or being looked at. CANNOT: something is in the way, the text says what."""

    DONE = "done"
    NEXT = "next"
    BUSY = "busy"
    LATER = "later"
    CANNOT = "cannot"
    SKIPPED = "skipped"


STATE_LABELS: Mapping[StepState, str] = {
    StepState.DONE: N_("Done"),
    StepState.NEXT: N_("Next"),
    StepState.BUSY: N_("Working"),
    StepState.LATER: N_("Not yet"),
    StepState.CANNOT: N_("Not possible yet"),
    StepState.SKIPPED: N_("Skipped"),
}


class Act(StrEnum):
    """What a button of a step does."""

    LOOK = "look"
    CHECK = "check"
    FIX = "fix"
    PREFLIGHT = "preflight"
    SET_UP = "set-up"
    PLAN = "plan"
    START = "start"
    SERVER = "server"
    ASK = "ask"


@dataclass(frozen=True)
class StepButton:
    """``param`` is the engine of a set-up, or the check whose finding is fixed."""

    act: Act
    text: Message
    param: str = ""


@dataclass(frozen=True)
class Step:
    """One step. ``demo``: it is a dead end of this machine, from which the demo rig leads on."""

    id: StepId
    state: StepState
    text: Message
    next_step: Message | None = None
    buttons: tuple[StepButton, ...] = ()
    demo: bool = False

    @property
    def title(self) -> str:
        """Marked sentence."""
        return TITLES[self.id]


@dataclass(frozen=True)
class Found:
    """What a look at the target showed. ``looked`` False: nothing was looked at yet.

    A fault is why something is not known; without one, None and () say that it is not there.
    ``set_ups`` are id and name of engines that can be set up here. ``models`` counts those that
    are complete, ``incomplete`` the others.
    """

    looked: bool = False
    label: str = ""
    demo: bool = False
    cards: tuple[GpuInfo, ...] = ()
    machine_fault: TwinrigError | None = None
    engine_name: str = ""
    install: EngineInstall | None = None
    engine_fault: TwinrigError | None = None
    set_ups: tuple[tuple[str, str], ...] = ()
    models: int | None = None
    incomplete: int = 0
    profile: Profile | None = None
    profile_fault: TwinrigError | None = None
    sizing: SizingAnswer | None = None
    record: ServerRecord | None = None
    autostart: bool | None = None


@dataclass(frozen=True)
class Seen:
    """All that the steps are made of. ``results`` None: the checks have not run yet.

    ``reply_fault`` is why the last question failed; ``proven``: one was answered.
    """

    found: Found = field(default_factory=Found)
    checking: bool = False
    results: tuple[CheckResult, ...] | None = None
    check_fault: TwinrigError | None = None
    asking: bool = False
    reply_fault: TwinrigError | None = None
    proven: bool = False
    skipped: Collection[StepId] = frozenset()


def steps(seen: Seen) -> tuple[Step, ...]:
    """All steps in order: one is the current one, what follows it waits."""
    found = []
    current: Step | None = None
    for step_id, make in _MAKERS.items():
        step = make(seen) if seen.found.looked else _looking(step_id)
        if step.state is not StepState.DONE and step_id in seen.skipped:
            step = replace(step, state=StepState.SKIPPED, buttons=(), demo=False)
        elif current is not None and step.state in (StepState.NEXT, StepState.CANNOT):
            waits = message("Comes after: {step}", step=Message(current.title))
            step = Step(step_id, StepState.LATER, waits)
        elif current is None and step.state is not StepState.DONE:
            current = step
        found.append(step)
    return tuple(found)


def current_step(found: Sequence[Step]) -> Step | None:
    """The one to do now; None when all are done, skipped or wait for nothing."""
    wanted = (StepState.NEXT, StepState.CANNOT, StepState.BUSY)
    return next((step for step in found if step.state in wanted), None)


def complete(found: Sequence[Step]) -> bool:
    """Nothing is left but the question about logon, which may stay as it is."""
    settled = (StepState.DONE, StepState.SKIPPED)
    return all(step.state in settled for step in found if step.id is not StepId.LOGON)


def problems(results: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
    """What keeps a server from running well, without what a later step is about."""
    return tuple(
        r
        for r in results
        if r.status is Status.FAIL and (r.finding is None or r.finding.id not in SETUP_FINDINGS)
    )


def _looking(step_id: StepId) -> Step:
    return Step(step_id, StepState.BUSY, message("Looking…"))


def _fault(step_id: StepId, error: TwinrigError, *buttons: StepButton, demo: bool = False) -> Step:
    return Step(step_id, StepState.CANNOT, error.text, error.next_step, buttons, demo)


def _machine(seen: Seen) -> Step:
    found = seen.found
    again = StepButton(Act.LOOK, message("Look again"))
    if found.machine_fault is not None:
        return _fault(StepId.MACHINE, found.machine_fault, again, demo=not found.demo)
    if not found.cards:
        return Step(
            StepId.MACHINE,
            StepState.CANNOT,
            message("No NVIDIA card was found."),
            message("Install NVIDIA's driver for it, then look again."),
            (again,),
            not found.demo,
        )
    names = ", ".join(card.name for card in found.cards)
    text = message(
        "{machine}. Cards: {count} ({names})",
        machine=Message(found.label),
        count=len(found.cards),
        names=names,
    )
    return Step(StepId.MACHINE, StepState.DONE, text)


def _check(seen: Seen) -> Step:
    again = StepButton(Act.CHECK, message("Check now"))
    if seen.checking:
        return Step(StepId.CHECK, StepState.BUSY, message("Checking; nothing is changed…"))
    if seen.check_fault is not None:
        return _fault(StepId.CHECK, seen.check_fault, again)
    if seen.results is None:
        text = message("Checks only look, they change nothing. They take some seconds.")
        return Step(StepId.CHECK, StepState.NEXT, text, None, (again,))
    count = {status: sum(r.status is status for r in seen.results) for status in Status}
    text = message(
        "Fine: {fine}. Problems: {problems}. Warnings: {warnings}. Could not tell: {unknown}.",
        fine=count[Status.PASS],
        problems=count[Status.FAIL],
        warnings=count[Status.WARN],
        unknown=count[Status.ERROR],
    )
    return Step(StepId.CHECK, StepState.DONE, text)


def _fix(seen: Seen) -> Step:
    if seen.results is None or seen.checking:
        return Step(StepId.FIX, StepState.NEXT, message("The checks have to run first."))
    wrong = problems(seen.results)
    if not wrong:
        return Step(StepId.FIX, StepState.DONE, message("Nothing has to be fixed."))
    fixable = [r for r in wrong if r.finding is not None and r.finding.fixes]
    first = (fixable or list(wrong))[0]
    text = message("Problems: {count}. {problem}", count=len(wrong), problem=first.summary)
    buttons = [StepButton(Act.PREFLIGHT, message("See all checks"))]
    if fixable:
        buttons.insert(0, StepButton(Act.FIX, message("Look at the fix…"), first.check_id))
        advice = message("Every change is shown before, and can be taken back.")
    else:
        advice = message("No fix is known for it. The page Preflight shows what was found.")
    return Step(StepId.FIX, StepState.NEXT, text, advice, tuple(buttons))


def _engine(seen: Seen) -> Step:
    found = seen.found
    if found.engine_fault is not None:
        return _fault(StepId.ENGINE, found.engine_fault, demo=not found.demo)
    if found.install is not None:
        text = message(
            "{engine} {version} in {place}",
            engine=found.engine_name,
            version=found.install.version or "?",
            place=found.install.environment,
        )
        return Step(StepId.ENGINE, StepState.DONE, text)
    missing = message("No engine was found on this machine.")
    if found.engine_name:
        missing = message("{engine} was not found on this machine.", engine=found.engine_name)
    if not found.set_ups:
        advice = message("Install vLLM or tabbyAPI, then look again.")
        again = (StepButton(Act.LOOK, message("Look again")),)
        return Step(StepId.ENGINE, StepState.CANNOT, missing, advice, again, not found.demo)
    buttons = tuple(
        StepButton(Act.SET_UP, message("Set up {engine}…", engine=name), engine_id)
        for engine_id, name in found.set_ups
    )
    advice = message(
        "Twinrig can set one up in a folder of its own. vLLM runs most models; tabbyAPI runs the "
        "EXL3 format, which squeezes larger models into two cards."
    )
    return Step(StepId.ENGINE, StepState.NEXT, missing, advice, buttons, not found.demo)


def _model(seen: Seen) -> Step:
    found = seen.found
    if found.profile_fault is not None:
        return _fault(StepId.MODEL, found.profile_fault, _server_button())
    profile = found.profile
    if profile is not None and profile.model.path:
        wrong = next((r for r in problems(seen.results or ()) if r.check_id == MODEL_CHECK), None)
        if wrong is not None:
            look = StepButton(Act.PLAN, message("Open the plan"))
            advice = message("Choose the folder of a whole model in the plan.")
            return Step(StepId.MODEL, StepState.CANNOT, wrong.summary, advice, (look,))
        return Step(StepId.MODEL, StepState.DONE, message("{path}", path=profile.model.path))
    if found.models == 0 and found.incomplete:
        return Step(
            StepId.MODEL,
            StepState.NEXT,
            message("No model is complete. Incomplete ones: {count}.", count=found.incomplete),
            message("The list tells what each lacks. Complete one, or find another to download."),
            demo=not found.demo,
        )
    if found.models == 0:
        return Step(
            StepId.MODEL,
            StepState.NEXT,
            message("No model was found in the usual folders."),
            message("Give the folder of one, or find one to download."),
            demo=not found.demo,
        )
    text = message("Choose one. A profile is made for it: its settings, in one place.")
    return Step(StepId.MODEL, StepState.NEXT, text)


def _plan(seen: Seen) -> Step:
    found = seen.found
    if found.profile is None:
        return Step(StepId.PLAN, StepState.NEXT, message("A model has to be chosen first."))
    look = StepButton(Act.PLAN, message("Open the plan"))
    sizing = found.sizing
    if sizing is None or sizing.plan is None:
        unknown = message("It cannot be told whether it fits.")
        reason = sizing.fault if sizing is not None else None
        if reason is not None:
            unknown = message("It cannot be told whether it fits: {reason}", reason=reason)
        advice = sizing.next_step if sizing is not None else None
        advice = advice or message("Skip this step to try it all the same.")
        return Step(StepId.PLAN, StepState.CANNOT, unknown, advice, (look,))
    if sizing.plan.verdict is Verdict.UNKNOWN:
        advice = message("Skip this step to try it all the same.")
        return Step(StepId.PLAN, StepState.CANNOT, sizing.plan.summary, advice, (look,))
    if sizing.plan.verdict is Verdict.DOES_NOT_FIT:
        advice = message("A shorter context often helps: the plan shows what gives more memory.")
        return Step(StepId.PLAN, StepState.CANNOT, sizing.plan.summary, advice, (look,))
    return Step(StepId.PLAN, StepState.DONE, sizing.plan.summary, None, (look,))


def _start(seen: Seen) -> Step:
    found, record = seen.found, seen.found.record
    if record is not None and record.state in ANSWERING_STATES:
        text = message("Ready: {model}", model=record.model_id or record.profile_id)
        return Step(StepId.START, StepState.DONE, text)
    if record is not None and record.state in _ON_THE_WAY:
        text = Message(STATE_WORDS[record.state])
        return Step(StepId.START, StepState.BUSY, text, None, (_server_button(),))
    if found.profile is None:
        return Step(StepId.START, StepState.NEXT, message("A model has to be chosen first."))
    start = StepButton(Act.START, message("Start server"))
    if record is not None and record.failure is not None:
        failure = record.failure
        buttons = (start, _server_button())
        return Step(StepId.START, StepState.CANNOT, failure.text, failure.next_step, buttons)
    text = message(
        "Loading takes from seconds to minutes. The server goes on when this window is closed."
    )
    return Step(StepId.START, StepState.NEXT, text, None, (start,))


def _server_button() -> StepButton:
    return StepButton(Act.SERVER, message("See it on the page Server"))


def _chat(seen: Seen) -> Step:
    record = seen.found.record
    ready = record is not None and record.state in ANSWERING_STATES
    ask = (StepButton(Act.ASK, message("Ask it to say hello")),) if ready else ()
    if seen.asking:
        return Step(StepId.CHAT, StepState.BUSY, message("Waiting for the reply…"))
    if seen.proven:
        return Step(StepId.CHAT, StepState.DONE, message("It has answered: everything works."))
    if not ready:
        return Step(StepId.CHAT, StepState.NEXT, message("The server has to run first."))
    if seen.reply_fault is not None:
        return _fault(StepId.CHAT, seen.reply_fault, *ask, _server_button())
    text = message("One question to your own server proves that everything works.")
    return Step(StepId.CHAT, StepState.NEXT, text, None, ask)


def _logon(seen: Seen) -> Step:
    found = seen.found
    if found.profile is None:
        return Step(StepId.LOGON, StepState.NEXT, message("A model has to be chosen first."))
    if found.autostart is None:
        text = message("This machine cannot start a server at logon by itself.")
        advice = message("Start it in this window, or with the command twinrig start.")
        return Step(StepId.LOGON, StepState.CANNOT, text, advice)
    if found.autostart:
        return Step(StepId.LOGON, StepState.DONE, message("It starts when you log on."))
    text = message("It does not start by itself, unless you want it to.")
    return Step(StepId.LOGON, StepState.NEXT, text)


_MAKERS: Mapping[StepId, Callable[[Seen], Step]] = {
    StepId.MACHINE: _machine,
    StepId.CHECK: _check,
    StepId.FIX: _fix,
    StepId.ENGINE: _engine,
    StepId.MODEL: _model,
    StepId.PLAN: _plan,
    StepId.START: _start,
    StepId.CHAT: _chat,
    StepId.LOGON: _logon,
}
