"""Preflight: asks all cheap questions in one call to the Linux side, and those that only Windows
can answer beside it; then judges the answers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from twinrig import assets
from twinrig.checks.probe_protocol import build_script, probe_names, read_answer, request_for
from twinrig.checks.registry import with_prerequisites
from twinrig.domain.checks import (
    Check,
    CheckResult,
    Cost,
    Evidence,
    Facts,
    ProbeOutput,
    Status,
)
from twinrig.domain.errors import TwinrigError, UsageError
from twinrig.domain.install import EngineInstall
from twinrig.domain.ports import Clock, Host
from twinrig.domain.profile import Profile
from twinrig.domain.windows import WindowsFacts, is_windows_probe
from twinrig.messages import Message, message

CALL_TIMEOUT_S = 40.0
"""For the whole call; each probe has a shorter limit of its own inside the script."""

_FULFILLED = frozenset({Status.PASS, Status.WARN})


class InstallSource(Protocol):
    """Where engines are looked up; ``EngineFinder`` is one."""

    async def find(self, engine_id: str, environment: str = "") -> tuple[EngineInstall, ...]:
        """Best first. Raises HostError when the target cannot be reached."""
        ...


class ProbeProgram(Protocol):
    """Answers one probe that is more than a question to the machine, such as a collective."""

    async def __call__(self, profile: Profile | None, install: EngineInstall | None) -> ProbeOutput:
        """Raises HostError when there is no answer."""
        ...


class Preflight:
    """Runs checks on one target. Nothing is kept between two runs: a fix changes answers.

    ``programs`` answer probes that the probe script does not have; slow checks only.
    ``windows`` answers those of the Windows side; None where Twinrig does not run there.
    """

    def __init__(
        self,
        host: Host,
        checks: Sequence[Check],
        finder: InstallSource,
        clock: Clock,
        *,
        sysroot: str = "",
        programs: Mapping[str, ProbeProgram] | None = None,
        windows: WindowsFacts | None = None,
    ) -> None:
        self._host = host
        self._programs = dict(programs or {})
        self._windows = windows
        self._finder = finder
        self._clock = clock
        self._sysroot = sysroot
        self.checks: tuple[Check, ...] = tuple(checks)

    async def run(
        self, profile: Profile | None = None, ids: Collection[str] | None = None
    ) -> AsyncIterator[CheckResult]:
        """Results in registry order. Without ``ids``: all cheap checks; with them: those named,
        slow ones too; what they require is judged but not reported.

        Raises UsageError for an unknown id; everything else becomes a result.
        """
        chosen, reported = self._choose(ids, profile)
        cheap = [check for check in chosen if check.cost is Cost.CHEAP]
        facts, fault = await self._gather(profile, probe_names(cheap))
        results: dict[str, CheckResult] = {}
        for check in chosen:
            view, problem = facts, fault
            if check.cost is Cost.SLOW and self._unmet(check, profile, results) is None:
                view, problem = await self._gather(profile, (*check.probes, *check.optional))
            result = await self._judge(check, view, problem, results)
            results[check.id] = result
            if check.id in reported:
                yield result

    async def facts(self, profile: Profile | None, names: Sequence[str]) -> Facts:
        """Answers of these probes, with profile and engine. Raises HostError."""
        facts, problem = await self._gather(profile, names)
        if problem is not None:
            raise problem
        return facts

    def asking(self, **programs: ProbeProgram) -> Preflight:
        """The same preflight with other programs for some probes."""
        return Preflight(
            self._host,
            self.checks,
            self._finder,
            self._clock,
            sysroot=self._sysroot,
            programs={**self._programs, **programs},
            windows=self._windows,
        )

    async def _ask(
        self, profile: Profile | None, install: EngineInstall | None, names: Sequence[str]
    ) -> dict[str, ProbeOutput]:
        request = request_for(
            profile,
            probe_names((), names),
            nonce=secrets.token_hex(16),
            environment=install.environment if install else "",
            sysroot=self._sysroot,
        )
        script = build_script(assets.read_text("probes/linux.sh"), request)
        result = await self._host.run(script, timeout_s=CALL_TIMEOUT_S)
        return dict(read_answer(request, result))

    def _choose(
        self, ids: Collection[str] | None, profile: Profile | None
    ) -> tuple[tuple[Check, ...], frozenset[str]]:
        if ids is None:
            cheap = tuple(
                check
                for check in self.checks
                if check.cost is Cost.CHEAP and is_about(check, profile)
            )
            return cheap, frozenset(check.id for check in cheap)
        known = {check.id for check in self.checks}
        unknown = sorted(set(ids) - known)
        if unknown:
            raise UsageError(
                message("There is no check {id}.", id=unknown[0]),
                message("Checks: {ids}", ids=", ".join(check.id for check in self.checks)),
            )
        return with_prerequisites(self.checks, ids), frozenset(ids)

    async def _find(self, profile: Profile | None) -> tuple[EngineInstall | None, Message | None]:
        if profile is None:
            return None, None
        try:
            found = await self._finder.find(profile.engine.id, profile.engine.environment)
        except TwinrigError as error:
            return None, error.text
        return (found[0] if found else None), None

    async def _gather(
        self, profile: Profile | None, names: Sequence[str]
    ) -> tuple[Facts, TwinrigError | None]:
        """What could be learnt, and why the Linux side said nothing, if so."""
        windows = asyncio.create_task(self._ask_windows(profile, names))
        try:
            install, install_error = await self._find(profile)
            answers: dict[str, ProbeOutput] = {}
            problem: TwinrigError | None = None
            try:
                answers = await self._ask_linux(profile, install, names)
            except TwinrigError as error:
                problem = error
            answers |= await windows
        finally:
            windows.cancel()
        return Facts(answers, profile, install, install_error=install_error), problem

    async def _ask_windows(
        self, profile: Profile | None, names: Sequence[str]
    ) -> Mapping[str, ProbeOutput]:
        asked = [name for name in names if is_windows_probe(name)]
        if self._windows is None or not asked:
            return {}
        network = None if profile is None else profile.network
        endpoint = "" if network is None else f"{network.host}:{network.port}"
        return await asyncio.to_thread(self._windows.answer, asked, endpoint)

    async def _ask_linux(
        self, profile: Profile | None, install: EngineInstall | None, names: Sequence[str]
    ) -> dict[str, ProbeOutput]:
        own = [name for name in names if not is_windows_probe(name)]
        asked = [name for name in own if name not in self._programs]
        answers = {} if not asked else await self._ask(profile, install, asked)
        for name in own:
            if name in self._programs:
                answers[name] = await self._programs[name](profile, install)
        return answers

    def _unmet(
        self, check: Check, profile: Profile | None, results: Mapping[str, CheckResult]
    ) -> Message | None:
        if check.needs_profile and profile is None:
            return message("No profile was given.")
        if not is_about(check, profile):
            return message("Only asked for {engines}.", engines=", ".join(check.engines))
        if self._windows is None and any(map(is_windows_probe, check.probes)):
            return message("Only asked where Twinrig runs on Windows and the server in WSL.")
        titles = {other.id: other.title for other in self.checks}
        for required in check.requires:
            result = results.get(required)
            if result is None or result.status not in _FULFILLED:
                return message(
                    "Not asked, because this must be fine first: {check}",
                    check=Message(titles.get(required, required)),
                )
        return None

    async def _judge(
        self,
        check: Check,
        facts: Facts,
        problem: TwinrigError | None,
        results: Mapping[str, CheckResult],
    ) -> CheckResult:
        reason = self._unmet(check, facts.profile, results)
        if reason is not None:
            return CheckResult(check.id, Status.SKIP, reason)
        if problem is not None and not all(map(is_windows_probe, check.probes)):
            return CheckResult(check.id, Status.ERROR, problem.text, next_step=problem.next_step)
        started = self._clock.monotonic()
        result = await _bounded(check, facts)
        finding = result.finding and replace(result.finding, check_id=check.id)
        spent = max(0.0, self._clock.monotonic() - started)
        return replace(result, finding=finding, duration_s=spent)


def is_about(check: Check, profile: Profile | None) -> bool:
    """Whether the profile's engine is one that the check is about; unknown reads as yes."""
    return not check.engines or profile is None or profile.engine.id in check.engines


async def _bounded(check: Check, facts: Facts) -> CheckResult:
    """Judge with the check's time-out; a crash is this check's ERROR and nobody else's."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(check.judge, facts), check.timeout_s)
    except TimeoutError:
        return CheckResult(
            check.id,
            Status.ERROR,
            message("The check took longer than {limit} s.", limit=f"{check.timeout_s:g}"),
        )
    except Exception as error:  # noqa: BLE001 - a faulty check must not take the others along
        return CheckResult(
            check.id,
            Status.ERROR,
            message("The check itself failed; this is a fault of Twinrig."),
            evidence=(Evidence("exception", f"{type(error).__name__}: {error}"),),
            next_step=message("Please report it with the evidence."),
        )
