"""The course of one fix in its dialog: choose, look, apply, proven or not, take back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from twinrig.domain.errors import TwinrigError
from twinrig.domain.fixes import FixPlan, Guidance
from twinrig.messages import Message, message

if TYPE_CHECKING:
    from twinrig.services.fixer import FixOutcome, FixPreview


class Stage(StrEnum):
    """Where the dialog stands. WORKING stages have their own words so that nothing is guessed."""

    LOADING = "loading"
    GUIDANCE = "guidance"
    PREVIEW = "preview"
    APPLYING = "applying"
    PROVEN = "proven"
    NOT_PROVEN = "not-proven"
    FAILED = "failed"
    UNDOING = "undoing"
    UNDONE = "undone"


BUSY = frozenset({Stage.LOADING, Stage.APPLYING, Stage.UNDOING})


@dataclass
class FixFlow:
    """State of the dialog. Each method is one event; the dialog only draws what is here."""

    options: tuple[FixPlan | Guidance, ...] = ()
    chosen: int = 0
    stage: Stage = Stage.LOADING
    preview: FixPreview | None = None
    outcome: FixOutcome | None = None
    error: TwinrigError | None = None

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
        guided = isinstance(self.options[index], Guidance)
        self.stage = Stage.GUIDANCE if guided else Stage.LOADING

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
        if self.stage is Stage.NOT_PROVEN and self.outcome and not self.outcome.results:
            return message("Applied. No check can prove this one.")
        return _HEADLINES[self.stage]

    def next_step(self) -> Message | None:
        """What to do now, where the headline alone does not say it."""
        if self.stage is Stage.FAILED and self.error is not None:
            return self.error.next_step
        if self.stage is Stage.NOT_PROVEN and self.outcome is not None:
            return self.outcome.text
        return None

    def notes(self) -> tuple[Message, ...]:
        """What must be known before Apply: risk, rights, restarts."""
        plan = self.option
        if not isinstance(plan, FixPlan):
            return ()
        notes = [] if plan.risk is None else [plan.risk]
        notes += [text for wanted, text in _plan_notes(plan) if wanted]
        return tuple(notes)


_HEADLINES = {
    Stage.LOADING: message("Working out exactly what would be changed…"),
    Stage.GUIDANCE: message("Only you can do this. Follow these steps, then check again."),
    Stage.PREVIEW: message("This is exactly what will be changed. Nothing has been changed yet."),
    Stage.APPLYING: message("Applying, then checking again whether it helped…"),
    Stage.PROVEN: message("Proven: the check that failed passes now."),
    Stage.NOT_PROVEN: message("Not proven: the change was made, but the check still fails."),
    Stage.UNDOING: message("Taking the change back…"),
    Stage.UNDONE: message("Taken back: everything is as it was before."),
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
