"""Sets up an engine in an environment of its own: made beside the one in use, proven, then used.

Nothing but the engine's own folder on the target is written. Until the new environment has proven
itself, the one in use stays as it is; putting the new one into use is a change of the journal
and can be taken back like a fix.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from packaging.version import InvalidVersion, Version

from twinrig.domain.errors import ConflictError, TwinrigError, UsageError
from twinrig.domain.ports import Clock, Host, Lock
from twinrig.domain.quantities import gib
from twinrig.engines.base import Engine
from twinrig.engines.setup_table import SetupRecipe, WheelBuild, fits
from twinrig.messages import Message, message
from twinrig.services.setup_change import SetupChange
from twinrig.services.setup_machine import DriverLook
from twinrig.services.setup_reply import FirstReply
from twinrig.services.setup_script import ROOT, PythonFound, SetupLook, SetupScript
from twinrig.services.setup_wheels import wrong_wheel
from twinrig.services.setup_words import SetupProgress, SetupStep, may_help, step_fault

LOCK_NAME = "engine-setup"
FETCH_TRIES = 3
_PROVE_S = 600.0

Tell = Callable[[SetupProgress], object]


@dataclass(frozen=True)
class SetupSources:
    """Other places than those of the table, for a mirror. ``index`` replaces all wheel indexes,
    ``source`` the address of an engine's source ("" = as in the table)."""

    index: str = ""
    source: str = ""


@dataclass(frozen=True)
class SetupPlan:
    """What a set-up would do. ``environment`` is where profiles find it afterwards; ``replaces``
    names the folder in use ("" = none); ``kept_bytes`` were downloaded by one that was cut off."""

    engine_id: str
    name: str
    version: str
    build: WheelBuild
    python: PythonFound
    root: str
    environment: str
    folder: str
    replaces: str
    needs_bytes: int
    free_bytes: int
    kept_bytes: int
    cut_off: bool

    @property
    def about(self) -> str:
        """What the downloads belong to; another set-up cannot use them."""
        return f"{self.engine_id} {self.version} cuda{self.build.cuda} python{self.python.version}"


@dataclass(frozen=True)
class SetupResult:
    """``entry_id`` is the change in the journal; ``replied``: a tiny model gave a first reply,
    ``proven``: the profile's own model did."""

    entry_id: str
    environment: str
    replied: bool
    proven: bool
    text: Message


class EngineSetup:
    """Set-ups of one target; one at a time, between processes too."""

    def __init__(
        self,
        host: Host,
        engines: Mapping[str, Engine],
        recipes: Mapping[str, SetupRecipe],
        script: str,
        driver: DriverLook,
        change: SetupChange,
        clock: Clock,
        lock: Lock,
        reply: FirstReply,
        sources: SetupSources | None = None,
    ) -> None:
        self._reply = reply
        self._host = host
        self._engines = engines
        self._recipes = recipes
        self._text = script
        self._driver = driver
        self._change = change
        self._clock = clock
        self._lock = lock
        self._sources = sources or SetupSources()

    @property
    def engines(self) -> tuple[str, ...]:
        """Ids of the engines that can be set up here; none on a simulated machine."""
        return () if self._host.demo else tuple(self._recipes)

    async def plan(self, engine_id: str, version: str = "", cuda: int | None = None) -> SetupPlan:
        """What would be done; nothing is changed. ``cuda`` overrules what the driver says.

        Raises UsageError with the reason why it cannot be done here, HostError when the machine
        does not answer.
        """
        recipe = self._recipe(engine_id)
        build = await self._build(recipe, cuda)
        script = await self._script(engine_id)
        look = await script.look()
        python = _python(look, build)
        wanted = version.strip() or recipe.version
        _check_version(wanted)
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        plan = SetupPlan(
            engine_id=engine_id,
            name=self._engines[engine_id].name,
            version=wanted,
            build=build,
            python=python,
            root=script.root,
            environment=f"{script.root}/current/venv",
            folder=f"env-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
            replaces=look.current,
            needs_bytes=recipe.needs_bytes,
            free_bytes=look.free_bytes,
            kept_bytes=0,
            cut_off=bool(look.partial or look.wheels_bytes),
        )
        if look.about == plan.about:
            plan = replace(plan, kept_bytes=look.wheels_bytes)
        _check_disk(plan)
        return plan

    async def run(
        self, plan: SetupPlan, tell: Tell, profile_id: str = "", *, ask: bool = True
    ) -> SetupResult:
        """Set it up; with ``profile_id`` that profile uses it and proves it by a first reply.

        Before it is put into use it gives a first reply of a tiny model, unless a server holds
        the cards or ``ask`` is False.

        Raises UsageError, HostError, ConflictError: what was in use before is in use still. When
        cancelled, what is downloaded is kept for the next time.
        """
        recipe = self._recipe(plan.engine_id)
        self._hold()
        try:
            script = await self._script(plan.engine_id)
            await script.clean(keep_wheels=True)
            ask = ask and not await self._change.busy()
            await self._build_environment(script, plan, recipe, tell, ask)
            tell(SetupProgress(SetupStep.SWITCH))
            entry_id = await self._change.apply(plan, profile_id)
            proven = bool(profile_id) and await self._change.prove(entry_id, profile_id, tell)
            await script.clean(keep_wheels=False)
        finally:
            self._lock.release()
        text = _done(plan, ask, proven, profile_id)
        return SetupResult(entry_id, plan.environment, ask, proven, text)

    async def discard(self, engine_id: str) -> None:
        """Drop what a cut set-up has left. The versions in use and before it stay."""
        self._recipe(engine_id)
        self._hold()
        try:
            script = await self._script(engine_id)
            await script.clean(keep_wheels=False)
        finally:
            self._lock.release()

    def _hold(self) -> None:
        if not self._lock.acquire(LOCK_NAME):
            raise ConflictError(
                message("Another window or terminal is setting up an engine."),
                message("Wait until it is done, then try again."),
            )

    async def _build_environment(
        self, script: SetupScript, plan: SetupPlan, recipe: SetupRecipe, tell: Tell, ask: bool
    ) -> None:
        """Make, fill and prove the new environment; on failure it is gone, its downloads not."""
        try:
            name = plan.folder
            await _step(script, SetupStep.MAKE, tell, "make", name, plan.python.path, plan.about)
            await self._requirements(script, plan, recipe, tell)
            await self._fetch(script, plan, tell)
            await _step(script, SetupStep.INSTALL, tell, "install", name)
            await self._import(script, plan, recipe, tell)
            if ask:
                await self._reply.prove(script, plan, tell)
            shared, carried = " ".join(recipe.shared), " ".join(recipe.carried)
            await _step(script, SetupStep.SWITCH, tell, "adopt", name, shared, carried)
            await _step(script, SetupStep.SWITCH, tell, "seal", name)
        except TwinrigError:
            await script.clean(keep_wheels=True)
            raise

    async def _requirements(
        self, script: SetupScript, plan: SetupPlan, recipe: SetupRecipe, tell: Tell
    ) -> None:
        name, at = plan.folder, SetupStep.SOURCE
        if not recipe.source:
            wanted = [text.format(version=plan.version) for text in recipe.requires]
            await _step(script, SetupStep.FETCH, tell, "require", name, *wanted)
            return
        address = (self._sources.source or recipe.source).format(version=plan.version)
        await _retried(script, at, tell, "source", name, address)
        await _step(script, at, tell, "requirements", name, plan.build.group)

    async def _fetch(self, script: SetupScript, plan: SetupPlan, tell: Tell) -> None:
        extra = " ".join(index.format(version=plan.version) for index in plan.build.indexes)
        index = self._sources.index
        await _retried(
            script, SetupStep.FETCH, tell, "fetch", plan.folder, index, "" if index else extra
        )
        _code, output = await script.call("wheels", plan.folder)
        wrong = wrong_wheel(
            output.split(), plan.build.cuda, self._engines[plan.engine_id].layout.package
        )
        if wrong:
            await script.clean(keep_wheels=False)
            raise UsageError(
                message(
                    "{wheel} is built for another CUDA than {cuda}, which this driver needs.",
                    wheel=wrong,
                    cuda=plan.build.cuda,
                ),
                message("Choose another version with --version, or update the driver."),
                finding_id="cudart13-missing",
            )

    async def _import(
        self, script: SetupScript, plan: SetupPlan, recipe: SetupRecipe, tell: Tell
    ) -> None:
        tell(SetupProgress(SetupStep.IMPORT))
        nonce = secrets.token_hex(8)
        words = " ".join(recipe.imports), " ".join(recipe.native)
        code, output = await script.call("prove", plan.folder, nonce, *words, timeout_s=_PROVE_S)
        told = [line for line in output.splitlines() if line.startswith(f"{nonce} torch_cuda ")]
        if code != 0 or not told:
            raise step_fault(SetupStep.IMPORT, code, output)
        cuda = told[0].rsplit(" ", 1)[1]
        if cuda.partition(".")[0] != str(plan.build.cuda):
            raise UsageError(
                message(
                    "The torch that was installed is built for CUDA {cuda}, not for {wanted}.",
                    cuda=cuda,
                    wanted=plan.build.cuda,
                ),
                message("Choose another version with --version."),
            )

    async def _build(self, recipe: SetupRecipe, cuda: int | None) -> WheelBuild:
        if cuda is not None:
            found = next((b for b in recipe.builds if b.cuda == cuda), None)
            known = ", ".join(str(b.cuda) for b in recipe.builds)
            if found is None:
                raise UsageError(
                    message("There are no wheels for CUDA {cuda}.", cuda=cuda),
                    message("Known: {names}", names=known),
                )
            return found
        branch = await self._driver.branch()
        build = recipe.build_for(branch)
        if build is None:
            lowest = min(b.driver for b in recipe.builds)
            raise UsageError(
                message(
                    "The NVIDIA driver {driver} is older than {lowest}, which the engine needs.",
                    driver=branch,
                    lowest=lowest,
                ),
                message("Update the driver, then try again."),
                finding_id="driver-too-old",
            )
        return build

    def _recipe(self, engine_id: str) -> SetupRecipe:
        recipe = self._recipes.get(engine_id)
        if recipe is None:
            raise UsageError(
                message("{engine} is no engine that Twinrig can set up.", engine=engine_id),
                message("Engines that can be set up: {names}", names=", ".join(self._recipes)),
            )
        if self._host.demo:
            raise UsageError(
                message("The demo rig needs no set-up: its engine comes with Twinrig."),
                message(
                    '"twinrig --target local setup {engine}" sets {name} up on this Linux machine, '
                    "--target wsl does so in WSL from Windows.",
                    engine=engine_id,
                    name=self._engines[engine_id].name,
                ),
            )
        return recipe

    async def _script(self, engine_id: str) -> SetupScript:
        home = (await self._host.home()).rstrip("/")
        return SetupScript(self._host, self._text, f"{home}/{ROOT}/{engine_id}")


async def _step(script: SetupScript, at: SetupStep, tell: Tell, step: str, *args: str) -> None:
    tell(SetupProgress(at))
    code, output = await script.follow(at, step, *args, tell=tell)
    if code != 0:
        raise step_fault(at, code, output)


async def _retried(script: SetupScript, at: SetupStep, tell: Tell, step: str, *args: str) -> None:
    """A step that talks to others: a lost connection is tried again, what is whole is kept."""
    tell(SetupProgress(at))
    for left in reversed(range(FETCH_TRIES)):
        code, output = await script.follow(at, step, *args, tell=tell)
        if code == 0:
            return
        if not left or not may_help(output):
            raise step_fault(at, code, output)


def _python(look: SetupLook, build: WheelBuild) -> PythonFound:
    fitting = [p for p in look.pythons if fits(p.version, build.python)]
    able = next((p for p in fitting if p.able), None)
    if able is not None:
        return able
    if fitting:
        name = f"python{'.'.join(fitting[0].version.split('.')[:2])}"
        raise UsageError(
            message("{python} cannot make environments.", python=fitting[0].path),
            message(
                "On Debian and Ubuntu: sudo apt install {package}. Then try again.",
                package=f"{name}-venv",
            ),
        )
    found = ", ".join(p.version for p in look.pythons) or "-"
    raise UsageError(
        message("The engine needs Python {range}; found: {found}", range=build.python, found=found),
        message("Install such a Python on the Linux side, with its venv package."),
    )


def _check_version(version: str) -> None:
    """A number, or a commit: nothing else may become a part of an address."""
    if len(version) == 40 and all(c in "0123456789abcdef" for c in version):
        return
    try:
        Version(version)
    except InvalidVersion:
        raise UsageError(
            message("{version} is no version.", version=version),
            message("Give a number such as 0.33.0, or leave it out for the one that was tried."),
        ) from None


def _check_disk(plan: SetupPlan) -> None:
    wanted = plan.needs_bytes - plan.kept_bytes
    if plan.free_bytes < max(wanted, plan.needs_bytes // 4):
        raise UsageError(
            message(
                "Setting up {engine} needs about {needed} GiB; {free} GiB are free in {folder}.",
                engine=plan.name,
                needed=gib(wanted),
                free=gib(plan.free_bytes),
                folder=plan.root,
            ),
            message("Free some space, then try again."),
            finding_id="disk-full",
        )


def _done(plan: SetupPlan, replied: bool, proven: bool, profile_id: str) -> Message:
    if proven:
        return message("{engine} is set up, and your model gave a first reply.", engine=plan.name)
    if replied:
        return message("{engine} is set up, and gave a first reply.", engine=plan.name)
    if profile_id:
        return message(
            "{engine} is set up; its compiled part loads. A server is running, so the first reply "
            "is asked at its next start.",
            engine=plan.name,
        )
    return message(
        "{engine} is set up; its compiled part loads. The first start proves the rest.",
        engine=plan.name,
    )
