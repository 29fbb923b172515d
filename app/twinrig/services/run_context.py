"""What is known about a run beside its log: the profile, and what the kernel said."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from twinrig.diagnosis.crashes import is_asynchronous
from twinrig.diagnosis.explain import PREVIOUS_CRASH, explain_exit
from twinrig.diagnosis.facts import NOTED
from twinrig.diagnosis.rules import Rules
from twinrig.domain.errors import HostError, TwinrigError
from twinrig.domain.ports import ExitStatus, Host
from twinrig.domain.profile import Profile
from twinrig.domain.supervision import Failure
from twinrig.engines.base import Engine

KERNEL_LINES = 400
CLOCK_SLACK_S = 5.0
_UPTIME = re.compile(r"(\d+(?:\.\d+)?) ")
_STAMP = re.compile(r"(?:<\d+>)?\[ *(\d+\.\d+)\]")
_PROCESS = re.compile(r"\s*(\d+)\s+(\d+)\s+(\S.*)")
_WORKER = "VLLM::"
_MAX_ORPHANS = 32
_PTRACE = "/proc/sys/kernel/yama/ptrace_scope"
_DECISIVE = ("dxg", "oom", "Out of memory", "Killed process", "EXT4-fs", "NVRM", "Remounting")


def profile_facts(profile: Profile, engine: Engine | None, *, on_wsl: bool) -> dict[str, str]:
    """Facts that rules may ask for, named as in the failure catalogue.

    The profile's version is that of the day on which it was made: the log of a run knows better.
    """
    facts = {name: entry.value for name, entry in profile.env.items()}
    facts["platform"] = "wsl2" if on_wsl else "linux"
    facts["engine"] = profile.engine.id
    facts["model_path"] = profile.model.path
    if engine is not None and engine.layout.package and profile.engine.version:
        facts[f"{NOTED}{engine.layout.package}"] = profile.engine.version
    for name, value in profile.settings.items():
        facts[f"config.{name}"] = str(value).lower() if isinstance(value, bool) else str(value)
    size = profile.settings.get("tensor_parallel_size")
    if isinstance(size, int):
        facts["tensor_parallel"] = str(size)
        facts.setdefault("config.tensor_parallel", "true" if size > 1 else "false")
    return facts


async def kernel_log(host: Host, age_s: float) -> str:
    """Decisive lines that the kernel wrote in the last ``age_s`` seconds; "" when it may not be
    read or its times cannot be told: an old event must not explain a new crash."""
    try:
        clock = await host.run(["cat", "/proc/uptime"], timeout_s=5.0)
        log = await host.run(["dmesg"], timeout_s=5.0)
    except HostError:
        return ""
    found = _UPTIME.match(clock.output)
    if not found or log.returncode != 0:
        return ""
    since = float(found[1]) - age_s - CLOCK_SLACK_S
    lines = [line for line in log.output.splitlines() if _after(line, since)]
    wanted = [line for line in lines if any(word in line for word in _DECISIVE)]
    return "\n".join(wanted[-KERNEL_LINES:])


def _after(line: str, since_s: float) -> bool:
    stamp = _STAMP.match(line)
    return stamp is not None and float(stamp[1]) >= since_s


async def orphan_workers(host: Host) -> str:
    """vLLM's processes whose server is gone, one a line; "" when there are none, or nobody can
    tell."""
    try:
        table = await host.run(["ps", "-eo", "pid=,ppid=,args="], timeout_s=5.0)
    except HostError:
        return ""
    return orphans_of(table.output) if table.returncode == 0 else ""


def orphans_of(table: str) -> str:
    """``table`` holds process, parent and command line a line. The workers of a server that
    lives are nobody's orphans."""
    rows = {m[1]: (m[2], m[3]) for line in table.splitlines() if (m := _PROCESS.match(line))}
    found = []
    for pid, (parent, title) in rows.items():
        if title.startswith(_WORKER):
            top = parent
            while rows.get(top, ("", ""))[1].startswith(_WORKER):
                top = rows[top][0]
            if "vllm" not in rows.get(top, ("", ""))[1]:
                found.append(f"{pid} {title[:60]}")
    return "\n".join(found[:_MAX_ORPHANS])


async def _kernel_setting(host: Host, path: str) -> str:
    try:
        answer = await host.run(["cat", path], timeout_s=5.0)
    except HostError:
        return ""
    return answer.output.strip() if answer.returncode == 0 else ""


class ExitExplainer:
    """Explains the exits of one profile's server, with its profile, its earlier crash and what
    stood beside the log in mind.

    ``load`` gives the profile as it is now; it may raise, then less is known. ``before_launch``
    and ``look`` gather facts from ``host``; neither raises.
    """

    def __init__(
        self,
        rules: Rules,
        load: Callable[[], Profile],
        *,
        on_wsl: bool,
        host: Host | None = None,
        engines: Mapping[str, Engine] | None = None,
    ) -> None:
        self._engines = engines or {}
        self._host = host
        self._orphans = ""
        self._beside: dict[str, str] = {}
        self._rules = rules
        self._load = load
        self._on_wsl = on_wsl
        self._crash = ""

    async def before_launch(self) -> None:
        """Note the workers of servers that are gone: later they cannot be told from our own."""
        self._beside = {}
        self._orphans = await orphan_workers(self._host) if self._host else ""

    async def look(self, age_s: float) -> None:
        """After an exit: what the kernel said in the last ``age_s`` seconds, and its settings."""
        if self._host is None:
            return
        found = {
            "dmesg": await kernel_log(self._host, age_s),
            "kernel.yama.ptrace_scope": await _kernel_setting(self._host, _PTRACE),
        }
        self._beside = {name: value for name, value in found.items() if value}

    def __call__(self, lines: Sequence[str], status: ExitStatus) -> Failure:
        """Never raises for any content of the log."""
        facts = {**self._facts(), **self._beside}
        if self._orphans:
            facts["leftover_processes"] = self._orphans
        if self._crash:
            facts[PREVIOUS_CRASH] = self._crash
        failure = explain_exit(lines, str(status), self._rules, facts)
        if is_asynchronous(failure.root_cause_line):
            self._crash = failure.root_cause_line
        return failure

    def _facts(self) -> dict[str, str]:
        try:
            profile = self._load()
            engine = self._engines.get(profile.engine.id)
            return profile_facts(profile, engine, on_wsl=self._on_wsl)
        except TwinrigError:
            return {}
