"""The course of one fix in its dialog: choose, look, apply, proven or not, take back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from twinrig.domain.checks import Status
from twinrig.domain.errors import TwinrigError
from twinrig.domain.fixes import FixPlan, Guidance, ProfileStep
from twinrig.messages import Message, message
from twinrig.services.nccl_experiment import FIX_ID as SEARCH_ID
from twinrig.services.nccl_experiment import Progress, Trial
from twinrig.services.nccl_search import progress_text, trial_text

if TYPE_CHECKING:
    from twinrig.services.fixer import FixOutcome, FixPreview
    from twinrig.services.nccl_search import NcclFound
    from twinrig.services.server_proof import ServerProof


class Stage(StrEnum):
    """Where the dialog stands. WORKING stages have their own words so that nothing is guessed.

    SEARCHING: settings are tried, nothing is changed; SEARCHED: nothing is to be changed, or
    nothing helped. ASKING: the server is started and asked once, as the last proof.
    """

    LOADING = "loading"
    GUIDANCE = "guidance"
    PREVIEW = "preview"
    APPLYING = "applying"
    PROVEN = "proven"
    NOT_PROVEN = "not-proven"
    FAILED = "failed"
    UNDOING = "undoing"
    UNDONE = "undone"
    SEARCHING = "searching"
    SEARCHED = "searched"
    ASKING = "asking"


BUSY = frozenset({Stage.LOADING, Stage.APPLYING, Stage.UNDOING, Stage.SEARCHING, Stage.ASKING})


@dataclass
class FixFlow:
    """State of the dialog. Each method is one event; the dialog only draws what is here."""

    options: tuple[FixPlan | Guidance, ...] = ()
    chosen: int = 0
    stage: Stage = Stage.LOADING
    preview: FixPreview | None = None
    outcome: FixOutcome | None = None
    error: TwinrigError | None = None
    trying: Message | None = None
    trials: tuple[Message, ...] = ()
    verdict: tuple[Message, ...] = ()
    answer: ServerProof | None = None

    @property
    def option(self) -> FixPlan | Guidance | None:
        """The fix that is looked at."""
        return self.options[self.chosen] if self.options else None

    def got_options(self, options: Sequence[FixPlan | Guidance]) -> None:
        """What can be done, best first."""
        self.options = tuple(options)
        if not self.options:
            self.error = TwinrigError(
                message("There is no fix for this on this machine."),
                message("Copy the report and ask with it, or follow the hint of the check."),
            )
            self.stage = Stage.FAILED
        else:
            self.choose(0)

    def choose(self, index: int) -> None:
        """Look at another fix; its preview has to be fetched when it is a plan."""
        self.chosen = index
        self.preview = None
        self.trials, self.verdict = (), ()
        guided = isinstance(self.options[index], Guidance)
        self.stage = Stage.GUIDANCE if guided else Stage.LOADING

    @property
    def can_search(self) -> bool:
        """The way out is found by experiment, and somebody has to start it."""
        option = self.option
        searched = isinstance(option, Guidance) and option.fix_id == SEARCH_ID
        return searched and self.stage in (Stage.GUIDANCE, Stage.SEARCHED)

    def searching(self) -> None:
        """The experiment was started."""
        self.stage = Stage.SEARCHING
        self.trying, self.trials, self.verdict = None, (), ()

    def heard(self, item: Progress | Trial) -> None:
        """What is tried now, or what came of it."""
        if isinstance(item, Progress):
            self.trying = progress_text(item)
        else:
            self.trials = (*self.trials, trial_text(item))

    def found(self, found: NcclFound) -> None:
        """The end: a plan stands in the place of the words, and its preview is to be fetched."""
        self.trying, self.verdict = None, found.sentences()
        if found.plan is None:
            self.stage = Stage.SEARCHED
            return
        options = list(self.options)
        options[self.chosen] = found.plan
        self.options = tuple(options)
        self.preview, self.stage = None, Stage.LOADING

    def search_stopped(self) -> None:
        """It was cancelled; nothing was changed and nothing is left running."""
        self.trying = None
        self.stage = Stage.GUIDANCE

    @property
    def can_ask(self) -> bool:
        """After a change of the profile is in place: the server itself can prove it."""
        done = self.stage in (Stage.PROVEN, Stage.NOT_PROVEN) and self.answer is None
        plan = self.option
        edits = isinstance(plan, FixPlan) and any(isinstance(s, ProfileStep) for s in plan.steps)
        return done and edits

    def asking(self) -> None:
        """The server is started for one request."""
        self.stage = Stage.ASKING

    def answered(self, proof: ServerProof) -> None:
        """What came of it; a proof that could not be tried changes nothing."""
        proven = self.outcome is not None and self.outcome.proven
        self.answer = proof
        fine = proven if proof.proven is None else proof.proven
        self.stage = Stage.PROVEN if fine else Stage.NOT_PROVEN

    def got_preview(self, preview: FixPreview) -> None:
        """The exact commands and differences are known now."""
        if preview.plan == self.option:
            self.preview = preview
            self.stage = Stage.PREVIEW

    def applying(self) -> None:
        """Apply was pressed."""
        self.stage = Stage.APPLYING

    def applied(self, outcome: FixOutcome) -> None:
        """The fix was applied (or not), and what failed before was checked again."""
        self.outcome = outcome
        if not outcome.applied:
            self.stage = Stage.FAILED
        else:
            self.stage = Stage.PROVEN if outcome.proven else Stage.NOT_PROVEN

    def undoing(self) -> None:
        """Undo was pressed."""
        self.stage = Stage.UNDOING

    def undone(self) -> None:
        """Everything is as it was before."""
        self.stage = Stage.UNDONE

    def failed(self, error: TwinrigError) -> None:
        """Something went wrong; ``error`` says what and what to do next."""
        self.error = error
        self.stage = Stage.FAILED

    @property
    def can_apply(self) -> bool:
        """Only what was shown can be applied."""
        return self.stage is Stage.PREVIEW and self.preview is not None

    @property
    def can_undo(self) -> bool:
        """After a fix was applied, proven or not, if it can be taken back at all."""
        plan = self.option
        return (
            self.stage in (Stage.PROVEN, Stage.NOT_PROVEN)
            and self.outcome is not None
            and bool(self.outcome.entry_id)
            and isinstance(plan, FixPlan)
            and plan.reversible
        )

    def headline(self) -> Message:
        """What is going on, in one sentence."""
        if self.stage is Stage.FAILED and self.outcome is not None and self.error is None:
            return self.outcome.text
        if self.stage is Stage.FAILED and self.error is not None:
            return self.error.text
        if self.stage is Stage.GUIDANCE and self.can_search:
            return message("Twinrig finds this out by trying. Nothing is changed by it.")
        if self.stage is Stage.SEARCHING and self.trying is not None:
            return self.trying
        if self.stage is Stage.SEARCHED and self.verdict:
            return self.verdict[0]
        if self.answer is not None and self.stage in (Stage.PROVEN, Stage.NOT_PROVEN):
            return self.answer.text
        if self.stage is Stage.NOT_PROVEN and self.outcome and not self.outcome.results:
            return message("Applied. No check can prove this one.")
        if self.stage is Stage.NOT_PROVEN and self.outcome and not _still_wrong(self.outcome):
            return message("Applied, but whether it helped could not be checked.")
        return _HEADLINES[self.stage]

    def next_step(self) -> Message | None:
        """What to do now, where the headline alone does not say it."""
        if self.stage is Stage.FAILED and self.error is not None:
            return self.error.next_step
        if self.stage is Stage.NOT_PROVEN and self.outcome is not None and self.answer is None:
            return self.outcome.text
        if self.stage is Stage.SEARCHING:
            return message("Nothing is changed by this. It takes some minutes; you can cancel it.")
        return None

    def why(self) -> tuple[Message, ...]:
        """The verdict of the experiment in words, while its plan or its end is looked at."""
        if self.stage is Stage.SEARCHED:
            return self.verdict[1:]
        return self.verdict if self.stage in (Stage.LOADING, Stage.PREVIEW) else ()

    def notes(self) -> tuple[Message, ...]:
        """What must be known before Apply: risk, rights, restarts."""
        plan = self.option
        if not isinstance(plan, FixPlan):
            return ()
        notes = [] if plan.risk is None else [plan.risk]
        notes += [text for wanted, text in _plan_notes(plan) if wanted]
        return tuple(notes)


def _still_wrong(outcome: FixOutcome) -> bool:
    return any(result.status in (Status.FAIL, Status.WARN) for result in outcome.results)


_HEADLINES = {
    Stage.LOADING: message("Working out exactly what would be changed…"),
    Stage.GUIDANCE: message("Only you can do this. Follow these steps, then check again."),
    Stage.PREVIEW: message("This is exactly what will be changed. Nothing has been changed yet."),
    Stage.APPLYING: message("Applying, then checking again whether it helped…"),
    Stage.PROVEN: message("Proven: the check that failed passes now."),
    Stage.NOT_PROVEN: message("Not proven: the change was made, but the check still fails."),
    Stage.UNDOING: message("Taking the change back…"),
    Stage.UNDONE: message("Taken back: everything is as it was before."),
    Stage.SEARCHING: message("Trying whether the cards talk…"),
    Stage.SEARCHED: message("Nothing was found that helps."),
    Stage.ASKING: message("Starting the server and asking it once…"),
}


def _plan_notes(plan: FixPlan) -> tuple[tuple[bool, Message], ...]:
    return (
        (plan.needs_root, message("Parts of this run with administrator rights on Linux (root).")),
        (plan.needs_admin, message("Windows will ask for administrator rights.")),
        (plan.needs_wsl_shutdown, message("WSL has to be shut down once; it starts again.")),
        (plan.needs_reboot, message("The computer has to be restarted before it takes effect.")),
        (plan.needs_restart, message("A running server has to be restarted to use the change.")),
        (not plan.reversible, message("This cannot be taken back by Undo.")),
        (plan.reversible, message("You can take it back later with Undo on the Server page.")),
    )
