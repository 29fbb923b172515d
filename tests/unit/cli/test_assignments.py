from __future__ import annotations

import pytest

from service_fakes import FakeEngine, profile
from twinrig.cli.assignments import REASON, assign
from twinrig.domain.errors import ProfileError, UsageError
from twinrig.domain.profile import EnvEntry

ENGINE = FakeEngine()


@pytest.mark.parametrize(
    ("word", "settings"),
    [
        ("context_length=4096", {"context_length": 4096}),
        ("settings.context_length=4096", {"context_length": 4096}),
        ("share=0.5", {"context_length": 2048, "share": 0.5}),
        ("share=1", {"context_length": 2048, "share": 1.0}),
        ("eager=yes", {"context_length": 2048, "eager": True}),
        ("eager=False", {"context_length": 2048, "eager": False}),
        ("cache_mode=no", {"context_length": 2048, "cache_mode": "no"}),
        ("cache_mode=a=b", {"context_length": 2048, "cache_mode": "a=b"}),
        ("skip=0, sliding", {"context_length": 2048, "skip": ("0", "sliding")}),
        ("context_length=", {}),
    ],
)
def test_settings_take_the_type_of_their_row(word: str, settings: dict) -> None:
    got = assign(profile(), [word], ENGINE).settings
    assert got == settings
    assert [type(v) for v in got.values()] == [type(v) for v in settings.values()]


def test_fields_environment_and_extra() -> None:
    words = [
        "name=New name",
        "network.port=9001",
        "network.host=0.0.0.0",
        "model.path=/m",
        "engine.environment=/opt/env",
        "env.NCCL_DEBUG=WARN",
        "extra.seed=7",
        "extra.flag=true",
        "extra.word=1_0",
    ]
    got = assign(profile(env={"OLD": EnvEntry("1")}), words, ENGINE)
    assert (got.name, got.network.port, got.network.host) == ("New name", 9001, "0.0.0.0")
    assert (got.model.path, got.engine.environment) == ("/m", "/opt/env")
    assert got.env == {"OLD": EnvEntry("1"), "NCCL_DEBUG": EnvEntry("WARN", REASON)}
    assert got.extra == {"seed": 7, "flag": True, "word": "1_0"}
    gone = assign(got, ["env.OLD=", "extra.seed=", "env.NEVER="], ENGINE)
    assert (set(gone.env), set(gone.extra)) == ({"NCCL_DEBUG"}, {"flag", "word"})


def test_all_faults_are_told_at_once() -> None:
    words = [
        "context_length=2_2",
        "eager=maybe",
        "network.port=x",
        "network.colour=red",
        "unheard=1",
        "planet.mars=1",
        "share=9",
    ]
    with pytest.raises(ProfileError) as caught:
        assign(profile(), words, ENGINE)
    assert [e.path for e in caught.value.errors] == [
        "settings.context_length",
        "settings.eager",
        "network.port",
        "network.colour",
        "settings.unheard",
        "planet.mars",
        "settings.share",
    ]


@pytest.mark.parametrize("word", ["context_length", "=5", ""])
def test_a_word_without_equals(word: str) -> None:
    with pytest.raises(UsageError):
        assign(profile(), [word], ENGINE)


def test_the_original_is_untouched() -> None:
    one = profile()
    assign(one, ["context_length=1"], ENGINE)
    assert one == profile()
