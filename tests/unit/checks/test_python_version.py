from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.standard_machine import (
    ENVIRONMENT,
    INSTALL,
    answer,
    facts,
    missing_program,
    timed_out,
)
from twinrig.checks.python_version import CHECK
from twinrig.domain.checks import Status

NO_VERSION = replace(INSTALL, python_version="")


def test_supported_python_passes() -> None:
    result = CHECK.judge(facts())

    assert result.status is Status.PASS
    assert str(result.summary) == "Python 3.12.3"


@pytest.mark.parametrize("python", ["3.9.18", "3.14.0", "3.14.0rc1", "2.7.18"])
def test_python_outside_of_the_engines_range_fails(python: str) -> None:
    text = ENVIRONMENT.replace("3.12.3", python)
    result = CHECK.judge(facts(answer("environment", text)))

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.id == "python-unsupported"
    assert python in str(result.summary)
    assert ">=3.10" in str(result.summary)


def test_interpreter_that_is_gone_fails() -> None:
    text = ENVIRONMENT.replace("interpreter=ok", "interpreter=missing")
    result = CHECK.judge(facts(answer("environment", text)))

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.id == "python-missing"


def test_five_part_version_of_pyvenv_cfg_is_understood() -> None:
    text = ENVIRONMENT.replace("python=3.12.3", "python=3.12.3.final.0")

    assert CHECK.judge(facts(answer("environment", text))).status is Status.PASS


def test_without_a_stated_range_any_python_will_do() -> None:
    text = ENVIRONMENT.replace("requires_python=<3.14,>=3.10\n", "")

    assert CHECK.judge(facts(answer("environment", text))).status is Status.PASS


def test_no_engine_is_a_skip() -> None:
    assert CHECK.judge(facts(install=None)).status is Status.SKIP
    assert CHECK.requires == ("engine-installed",)


@pytest.mark.parametrize("make", [timed_out, missing_program])
def test_no_answer_is_an_error(make: object) -> None:
    result = CHECK.judge(facts(make("environment"), install=NO_VERSION))  # type: ignore[operator]

    assert (result.status, result.finding) == (Status.ERROR, None)


@pytest.mark.parametrize(
    "text", ["python=三.十二\n", "python=\n", "python=3.12\nrequires_python=>>3\n", "\x00\x01"]
)
def test_garbage_is_an_error(text: str) -> None:
    result = CHECK.judge(facts(answer("environment", text), install=NO_VERSION))

    assert (result.status, result.finding) == (Status.ERROR, None)
