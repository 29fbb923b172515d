"""Keys that tabbyAPI overlooks: told before anybody wonders why a setting does nothing."""

from __future__ import annotations

import pytest

from fixtures.standard_machine import answer, missing_program, tabby, timed_out
from twinrig.checks import tabby_config
from twinrig.domain.checks import CheckResult, Status

SCHEMA = """\
class NetworkConfig(BaseConfigModel):
    host: Optional[str] = Field("127.0.0.1")
class ModelConfig(BaseConfigModel):
    max_seq_len: Optional[int] = Field(
        None,
    )
class TabbyConfigModel(BaseModel):
    network: Optional[NetworkConfig] = Field(default_factory=NetworkConfig.model_construct)
    model: Optional[ModelConfig] = Field(default_factory=ModelConfig.model_construct)
"""


def judged(config: str, schema: str = SCHEMA) -> CheckResult:
    lines = [f"config {line}" for line in config.splitlines()]
    lines += [f"schema {line}" for line in schema.splitlines()]
    return tabby_config.judge(
        tabby(answer("tabby_config", "\n".join(["checked=yes", *lines]) + "\n"))
    )


def test_known_keys_pass() -> None:
    assert judged("# mine\nmodel:\n  max_seq_len: 1\nnetwork: {host: x}\n").status is Status.PASS
    assert judged("").status is Status.PASS


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ("host: 0.0.0.0\nmodel:\n  max_seq_len: 1\n", "host"),
        ("model:\n  draft_num_tokens: 3\n  host: x\n", "model.draft_num_tokens, model.host"),
        ("modle:\n  max_seq_len: 1\n", "modle"),
    ],
)
def test_keys_that_are_overlooked_are_named(config: str, names: str) -> None:
    result = judged(config)
    assert result.status is Status.WARN and result.finding is not None
    assert result.finding.id == "tabby-config-ignored"
    assert result.finding.param("keys") == names and names in str(result.summary)
    assert result.next_step is not None


@pytest.mark.parametrize("config", ["model:\n\tx: 1\n", "model: [1\n", "model:\n  a: 1\n  a: 2\n"])
def test_a_file_that_means_defaults_is_told_with_its_line(config: str) -> None:
    result = judged(config)
    assert result.status is Status.FAIL and result.finding is not None
    assert result.finding.id == "tabby-config-broken"
    assert int(result.finding.param("line")) >= 2 and "line" in str(result.summary)


def test_another_schema_judges_nothing() -> None:
    assert judged("odd: 1\n", "garbage (\n").status is Status.PASS
    assert judged("odd: 1\n", "").status is Status.PASS


@pytest.mark.parametrize(
    "output",
    [
        timed_out("tabby_config"),
        missing_program("tabby_config"),
        answer("tabby_config", "config modle:\n"),
    ],
)
def test_no_answer_is_no_finding(output: object) -> None:
    result = tabby_config.judge(tabby(output))
    assert result.status is Status.ERROR and result.finding is None


def test_no_value_of_the_file_is_shown() -> None:
    result = judged("developer:\n  seqlog_api_key: hidden-key\n")
    assert "hidden-key" not in repr(result)
    twice = judged("developer:\n  seqlog_api_key: hidden-key\n  seqlog_api_key: hidden-key\n")
    assert twice.status is Status.FAIL and "hidden-key" not in repr(twice)
