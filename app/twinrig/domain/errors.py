"""Errors a user can meet: each says what happened and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinrig.messages import Message, message


class TwinrigError(Exception):
    """Base of all expected errors. ``text`` says what happened, ``next_step`` what to do.

    Where the failure catalogue knows the fault, ``finding_id``, ``params`` and ``fixes`` (ids,
    best first) are those of the finding, for whoever offers a fix.
    """

    def __init__(
        self,
        text: Message,
        next_step: Message | None = None,
        *,
        finding_id: str = "",
        params: tuple[tuple[str, str], ...] = (),
        fixes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(str(text))
        self.text = text
        self.next_step = next_step
        self.finding_id = finding_id
        self.params = params
        self.fixes = fixes


class UsageError(TwinrigError):
    """The request itself is wrong (exit code 2 on the command line)."""


class HostError(TwinrigError):
    """The machine could not be reached or did not answer: nothing is known (exit code 3)."""


class HostAwayError(HostError):
    """The machine is away for now: stopped, restarting or updated. A later try may succeed."""


class HttpFaultError(HostError):
    """A server answers, but refuses. ``body`` is what it said, ``retry_after_s`` when to ask
    again, None when it does not say."""

    def __init__(
        self, url: str, status: int, body: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(
            message("{url} answers with status {status}.", url=url, status=status),
            message("Look into the log of the server."),
        )
        self.status = status
        self.body = body
        self.retry_after_s = retry_after_s


class ConflictError(TwinrigError):
    """Something changed meanwhile, or is in use by somebody else; nothing was written."""


class DamagedFileError(TwinrigError):
    """One of our own files cannot be read; it is left untouched."""


class NewerSchemaError(DamagedFileError):
    """One of our own files was written by a newer Twinrig; it is left untouched."""


class GpuUnavailableError(TwinrigError):
    """No driver, no library or no card: there is nothing to sample."""


@dataclass(frozen=True)
class FieldError:
    """One fault of one field. ``path`` is dotted, as in ``settings.context_length``."""

    path: str
    text: Message


class ProfileError(UsageError):
    """A profile has faults; all of them are listed in ``errors``."""

    def __init__(self, name: str, errors: Sequence[FieldError]) -> None:
        super().__init__(
            message("Faulty fields of the profile {name}: {count}.", name=name, count=len(errors)),
            message("Correct the listed fields and save again."),
        )
        self.errors = tuple(errors)
