"""Does tabbyAPI use every key of its ``config.yml``?

It ignores a key that it does not know without a word - misspelt, in a wrong section, or without
one - and starts with defaults when the file cannot be read at all (as run, August 2026).
"""

from __future__ import annotations

from twinrig.checks.judging import failed, garbled, passed, probe_fault, tagged, warned
from twinrig.domain.checks import Check, CheckResult, Evidence, Facts, Finding, Severity
from twinrig.engines.tabbyapi_config import known_keys, strange_keys
from twinrig.engines.tabbyapi_edit import ConfigRefusedError
from twinrig.messages import N_, message

ID = "tabby-config"
_FILE = "config.yml"


def judge(facts: Facts) -> CheckResult:
    """A checkout whose schema is not what it was, is not judged by it."""
    output = facts.probe("tabby_config")
    if (fault := probe_fault(ID, output)) is not None:
        return fault
    if "checked=yes" not in output.stdout.splitlines():
        return garbled(ID, output)
    text = "".join(f"{line}\n" for line in tagged(output, "config"))
    known = known_keys("".join(f"{line}\n" for line in tagged(output, "schema")))
    if not text.strip() or not known:
        return passed(
            ID, message("Nothing that could be overlooked"), Evidence("probe tabby_config", "-")
        )
    try:
        strange = strange_keys(text, known, _FILE)
    except ConfigRefusedError as error:
        return failed(
            ID,
            error.text,
            Finding("tabby-config-broken", (("line", str(error.line_no or "")),)),
            Evidence(_FILE, str(error.text)),
            next_step=error.next_step,
        )
    if not strange:
        return passed(ID, message("Every key is known"), Evidence(_FILE, ", ".join(sorted(known))))
    return warned(
        ID,
        message("tabbyAPI ignores these keys of its config.yml: {names}", names=", ".join(strange)),
        Finding("tabby-config-ignored", (("keys", ", ".join(strange)),), Severity.WARNING),
        Evidence(_FILE, "\n".join(strange)),
        next_step=message(
            "Move each one into the section where it belongs, or remove it; a setting of the "
            "profile is written where it counts."
        ),
    )


CHECK = Check(
    id=ID,
    title=N_("tabbyAPI uses every key of its configuration"),
    probes=("tabby_config",),
    judge=judge,
    requires=("engine-installed",),
    needs_profile=True,
    engines=("tabbyapi",),
    findings=("tabby-config-broken", "tabby-config-ignored"),
)
