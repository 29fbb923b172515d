"""``twinrig fix nccl``: find by experiment the settings with which the cards talk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twinrig.cli import doctor, fix, ranks
from twinrig.cli.session import FINDINGS, FINE, Session
from twinrig.cli.terminal import Terminal
from twinrig.domain.checks import Facts, Finding
from twinrig.domain.errors import UsageError
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import Profile
from twinrig.fixes.sysctl_ptrace import SysctlPtrace
from twinrig.messages import message
from twinrig.services.collective import request_for
from twinrig.services.nccl_experiment import (
    FIX_ID,
    ExperimentResult,
    NcclExperiment,
    Progress,
    Trial,
)
from twinrig.services.nccl_search import NcclFound
from twinrig.services.server_proof import prove_by_server
from twinrig.services.workbench import Workbench

NAMES = ("nccl", FIX_ID)


async def run(session: Session) -> int:
    """Exit code 0 when the cards talk at the end, 1 when not or when nothing was applied."""
    terminal, args = session.terminal, session.args
    async with session.bench() as bench:
        profile = doctor.profile_for(bench, args.profile)
        engine_id = _engine_of(profile, args.engine)
        install = await _install_of(bench, profile)
        request = request_for(profile, install, python=ranks.python_of(args))
        request = ranks.asked_of(request, args)
        experiment = NcclExperiment(
            bench.collective,
            bench.candidates,
            extra_env=ranks.extra_env(args),
            base=replace(request, backend=args.backend),
            facts=bench.preflight.facts,
        )
        result = await experiment.run(
            engine_id,
            profile,
            install,
            on_progress=lambda progress: _announce(terminal, progress),
            on_trial=lambda trial: _told(terminal, trial),
            every=args.all,
        )
        good = not result.needed or result.chosen is not None
        terminal.line()
        for text in NcclFound(result, None).sentences():
            terminal.paragraph(text, style="good" if good else "bad")
        data: dict[str, object] = dict(_figures(engine_id, result))
        outcome = await _keep(session, bench, experiment, result, profile)
        if args.server and profile is not None and outcome.get("applied"):
            proof = await prove_by_server(bench.controller, profile.id)
            terminal.paragraph(proof.text, style="good" if proof.proven else "warn")
            outcome = {**outcome, "server": proof.proven}
        terminal.data({**data, **outcome})
        return FINE if not result.needed or outcome.get("proven") else FINDINGS


def _engine_of(profile: Profile | None, engine_id: str | None) -> str:
    if profile is not None:
        return profile.engine.id
    if engine_id:
        return engine_id
    raise UsageError(
        message("The settings depend on the engine, and none was named."),
        message("Name a profile with --profile, or an engine with --engine vllm."),
    )


async def _install_of(bench: Workbench, profile: Profile | None) -> EngineInstall | None:
    if profile is None:
        return None
    found = await bench.installs.find(profile.engine.id, profile.engine.environment)
    return found[0] if found else None


async def _keep(
    session: Session,
    bench: Workbench,
    experiment: NcclExperiment,
    result: ExperimentResult,
    profile: Profile | None,
) -> dict[str, object]:
    """Preview, ask, apply through the fixer; the collective check is run again as proof."""
    terminal, args = session.terminal, session.args
    if result.chosen is None:
        return {"applied": False, "proven": False}
    if profile is None:
        terminal.next_step(message("Make a profile, then repeat with --profile to keep them."))
        return {"applied": False, "proven": False}
    ptrace = SysctlPtrace()
    facts: Facts = await bench.preflight.facts(profile, ptrace.probes)
    plan = experiment.plan(result, profile, ptrace, facts)
    if plan is None:
        return {"applied": False, "proven": False}
    offer = fix.Offer(Finding("nccl-collective-failed"), plan)
    return await fix.offer_one(terminal, bench, profile, offer, yes=args.yes)


def _announce(terminal: Terminal, progress: Progress) -> None:
    candidate = progress.candidate
    if progress.without:
        text = message(
            "{number}/{count}  {id} without {name}",
            number=progress.number,
            count=progress.at_most,
            id=candidate.id,
            name=progress.without,
        )
    else:
        text = message(
            "{number}/{count}  {id}: {settings}",
            number=progress.number,
            count=progress.at_most,
            id=candidate.id,
            settings=" ".join(f"{n}={v}" for n, v in candidate.env.items()) or "-",
        )
    terminal.say(text, "dim")


def _told(terminal: Terminal, trial: Trial) -> None:
    word = message("passed") if trial.passed else message("failed")
    cells = [terminal.text(word), f"{trial.duration_s:.1f} s"]
    if trial.mbps is not None:
        cells.append(f"{trial.mbps:.0f} MB/s")
    if trial.report is not None:
        cells += [", ".join(trial.report.transports)] if trial.report.transports else []
        cells += [] if trial.passed else [_why(trial)]
    elif trial.error is not None:
        cells.append(terminal.text(trial.error))
    terminal.line("    " + terminal.style("  ".join(cells), "good" if trial.passed else "bad"))


def _why(trial: Trial) -> str:
    report = trial.report
    assert report is not None
    errors = [rank.error for rank in report.ranks if rank.error]
    first = errors[0].splitlines()[0][:160] if errors else ""
    size = report.first_bad_bytes
    return "  ".join(
        word for word in (report.ended, f"{size} B" if size is not None else "", first) if word
    )


def _figures(engine_id: str, result: ExperimentResult) -> Mapping[str, object]:
    return {
        "fix_id": FIX_ID,
        "engine": engine_id,
        "needed": result.needed,
        "text": result.text,
        "chosen": result.chosen.candidate.id if result.chosen else None,
        "decisive": result.decisive,
        "versions": dict(result.versions),
        "trials": [_trial(trial) for trial in result.trials],
        "eliminations": [_trial(trial) for trial in result.eliminations],
    }


def _trial(trial: Trial) -> Mapping[str, object]:
    return {
        "id": trial.candidate.id,
        "env": dict(trial.candidate.env),
        "settings": dict(trial.candidate.settings),
        "without": trial.without or None,
        "passed": trial.passed,
        "bus_mbps": trial.mbps,
        "duration_s": round(trial.duration_s, 2),
        "error": trial.error,
        "report": ranks.figures(trial.report),
    }
