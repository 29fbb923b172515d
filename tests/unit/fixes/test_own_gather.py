"""The patch in a real Python with a package of the same shape; torch is not needed to load it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from service_fakes import profile
from twinrig import assets
from twinrig.domain.checks import Facts
from twinrig.domain.fixes import FixPlan, ProfileStep, WriteFileStep
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import EngineRef, EnvEntry, Profile
from twinrig.fixes.own_gather import MODULE, WISH, OwnGather
from twinrig.fixes.planning import NotForThisEngineError, NothingToChangeError, UndecidedError

INSTALL = EngineInstall("tabbyapi", "/v/tabby", "0.0.43", "/v/tabby/bin/python", "3.12.4")
SETTINGS = {"tensor_parallel": True, "tensor_parallel_backend": "nccl"}
GOOD = "self, tensor, out_tensor, gather_devices, {fifth}, ldims"


def tabby(**changes: object) -> Profile:
    made = replace(profile(), engine=EngineRef("tabbyapi"), settings=dict(SETTINGS), env={})
    return replace(made, **changes)  # type: ignore[arg-type]


def plan_for(made: Profile, install: EngineInstall | None = INSTALL) -> FixPlan:
    return OwnGather().plan(WISH, Facts({}, made, install))


def test_two_files_and_a_variable() -> None:
    plan = plan_for(tabby())
    code, pth, edit = plan.steps
    assert isinstance(code, WriteFileStep) and isinstance(pth, WriteFileStep)
    assert code.path == f"/v/tabby/lib/python3.12/site-packages/{MODULE}.py"
    assert code.content == assets.read_text(f"patches/{MODULE}.py")
    assert (pth.path, pth.content) == (code.path[:-3] + ".pth", f"import {MODULE}\n")
    assert isinstance(edit, ProfileStep) and edit.env == {"TWINRIG_EXL3_GATHER": "1"}
    assert plan.reversible and plan.needs_restart and not plan.needs_root and plan.risk


@pytest.mark.parametrize(
    "settings",
    [{}, {"tensor_parallel": True}, {**SETTINGS, "tensor_parallel_backend": "native"}],
)
def test_only_for_tensor_parallelism_over_nccl(settings: dict[str, object]) -> None:
    with pytest.raises(NotForThisEngineError):
        plan_for(tabby(settings=settings))


def test_not_for_vllm_nor_twice_nor_without_an_environment() -> None:
    with pytest.raises(NotForThisEngineError):
        plan_for(tabby(engine=EngineRef("vllm")))
    with pytest.raises(NothingToChangeError):
        plan_for(tabby(env={"TWINRIG_EXL3_GATHER": EnvEntry("1")}))
    for install in (None, replace(INSTALL, python_version="")):
        with pytest.raises(UndecidedError):
            plan_for(tabby(), install)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the patch as the fix writes it, and a package of exllamav3's layout."""
    (tmp_path / f"{MODULE}.py").write_text(assets.read_text(f"patches/{MODULE}.py"))
    (tmp_path / f"{MODULE}.pth").write_text(f"import {MODULE}\n")
    package = tmp_path / "exllamav3" / "model"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    return tmp_path


def backend(site: Path, text: str) -> None:
    (site / "exllamav3" / "model" / "model_tp_backend.py").write_text(text)


def two_methods(parameters: str) -> str:
    return (
        "class TPBackendNCCL:\n"
        f"    def gather({parameters}): return 'own'\n"
        f"    def gather_small({parameters}): return 'own'\n"
    )


def which(site: Path, on: str = "1") -> tuple[str, str]:
    """Where the two methods come from, as a Python that reads ``.pth`` files sees it; stderr."""
    code = (
        f"import site; site.addsitedir({str(site)!r})\n"
        "from exllamav3.model import model_tp_backend as m\n"
        "c = getattr(m, 'TPBackendNCCL', None)\n"
        "print(c and c.gather.__module__, c and c.gather_small.__module__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        env={**os.environ, "TWINRIG_EXL3_GATHER": on},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("fifth", ["out_device", "output_device"])
def test_the_known_class_is_patched_in_place(site: Path, fifth: str) -> None:
    backend(site, two_methods(GOOD.format(fifth=fifth)))
    found, said = which(site)
    assert found == f"{MODULE} {MODULE}"
    assert said.count("\n") == 1 and "by send and receive" in said


def test_without_the_variable_nothing_is_touched(site: Path) -> None:
    backend(site, two_methods(GOOD.format(fifth="out_device")))
    own = "exllamav3.model.model_tp_backend exllamav3.model.model_tp_backend"
    assert which(site, on="0") == (own, "")


@pytest.mark.parametrize(
    "text",
    [
        two_methods("self, tensor, out_tensor, ldims, out_device, gather_devices"),
        two_methods(GOOD.format(fifth="out_device") + ", stream=None"),
        two_methods(GOOD.format(fifth="device")),
        f"class TPBackendNCCL:\n    def gather({GOOD.format(fifth='out_device')}): ...\n",
        "class TPBackendNative: ...\n",
    ],
)
def test_another_class_is_left_alone_and_told(site: Path, text: str) -> None:
    backend(site, text)
    code = (
        f"import site; site.addsitedir({str(site)!r})\n"
        "from exllamav3.model import model_tp_backend as m\n"
        "names = [n for c in vars(m).values() if isinstance(c, type) for n in vars(c).values()]\n"
        "print([getattr(n, '__module__', '') for n in names].count('twinrig_exl3_gather'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        env={**os.environ, "TWINRIG_EXL3_GATHER": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr
    assert done.stderr.count("\n") == 1 and "its own is kept" in done.stderr


def test_removing_the_pth_file_removes_it(site: Path) -> None:
    backend(site, two_methods(GOOD.format(fifth="out_device")))
    (site / f"{MODULE}.pth").unlink()
    assert which(site)[0].startswith("exllamav3.")
