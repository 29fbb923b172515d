"""Answers the probe ``native_import``: the engine's own Python loads its compiled part."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping

from twinrig.domain.checks import ProbeOutput
from twinrig.domain.errors import HostError
from twinrig.domain.install import EngineInstall
from twinrig.domain.ports import Host
from twinrig.domain.profile import Profile
from twinrig.engines.base import Engine
from twinrig.messages import message

PROBE = "native_import"
PROGRAM = "probes/native_import.py"
_BOOT = (
    "import sys; exec(compile(sys.stdin.buffer.read(), 'twinrig-import', 'exec'), "
    "{'__name__': '__main__'})"
)
TIMEOUT_S = 180.0
"""A cold import of a large engine takes half a minute from a slow disk."""


class NativeImportProbe:
    """``read_text`` gives the program; ``engines`` tell which modules are compiled."""

    def __init__(
        self, host: Host, engines: Mapping[str, Engine], read_text: Callable[[str], str]
    ) -> None:
        self._host = host
        self._engines = engines
        self._read_text = read_text

    async def __call__(self, profile: Profile | None, install: EngineInstall | None) -> ProbeOutput:
        """The program's JSON. Raises HostError when there is no Python to run it on."""
        if profile is None or install is None or not install.environment:
            raise HostError(
                message("There is no engine whose Python could run the check."),
                message("Choose a profile with an engine that is installed."),
            )
        nonce = secrets.token_hex(16)
        modules = self._engines[profile.engine.id].layout.native
        words = [f"{name}={entry.value}" for name, entry in sorted(profile.env.items())]
        python = f"{install.environment}/bin/python"
        request = json.dumps({"nonce": nonce, "modules": list(modules)})
        result = await self._host.run(
            ("env", *words, python, "-I", "-c", _BOOT, request),
            timeout_s=TIMEOUT_S,
            stdin=self._read_text(PROGRAM).replace("\r\n", "\n").encode(),
        )
        lines = [line for line in result.output.splitlines() if line.startswith(f"{nonce} ")]
        answer = lines[-1].removeprefix(f"{nonce} ") if lines else ""
        errors = result.stderr.decode("utf-8", "replace")[-4000:]
        if answer:
            return ProbeOutput(PROBE, 0, answer, errors)
        code = result.returncode if result.returncode else 1
        return ProbeOutput(
            PROBE, None if result.timed_out else code, "", errors, timed_out=result.timed_out
        )
