"""The demo rig through the same preflight and fixer as a real machine."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from twinrig import assets
from twinrig.checks.registry import CHECKS
from twinrig.domain.checks import CheckResult, Cost, Status
from twinrig.domain.fixes import FixPlan
from twinrig.domain.profile import Network, Profile
from twinrig.engines.registry import load_engines
from twinrig.fixes.registry import load_fixes
from twinrig.fixes.sysctl_ptrace import CONTENT, PATH
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.demo.host import DemoHost, demo_install
from twinrig.hosts.demo.windows import DemoWindows
from twinrig.services.collective import CollectiveProbe, CollectiveProgram
from twinrig.services.fixer import Fixer
from twinrig.services.installs import EngineFinder
from twinrig.services.journal import Journal
from twinrig.services.preflight import Preflight
from twinrig.services.profile_store import ProfileStore


class Demo:
    """The demo target, wired as the program wires it."""

    def __init__(self, root: Path) -> None:
        self.host = DemoHost(root)
        install = demo_install("/usr/bin/python3", "0.1")
        engines = load_engines(assets.read_text)
        clock = SystemClock()
        finder = EngineFinder(self.host, engines, built_in={"demo": install})
        probe = CollectiveProbe(CollectiveProgram(self.host, assets.read_text))
        self.preflight = Preflight(
            self.host,
            CHECKS,
            finder,
            clock,
            programs={"collective": probe},
            windows=DemoWindows(),
        )
        self.store = ProfileStore(root / "profiles", engines)
        self.journal = Journal(root / "journal.jsonl")
        fixes = load_fixes(assets.read_text("advice/fixes.yaml"))
        self.fixer = Fixer(
            self.host, self.store, self.journal, self.preflight, fixes, clock, "demo"
        )
        self.install = install

    async def profile(self) -> Profile:
        folder = f"{await self.host.home()}/models"
        first = (await self.host.list_folder(folder))[0].name
        draft = self.store.draft(
            "demo",
            name="Demo",
            target="demo",
            model_path=f"{folder}/{first}",
            gpu_count=2,
            on_wsl=True,
            install=self.install,
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        profile = replace(draft, network=Network(port=port))
        self.store.save(profile)
        return profile

    async def results(self, profile: Profile) -> dict[str, CheckResult]:
        return {result.check_id: result async for result in self.preflight.run(profile)}


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return Demo(tmp_path)


async def test_demo_rig_has_exactly_one_problem(demo: Demo) -> None:
    results = await demo.results(await demo.profile())

    assert {n: r.status for n, r in results.items() if r.status is not Status.PASS} == {
        "ptrace-scope": Status.FAIL
    }


async def test_its_problem_is_fixed_proven_and_taken_back(demo: Demo) -> None:
    profile = await demo.profile()
    finding = (await demo.results(profile))["ptrace-scope"].finding
    assert finding is not None
    plan = (await demo.fixer.options(finding, profile))[0]
    assert isinstance(plan, FixPlan)
    outcome = await demo.fixer.apply(finding, plan, profile)

    assert outcome.proven
    assert await demo.host.read_file(PATH) == CONTENT.encode()
    assert {r.status for r in (await demo.results(profile)).values()} == {Status.PASS}

    await demo.fixer.undo(outcome.entry_id)
    assert await demo.host.read_file(PATH) is None
    assert (await demo.results(profile))["ptrace-scope"].finding == finding


async def test_the_other_way_out_edits_the_profile_only(demo: Demo) -> None:
    profile = await demo.profile()
    finding = (await demo.results(profile))["ptrace-scope"].finding
    assert finding is not None
    plan = (await demo.fixer.options(finding, profile))[1]
    assert isinstance(plan, FixPlan)
    outcome = await demo.fixer.apply(finding, plan, profile)

    assert outcome.proven
    assert demo.store.load(profile.id).env == {}
    assert await demo.host.read_file(PATH) is None

    await demo.fixer.undo(outcome.entry_id)
    assert demo.store.load(profile.id) == profile


async def test_every_probe_of_the_checks_is_simulated(demo: Demo) -> None:
    profile = await demo.profile()
    cheap = {name for check in CHECKS if check.cost is Cost.CHEAP for name in check.probes}
    names = tuple(cheap | {"ptrace_file", "collective"})
    facts = await demo.preflight.facts(profile, names)

    assert {name: facts.probe(name).returncode for name in names} == dict.fromkeys(names, 0)


async def test_model_that_is_not_on_the_rig_is_found_missing(demo: Demo) -> None:
    profile = await demo.profile()
    wrong = replace(profile, model=replace(profile.model, path=profile.model.path + "-x"))
    result = (await demo.results(wrong))["model-folder"]

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.param("near") == profile.model.path
