from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.standard_machine import INSTALL, PROFILE, answer, facts, timed_out
from twinrig.checks.engine_installed import CHECK
from twinrig.domain.checks import Status
from twinrig.domain.profile import EngineRef
from twinrig.messages import message


def test_installed_engine_passes_with_its_version() -> None:
    result = CHECK.judge(facts())

    assert result.status is Status.PASS
    assert str(result.summary) == "vllm 0.11.2+cu129"


def test_environment_without_engine_fails() -> None:
    result = CHECK.judge(facts(answer("environment", "python=3.12.3\n"), install=None))

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.id == "engine-not-installed"
    assert result.finding.fixes == ("cfg-env-path", "pkg-install-engine")
    assert "/home/u/venvs/vllm" in str(result.summary)


def test_missing_environment_is_said() -> None:
    result = CHECK.judge(facts(answer("environment", "missing=yes\n"), install=None))

    assert str(result.summary) == "The environment /home/u/venvs/vllm does not exist."


def test_no_environment_named_and_nothing_found() -> None:
    profile = replace(PROFILE, engine=EngineRef("vllm"))
    result = CHECK.judge(facts(answer("environment", ""), install=None, profile=profile))

    assert result.status is Status.FAIL
    assert str(result.summary) == "vllm was not found."


def test_start_program_gone() -> None:
    result = CHECK.judge(facts(install=replace(INSTALL, executable="")))

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.param("environment") == INSTALL.environment


def test_no_profile_is_a_skip_with_the_reason() -> None:
    result = CHECK.judge(facts(profile=None))

    assert result.status is Status.SKIP
    assert "profile" in str(result.summary)


@pytest.mark.parametrize(
    "version",
    [
        "",
    ],
)
def test_unreadable_version_is_an_error(version: str) -> None:
    result = CHECK.judge(facts(install=replace(INSTALL, version=version)))

    assert (result.status, result.finding) == (Status.ERROR, None)


def test_failed_search_is_an_error_not_a_missing_engine() -> None:
    problem = message("The target does not answer.")
    result = CHECK.judge(facts(install=None, install_error=problem))

    assert (result.status, result.finding) == (Status.ERROR, None)
    assert "does not answer" in result.evidence[0].text


def test_time_out_is_an_error() -> None:
    result = CHECK.judge(facts(timed_out("environment"), install=None))

    assert (result.status, result.finding) == (Status.ERROR, None)
