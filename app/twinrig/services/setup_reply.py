"""The last proof of a set-up: the new engine starts a tiny model and gives a first reply.

The server runs beside everything else, from the new folder, on a free port of loopback, and only
for this; what is in use is not touched.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from twinrig.domain.errors import HostError, TwinrigError
from twinrig.domain.install import EngineInstall
from twinrig.domain.launch import LaunchSpec
from twinrig.domain.ports import Host
from twinrig.domain.profile import EngineRef, ModelRef, Network, Profile
from twinrig.domain.supervision import Failure
from twinrig.engines.base import Engine, RenderContext
from twinrig.messages import message
from twinrig.services.installs import EngineFinder
from twinrig.services.rendering import render_profile
from twinrig.services.setup_script import SetupScript
from twinrig.services.setup_words import BUSY_CODE, SetupProgress, SetupStep, step_fault

MODEL_PROGRAM = "setup/tiny_model.py"
REPLY_PROGRAM = "setup/first_reply.py"
FOLDER = ".first-reply"
_END = "no first reply: "
_ENDED = re.compile(r"the server ended with (-?\d+)")
Explain = Callable[[Sequence[str], str], Failure]


class Trial(Protocol):
    """Which engine, and in which new folder of which root: see ``SetupPlan``."""

    @property
    def engine_id(self) -> str: ...
    @property
    def root(self) -> str: ...
    @property
    def folder(self) -> str: ...


@dataclass(frozen=True)
class ReplyLimits:
    """Seconds. A first start compiles kernels and builds caches."""

    start_s: float = 1200.0
    reply_s: float = 300.0
    stop_s: float = 60.0


@dataclass(frozen=True)
class FirstReply:
    """``read_text`` gives the programs, ``explain`` the cause of an end from what was said."""

    host: Host
    engines: Mapping[str, Engine]
    read_text: Callable[[str], str]
    explain: Explain
    on_wsl: bool = False
    limits: ReplyLimits = field(default_factory=ReplyLimits)

    async def prove(
        self, script: SetupScript, trial: Trial, tell: Callable[[SetupProgress], object]
    ) -> int:
        """Tokens of the reply. Raises HostError with the cause when there is none."""
        tell(SetupProgress(SetupStep.REPLY))
        engine = self.engines[trial.engine_id]
        install = await self._install(trial)
        code, output = await script.call("port", trial.folder)
        if code != 0 or not output.strip().isdecimal():
            raise step_fault(SetupStep.REPLY, code, output)
        spec = await self._spec(engine, install, trial, int(output))
        nonce = secrets.token_hex(8)
        words = (
            trial.folder,
            nonce,
            self._work(trial),
            self.read_text(MODEL_PROGRAM),
            self.read_text(REPLY_PROGRAM),
            self._request(spec),
        )
        ended, said = await script.follow(SetupStep.REPLY, "reply", *words, tell=tell)
        if ended in (None, BUSY_CODE):
            raise step_fault(SetupStep.REPLY, ended, said)
        told = [line for line in said.splitlines() if line.startswith(f"{nonce} tokens ")]
        if ended != 0 or not told:
            raise self._fault(ended, said)
        return int(told[-1].rpartition(" ")[2])

    async def _install(self, trial: Trial) -> EngineInstall:
        environment = f"{trial.root}/{trial.folder}/venv"
        found = await EngineFinder(self.host, self.engines).find(trial.engine_id, environment)
        if not found or not found[0].executable:
            raise HostError(
                message("What was installed holds no program of the engine to start."),
                message("Choose another version with --version."),
            )
        return found[0]

    async def _spec(
        self, engine: Engine, install: EngineInstall, trial: Trial, port: int
    ) -> LaunchSpec:
        known = {option.id for option in engine.options(install.version)}
        env = engine.default_env(gpu_count=1, on_wsl=self.on_wsl, version=install.version)
        profile = Profile(
            id="first-reply",
            name=engine.name,
            target="local",
            engine=EngineRef(engine.id, install.environment, install.version),
            model=ModelRef(f"{self._work(trial)}/model"),
            network=Network(port=port),
            settings={name: value for name, value in engine.trial.items() if name in known},
            env=dict(env),
        )
        context = RenderContext(install, self._work(trial), self.on_wsl)
        return (await render_profile(engine, profile, context, self.host))[0]

    def _work(self, trial: Trial) -> str:
        return f"{trial.root}/{trial.folder}/{FOLDER}"

    def _request(self, spec: LaunchSpec) -> str:
        return json.dumps(
            {
                "argv": spec.argv,
                "env": {**spec.env, "HF_HUB_OFFLINE": "1"},
                "unset": spec.unset,
                "cwd": spec.cwd,
                "files": [[file.path, file.content, file.mode] for file in spec.files],
                "port": spec.endpoint.port,
                "ready_path": spec.readiness.path,
                "reply_path": spec.readiness.completion_path,
                "body": spec.readiness.completion_body,
                "token": spec.bearer_token or "",
                "start_s": self.limits.start_s,
                "reply_s": self.limits.reply_s,
                "stop_s": self.limits.stop_s,
            }
        )

    def _fault(self, code: int, said: str) -> TwinrigError:
        """The program's own last line tells how it went wrong, the server's lines why."""
        lines = said.splitlines()
        ends = [line for line in lines if line.startswith(_END)]
        if not ends:
            return step_fault(SetupStep.REPLY, code, said)
        end = ends[-1].removeprefix(_END)
        found = _ENDED.fullmatch(end)
        if found is None:
            return HostError(
                message(
                    "The new version gave no first reply: {line}. What is in use was not touched.",
                    line=end,
                ),
                message("Free the cards from other programs, then try again."),
            )
        log = [line for line in lines if not line.startswith(_END)]
        failure = self.explain(log, f"exit code {found[1]}")
        return HostError(
            message(
                "The new version gave no first reply: {reason} What is in use was not touched.",
                reason=failure.text,
            ),
            failure.next_step,
            finding_id=failure.finding_id,
        )
