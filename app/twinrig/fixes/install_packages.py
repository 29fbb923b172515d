"""Packages of Debian and Ubuntu that engines need to compile kernels at run time."""

from __future__ import annotations

import re

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import CommandStep, FixPlan
from twinrig.fixes.planning import UndecidedError
from twinrig.messages import N_, Message, message

_DEBIAN = re.compile(r"^os=(Ubuntu|Debian|Linux Mint)", re.MULTILINE)
_TIMEOUT_S = 900.0


class InstallPackages:
    """``python`` stands for headers of the environment's own Python."""

    probes: tuple[str, ...] = ("system", "environment")

    def __init__(self, fix_id: str, title: str, package: str) -> None:
        self.id = fix_id
        self.title = title
        self._package = package

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError on other distributions, or when Python's version is not known."""
        package = self._package
        if package == "python":
            found = re.search(r"^python=(\d+\.\d+)", facts.probe("environment").stdout, re.M)
            package = f"python{found[1]}-dev" if found else ""
        if not package or not _DEBIAN.search(facts.probe("system").stdout):
            raise UndecidedError(
                message("Twinrig does not know the packages of this distribution."),
                message("Install it with the distribution's own tool."),
            )
        argv = ("apt-get", "install", "-y", "--no-install-recommends", package)
        return FixPlan(
            self.id,
            Message(self.title),
            (CommandStep(argv, None, root=True, timeout_s=_TIMEOUT_S),),
            risk=message("Downloads up to 300 MB from the distribution."),
            needs_root=True,
            reversible=False,
        )


PACKAGE_FIXES = (
    InstallPackages("apt-build-essential", N_("Install a C compiler"), "build-essential"),
    InstallPackages("apt-python-dev", N_("Install the Python headers"), "python"),
)
