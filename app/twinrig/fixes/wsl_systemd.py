"""Switch systemd on: ``[boot] systemd=true`` in ``/etc/wsl.conf``, then restart the distribution.

WSL stops reading that file at the first line that it cannot use (Windows line ends are disputed).
"""

from __future__ import annotations

import base64
import binascii

from twinrig.domain.checks import Facts, Finding
from twinrig.domain.fixes import FixPlan, FixStep, RestartWslStep, WriteFileStep
from twinrig.domain.ini_text import edit_ini
from twinrig.domain.wsl_config import ConfigFile
from twinrig.fixes.planning import UndecidedError, nothing_to_change
from twinrig.messages import N_, message

PATH = "/etc/wsl.conf"


class WslSystemd:
    """Needs root in the distribution. Without Windows the restart is left to the user."""

    id = "wsl-enable-systemd"
    title = N_("Switch systemd on in the distribution")
    probes: tuple[str, ...] = ("wsl_conf", "windows_wsl")

    def plan(self, finding: Finding, facts: Facts) -> FixPlan:
        """Raises UndecidedError when the file has a line that hides all below it."""
        title = message("Switch systemd on in the distribution")
        config = wsl_conf(facts)
        if config.ini().broken:
            raise UndecidedError(
                message(
                    "WSL stops reading {path} at line {line}, which it cannot use.",
                    path=PATH,
                    line=config.ini().broken[0],
                ),
                message("Correct that line by hand first."),
            )
        text = edit_ini(config.text, {("boot", "systemd"): "true"})
        if text == config.text:
            raise nothing_to_change(title)
        steps: tuple[FixStep, ...] = (
            WriteFileStep(PATH, text, config.sha256, root=True, encoding=config.encoding),
        )
        if facts.probe("windows_wsl").returncode == 0:
            steps = (*steps, RestartWslStep(whole=False))
        dos = message("The file has Windows line ends, which some versions of WSL do not read.")
        plain = message("Services that the distribution has switched on will start with it.")
        return FixPlan(
            self.id,
            title,
            steps,
            risk=dos if "\r\n" in config.text else plain,
            needs_root=True,
            needs_wsl_shutdown=True,
        )


def wsl_conf(facts: Facts) -> ConfigFile:
    """The file as the probe told it. Raises UndecidedError when that cannot be read."""
    output = facts.probe("wsl_conf")
    if output.returncode == 0 and output.stdout.strip() == "absent":
        return ConfigFile.of(PATH, None)
    pairs = dict(line.partition("=")[::2] for line in output.stdout.splitlines() if "=" in line)
    if output.returncode == 0 and "base64" in pairs:
        try:
            config = ConfigFile.of(PATH, base64.b64decode(pairs["base64"], validate=True))
        except (binascii.Error, ValueError):
            config = None
        if config is not None and config.sha256 == pairs.get("sha256"):
            return config
    raise UndecidedError(
        message("{path} could not be read.", path=PATH),
        message("Look at the file, then try again."),
    )
