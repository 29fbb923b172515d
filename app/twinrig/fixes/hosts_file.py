"""Enter the computer's own name in /etc/hosts, where the ranks of a server look it up."""

from __future__ import annotations

import base64
import binascii

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import FixPlan, WriteFileStep
from twinrig.fixes.planning import UndecidedError, nothing_to_change
from twinrig.messages import N_, message

PATH = "/etc/hosts"


class HostsFile:
    """Adds one line behind the others and leaves them as they are."""

    id = "wsl-hosts-fix"
    title = N_("Enter the computer's own name in /etc/hosts")
    probes: tuple[str, ...] = ("hosts",)

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises NothingToChangeError when the name is known."""
        title = message("Enter the computer's own name in /etc/hosts")
        values = dict(line.partition("=")[::2] for line in facts.probe("hosts").stdout.splitlines())
        name = values.get("hostname", "")
        if values.get("known") == "yes":
            raise nothing_to_change(title)
        try:
            present = base64.b64decode(values["base64"], validate=True).decode("utf-8")
        except (KeyError, ValueError, binascii.Error):
            present = ""
        if not present or not name or "sha256" not in values:
            raise UndecidedError(
                message("{path} could not be read.", path=PATH),
                message("Look at the file, then try again."),
            )
        gap = "" if present.endswith("\n") else "\n"
        content = f"{present}{gap}127.0.1.1 {name}\n"
        step = WriteFileStep(PATH, content, expected_sha256=values["sha256"], root=True)
        return FixPlan(
            self.id,
            title,
            (step,),
            risk=message(
                "WSL writes this file anew at each start, unless generateHosts is off in "
                "/etc/wsl.conf."
            ),
            needs_root=True,
        )
