"""Files of our own below /etc, each whole: what is there is read by the probe ``drop_ins``."""

from __future__ import annotations

import hashlib

from twinrig.domain.checks import Facts
from twinrig.domain.fixes import WriteFileStep
from twinrig.fixes.planning import UndecidedError
from twinrig.messages import message

LIMITS = "/etc/security/limits.d/60-twinrig.conf"
USER_MANAGER = "/etc/systemd/system/user@.service.d/60-twinrig.conf"
USER_UNITS = "/etc/systemd/user.conf.d/60-twinrig.conf"
LOADER = "/etc/ld.so.conf.d/ld.wsl.conf"


def drop_in(facts: Facts, path: str, content: str) -> tuple[WriteFileStep, ...]:
    """The step that makes ``path`` hold ``content``; none when it does.

    Raises UndecidedError when what is there could not be read.
    """
    output = facts.probe("drop_ins")
    known = {words[-1]: words for words in map(str.split, output.stdout.splitlines()) if words}
    words = known.get(path, [])
    if output.returncode != 0 or not words or words[0] not in ("absent", "sha256"):
        raise UndecidedError(
            message("{path} could not be read.", path=path),
            message("Look at the file, then try again."),
        )
    present = words[1] if words[0] == "sha256" and len(words) == 3 else ""
    if present == hashlib.sha256(content.encode()).hexdigest():
        return ()
    return (WriteFileStep(path, content, expected_sha256=present, root=True),)
