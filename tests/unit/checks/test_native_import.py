from __future__ import annotations

import json
from typing import Any

import pytest

from fixtures.standard_machine import (
    NATIVE_IMPORT,
    answer,
    facts,
    missing_program,
    timed_out,
)
from twinrig.checks.native_import import CHECK, FIXES, kind_of
from twinrig.domain.checks import CheckResult, Status

TEXTS = {
    "cudart13-missing": "ImportError: libcudart.so.13: cannot open shared object file",
    "nccl-lib-mismatch": "ImportError: libtorch_cuda.so: undefined symbol: ncclCommWindowRegister",
    "torch-abi-mismatch": "ImportError: _C.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
    "cuda-driver-missing-wsl": "ImportError: libcuda.so.1: cannot open shared object file",
    "torch-cpu-build": "RuntimeError: Torch not compiled with CUDA enabled",
    "driver-too-old": "The NVIDIA driver on your system is too old (found version 12080)",
    "no-kernel-image": "RuntimeError: CUDA error: no kernel image is available for execution",
    "ptx-unsupported": "CUDA error: the provided PTX was compiled with an unsupported toolchain",
    "exl3-source-package": "ModuleNotFoundError: No module named 'exllamav3_ext'",
    "engine-import-failed": "ValueError: something else",
}


def judge(step: str = "", text: str = "", warnings: tuple[str, ...] = ()) -> CheckResult:
    data: dict[str, Any] = json.loads(NATIVE_IMPORT)
    for row in data["steps"]:
        if row["name"] == step:
            row.update(ok=False, text=text)
    data["warnings"] = list(warnings)
    return CHECK.judge(facts(answer("native_import", json.dumps(data))))


def test_everything_that_loads_and_computes_passes() -> None:
    assert judge().status is Status.PASS
    assert judge(warnings=("FutureWarning: pynvml",)).status is Status.PASS


@pytest.mark.parametrize(("kind", "text"), TEXTS.items())
def test_each_text_names_its_fault(kind: str, text: str) -> None:
    result = judge("vllm._C", text)

    assert result.status is Status.FAIL and result.finding is not None
    assert result.finding.id == kind and result.finding.fixes == FIXES[kind]
    assert result.finding.param("step") == "vllm._C"


def test_every_kind_has_a_text_here() -> None:
    assert set(TEXTS) == set(FIXES) == set(CHECK.findings)


def test_driver_that_only_a_warning_tells() -> None:
    """torch warns about the driver and then says something that means nothing."""
    text = "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old"
    result = judge("cards", "RuntimeError: torch sees no CUDA device", (text,))
    assert result.finding is not None and result.finding.id == "driver-too-old"


def test_wheels_rank_before_the_driver() -> None:
    assert FIXES["driver-too-old"][0] == "pkg-cu12-wheels"


def test_python_that_dies_inside_a_library_is_a_fault() -> None:
    died = answer("native_import", "", code=139, stderr="Segmentation fault\n")
    result = CHECK.judge(facts(died))
    assert result.status is Status.FAIL and result.finding is not None
    assert result.finding.id == "engine-import-failed"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"steps": []}', "Fehler"])
def test_garbage_cannot_tell(text: str) -> None:
    assert CHECK.judge(facts(answer("native_import", text))).status is Status.ERROR


@pytest.mark.parametrize("output", [timed_out("native_import"), missing_program("native_import")])
def test_no_answer_cannot_tell(output: object) -> None:
    assert CHECK.judge(facts(output)).status is Status.ERROR  # type: ignore[arg-type]


def test_kind_of_nothing() -> None:
    assert kind_of("") == "engine-import-failed"
