"""Higher limits of open files and locked memory, for logins and for the user's services.

Logins take them from limits.d (pam_limits), services of a user from systemd; both read them
anew with the next login or start of WSL.
"""

from __future__ import annotations

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import FixPlan
from twinrig.fixes.drop_ins import LIMITS, USER_MANAGER, USER_UNITS, drop_in
from twinrig.fixes.planning import nothing_to_change
from twinrig.messages import N_, Message, message

FILES = 65536
_HEAD = "# Written by Twinrig: engines need more open files and locked memory.\n"
LIMITS_TEXT = (
    f"{_HEAD}* soft nofile {FILES}\n* hard nofile 1048576\n"
    "* soft memlock unlimited\n* hard memlock unlimited\n"
)
MANAGER_TEXT = f"{_HEAD}[Service]\nLimitNOFILE={FILES}:1048576\nLimitMEMLOCK=infinity\n"
UNITS_TEXT = f"{_HEAD}[Manager]\nDefaultLimitNOFILE={FILES}:1048576\nDefaultLimitMEMLOCK=infinity\n"
_FILES = ((LIMITS, LIMITS_TEXT), (USER_MANAGER, MANAGER_TEXT), (USER_UNITS, UNITS_TEXT))


class Limits:
    """One plan under two names: whoever lacks one mostly lacks the other."""

    probes: tuple[str, ...] = ("drop_ins",)

    def __init__(self, fix_id: str, title: str) -> None:
        self.id = fix_id
        self.title = title

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises NothingToChangeError when all three files are in place."""
        steps = tuple(step for path, text in _FILES for step in drop_in(facts, path, text))
        if not steps:
            raise nothing_to_change(Message(self.title))
        return FixPlan(
            self.id,
            Message(self.title),
            steps,
            risk=message("Counts from the next login, or from the next start of WSL."),
            needs_root=True,
            needs_restart=True,
        )


LIMIT_FIXES = (
    Limits("env-nofile-limit", N_("Allow more open files")),
    Limits("limits-memlock", N_("Allow more locked memory")),
)
