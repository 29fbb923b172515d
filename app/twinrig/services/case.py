"""One log to be diagnosed, with everything that is known about the server that wrote it."""

from __future__ import annotations

import asyncio
import getpass
import platform
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from twinrig.diagnosis.explain import Report
from twinrig.diagnosis.facts import NOTED
from twinrig.diagnosis.normalise import LogDecoder
from twinrig.domain.checks import CheckResult
from twinrig.domain.errors import HostError, TwinrigError, UsageError
from twinrig.domain.profile import Profile
from twinrig.domain.server import ServerState
from twinrig.messages import message
from twinrig.services.diagnoser import Diagnoser
from twinrig.services.journal import JournalEntry
from twinrig.services.redaction import Redactor
from twinrig.services.report import LOG_LINES, ReportParts, build_report
from twinrig.services.run_context import kernel_log, profile_facts
from twinrig.services.workbench import Workbench

TAIL_BYTES = 512 * 1024


@dataclass(frozen=True)
class Case:
    """``path`` of the log ("-" = it was read from the input); ``facts`` beside it."""

    path: str
    facts: Mapping[str, str]
    profile: Profile | None = None
    changes: Sequence[JournalEntry] = ()
    state: str = ""
    checks: Sequence[CheckResult] = ()
    secrets: Sequence[str] = field(default=(), repr=False)


async def own_report(bench: Workbench, profile_id: str, diagnoser: Diagnoser) -> str:
    """The masked report of a profile's own server with the checks of its machine; also of one
    that has not written a log yet. Raises HostError when the log cannot be read."""
    case = await own_case(bench, profile_id, {}, needs_log=False)
    checks = await checks_of(bench, case.profile)
    return await asyncio.to_thread(_own_report, replace(case, checks=checks), diagnoser)


async def checks_of(bench: Workbench, profile: Profile | None) -> tuple[CheckResult, ...]:
    """Results of all cheap checks; read-only."""
    return tuple([result async for result in bench.preflight.run(profile)])


def _own_report(case: Case, diagnoser: Diagnoser) -> str:
    try:
        with Path(case.path).open("rb") as source:
            found = diagnoser.diagnose(source, case.facts)
    except FileNotFoundError:
        return case_report(case, None)
    except OSError as error:
        raise HostError(
            message(
                "{path} cannot be read: {reason}.",
                path=case.path,
                reason=error.strerror or str(error),
            ),
            message("Check the name and the permissions of the file."),
        ) from error
    return case_report(case, found)


async def own_case(
    bench: Workbench, profile_id: str, given: Mapping[str, str], *, needs_log: bool = True
) -> Case:
    """The case of a profile's own server. ``given`` facts win over what is found out.

    Raises UsageError when it needs a log and the server has not written one.
    """
    facts: dict[str, str] = {}
    profile: Profile | None = None
    secrets: list[str] = []
    try:
        profile = bench.profiles.load(profile_id)
    except TwinrigError:
        pass  # the log of a broken profile can be read all the same
    else:
        facts.update(
            profile_facts(profile, bench.engines.get(profile.engine.id), on_wsl=bench.on_wsl)
        )
        secrets.extend(await _secret(bench, profile))
    path = bench.layout.log(profile_id)
    if needs_log and not path.exists():
        raise UsageError(
            message("The server of {profile} has not written a log yet.", profile=profile_id),
            message("Start it, or name a log file."),
        )
    status = await bench.controller.status(profile_id)
    state = ""
    if status.record is not None:
        record = status.record
        state = f"{record.engine_id}: {record.state.value}, last exit: {record.last_exit or '-'}"
        if record.state is ServerState.STOPPED:
            facts["stop_requested"] = "true"
        if record.last_exit:
            facts["exit"] = record.last_exit
        if record.started_at_s is not None and not bench.demo:
            age = max(0.0, bench.clock.now() - record.started_at_s)
            facts["dmesg"] = await kernel_log(bench.onlooker, age)
    changes = bench.journal.entries()
    return Case(
        str(path), {**facts, **given}, profile, changes, state=state, secrets=tuple(secrets)
    )


async def _secret(bench: Workbench, profile: Profile) -> list[str]:
    if not profile.network.key_name:
        return []
    try:
        key = await bench.secrets.get(profile.network.key_name)
    except TwinrigError:
        return []
    return [key] if key else []


def _versions(facts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Known versions, from the run or else as noted in the profile."""
    names = ("vllm", "exllamav3", "wsl_version")
    found = ((name, facts.get(name) or facts.get(f"{NOTED}{name}", "")) for name in names)
    return [(name, version) for name, version in found if version]


def case_report(case: Case, report: Report | None) -> str:
    """The masked report of a case, with the last lines of its log; ``report`` None: no log."""
    names = [platform.node(), _user()]
    parts = ReportParts(
        diagnosis=report,
        log=() if case.path == "-" else tail(Path(case.path)),
        profile=case.profile,
        versions=_versions(case.facts),
        checks=case.checks,
        changes=case.changes,
        state=case.state,
    )
    return build_report(parts, Redactor(case.secrets, names), now_s=time.time())


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def tail(path: Path) -> list[str]:
    """Last lines of a log; empty when it cannot be read."""
    decoder = LogDecoder()
    try:
        with path.open("rb") as source:
            head = source.read(2)
            size = path.stat().st_size
            start = max(0, size - TAIL_BYTES) // 2 * 2
            source.seek(start)
            data = source.read(TAIL_BYTES + 2)
    except OSError:
        return []
    if start and head in (b"\xff\xfe", b"\xfe\xff"):
        data = head + data
    lines = decoder.feed(data) + decoder.finish()
    return list(deque(lines[1:] if start else lines, maxlen=LOG_LINES))
