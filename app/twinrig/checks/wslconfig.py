"""Can WSL read every line of ``.wslconfig``? It skips what it cannot read and says so nowhere
that a user looks, so a limit may not be what it seems."""

from __future__ import annotations

from twinrig.checks.judging import garbled, passed, probe_fault, warned
from twinrig.checks.windows_facts import config_of
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding, Severity
from twinrig.domain.wsl_config import ConfigFile, unreadable_entries
from twinrig.messages import N_, message

ID = "wslconfig"
_KIND = "wslconfig-invalid"


def judge(facts: Facts) -> CheckResult:
    """Names the first line that counts nothing; keys that are unknown here are no fault."""
    output = facts.probe("windows_wslconfig")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    config = config_of(facts)
    if config is None:
        return garbled(ID, output)
    if not config.exists:
        text = message("There is no .wslconfig: WSL uses its own defaults")
        return passed(ID, text, Evidence(config.path, "-"))
    numbers = faulty_lines(config)
    if not numbers:
        text = message(".wslconfig can be read")
        return passed(ID, text, Evidence(config.path, config.text.removeprefix("\ufeff") or "-"))
    lines = config.text.removeprefix("\ufeff").split("\n")
    first = lines[numbers[0] - 1].strip()
    return warned(
        ID,
        message(
            "Line {line} of .wslconfig has no effect, because WSL cannot use it: {text}",
            line=numbers[0],
            text=first,
        ),
        Finding(
            _KIND,
            (("line", str(numbers[0])), ("text", first[:200])),
            Severity.WARNING,
            ("wslconfig-fix",),
        ),
        Evidence(config.path, "\n".join(f"{n}: {lines[n - 1].strip()}" for n in numbers[:12])),
    )


def faulty_lines(config: ConfigFile) -> tuple[int, ...]:
    """Numbers of lines that count nothing, in order."""
    ini = config.ini()
    entries = {entry.line_no for entry in (*unreadable_entries(ini), *ini.duplicates())}
    return tuple(sorted(entries | set(ini.broken)))


CHECK = Check(
    id=ID,
    title=N_("WSL can read its settings"),
    probes=("windows_wslconfig",),
    judge=judge,
    findings=(_KIND,),
)
