from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service_fakes import ENGINES, FakeEngine, profile
from twinrig.domain.errors import (
    ProfileError,
)
from twinrig.domain.profile import EngineRef, EnvEntry, Network
from twinrig.services.profiles import ProfileStore, dump_profile, parse_profile

GOLDEN = """\
# A Twinrig profile. Keys and tokens do not belong here.
schema_version: 1
id: "one"
name: "One"
target: "local"
distro: ""
engine:
  id: "fake"
  environment: ""
  version: ""
model:
  path: "/models/tiny"
  served_name: ""
network:
  host: "127.0.0.1"
  port: 8000
  key_name: ""
settings:
  context_length: 2048
  cache_mode: "2,2"
env:
  NCCL_DEBUG:
    value: "no"
    reason: ""
extra: {}
nodes:
- "node0"
"""


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path / "profiles", ENGINES)


def write(store: ProfileStore, id: str, text: str | bytes) -> Path:
    path = store.path(id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def faults(store: ProfileStore, text: str) -> dict[str, str]:
    write(store, "faulty", text)
    with pytest.raises(ProfileError) as caught:
        store.load("faulty")
    return {e.path: str(e.text) for e in caught.value.errors}


def with_settings(line: str) -> str:
    return dump_profile(profile()).replace("  context_length: 2048\n", f"  {line}\n")


def test_golden_file_quotes_every_text() -> None:
    one = profile(
        settings={"context_length": 2048, "cache_mode": "2,2"}, env={"NCCL_DEBUG": EnvEntry("no")}
    )
    assert dump_profile(one) == GOLDEN
    assert parse_profile(GOLDEN, "x") == one


@pytest.mark.parametrize(
    "text",
    [
        "2,2",
        "2_2",
        "no",
        "1:30",
        "1e5",
        "null",
        "~",
        "0x1f",
        "2024-01-01",
        "",
        "- a",
        "a: b",
        "# c",
        "日本語",
        '"quoted"',
        "back\\slash",
        "a\nb",
    ],
)
def test_texts_that_look_like_something_else_survive(store: ProfileStore, text: str) -> None:
    one = profile(settings={"cache_mode": text}, extra={"odd-key": text}, env={"A": EnvEntry(text)})
    store.save(one)
    assert store.load("one") == one


simple = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30),
    st.lists(st.text("abc,:#'\" ", max_size=8), max_size=3).map(tuple),
)


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,20}", fullmatch=True), simple, max_size=5
    )
)
@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_any_value_survives_the_round_trip(values: dict[str, object]) -> None:
    one = profile(extra=values)
    assert parse_profile(dump_profile(one), "x") == one


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("context_length: 2_2", "settings.context_length"),
        ("context_length: 1:30", "settings.context_length"),
        ("context_length: 0x10", "settings.context_length"),
        ("context_length: 010", "settings.context_length"),
        ("context_length: '4096'", "settings.context_length"),
        ("context_length: 1e5", "settings.context_length"),
        ("context_length: 4096.5", "settings.context_length"),
        ("context_length: true", "settings.context_length"),
        ("context_length:", "settings.context_length"),
        ("context_length: .nan", "settings.context_length"),
        ("context_length: 0", "settings.context_length"),
        ("share: .inf", "settings.share"),
        ("share: 1.5", "settings.share"),
        ("eager: no", "settings.eager"),
        ("eager: on", "settings.eager"),
        ("eager: 1", "settings.eager"),
        ("cache_mode: 2_2", "settings.cache_mode"),
        ("cache_mode: 22", "settings.cache_mode"),
        ("cache_mode: no", "settings.cache_mode"),
        ("cache_mode: 1:30", "settings.cache_mode"),
        ("cache_mode: 2024-01-01", "settings.cache_mode"),
        ("cache_mode: 2024-13-45", "settings.cache_mode"),
        ("cache_mode: [a]", "settings.cache_mode"),
        ("cache_mode: !!binary aGk=", "settings.cache_mode"),
        ("dtype: float99", "settings.dtype"),
        ("skip: 3", "settings.skip"),
        ("skip: [1]", "settings.skip"),
        ("speculative: {a: 1}", "settings.speculative"),
        ("unheard_of: 1", "settings.unheard_of"),
        ("on: 1", "settings.on"),
        ("<<: {share: 0.5}", "settings.<<"),
    ],
)
def test_guessed_or_wrong_values_are_faults(store: ProfileStore, line: str, path: str) -> None:
    assert set(faults(store, with_settings(line))) == {path}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("context_length: 4096", {"context_length": 4096}),
        ("context_length: 4096.0", {"context_length": 4096}),
        ("share: 1", {"share": 1.0}),
        ("eager: true", {"eager": True}),
        ("cache_mode: 2,2", {"cache_mode": "2,2"}),
        ("skip: ['0', sliding]", {"skip": ("0", "sliding")}),
    ],
)
def test_plain_values_are_taken(store: ProfileStore, line: str, value: dict[str, object]) -> None:
    write(store, "fine", with_settings(line))
    loaded = store.load("fine").settings
    assert loaded == value
    assert [type(v) for v in loaded.values()] == [type(v) for v in value.values()]


def test_all_faults_at_once(store: ProfileStore) -> None:
    text = """\
schema_version: 1
id: x
name: 3
target: moon
colour: red
engine: {id: fake, size: 1}
model: {}
network: {port: "80", host: 0.0.0.0}
settings: {context_length: -1, eager: no, share: x}
env: {"BAD NAME": "1", HF_TOKEN: {value: "x"}, N: 1}
extra: {api-key: "x", deep: {a: b}}
nodes: []
"""
    assert set(faults(store, text)) == {
        "name",
        "target",
        "colour",
        "engine.size",
        "model.path",
        "network.port",
        "network.key_name",
        "settings.context_length",
        "settings.eager",
        "settings.share",
        "env.BAD NAME",
        "env.HF_TOKEN",
        "env.N",
        "extra.api-key",
        "extra.deep",
        "nodes",
    }


def test_rules_across_fields_come_from_the_engine(store: ProfileStore) -> None:
    one = profile(settings={"eager": True, "share": 1.0})
    assert [e.path for e in store.validate(one)] == ["settings.share"]
    assert store.validate(replace(one, settings={"eager": True, "share": 0.9})) == ()


def test_missing_and_repeated_fields(store: ProfileStore) -> None:
    text = dump_profile(profile())
    assert faults(store, text.replace("schema_version: 1\n", "")) == {"schema_version": "must be 1"}
    assert "stands there twice" in faults(store, text + 'name: "Two"\n')["name"]
    assert set(faults(store, text.replace("engine:\n", "motor:\n"))) >= {"engine", "motor"}


def test_unknown_engine_names_the_known(store: ProfileStore) -> None:
    text = dump_profile(profile(engine=EngineRef("ollama")))
    assert faults(store, text) == {"engine.id": "must be one of fake, not ollama"}


@pytest.mark.parametrize(
    "change",
    [
        {"env": {"VLLM_API_KEY": EnvEntry("x")}},
        {"env": {"HUGGING_FACE_HUB_TOKEN": EnvEntry("x")}},
        {"env": {"MY_PASSWORD": EnvEntry("x")}},
        {"env": {"HARMLESS": EnvEntry("hf_abcdefghijABCDEFGHIJ012345")}},
        {"extra": {"api_key": "x"}},
        {"extra": {"hf-token": "x"}},
        {"extra": {"notes": "sk-abcdefghijABCDEFGHIJ012345"}},
        {"settings": {"cache_mode": "hf_abcdefghijABCDEFGHIJ012345"}},
    ],
)
def test_secrets_are_refused_and_told_where_to_go(store: ProfileStore, change: dict) -> None:
    one = profile(**change)
    with pytest.raises(ProfileError) as caught:
        store.save(one)
    assert "twinrig profiles key" in str(caught.value.errors[0].text)
    assert not store.path("one").exists()


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "VLLM_MAX_TOKENS_PER_STEP", "KEYBOARD", "MONKEY"]
)
def test_harmless_names_are_no_secrets(store: ProfileStore, name: str) -> None:
    assert store.validate(profile(env={name: EnvEntry("1")})) == ()


def test_open_address_needs_a_key(store: ProfileStore) -> None:
    assert [e.path for e in store.validate(profile(network=Network("0.0.0.0")))] == [
        "network.key_name"
    ]
    assert store.validate(profile(network=Network("0.0.0.0", 8000, "lan"))) == ()
    assert store.validate(profile(network=Network("localhost"))) == ()
    for port in (0, -1, 65536):
        bad = profile(network=Network(port=port))
        assert [e.path for e in store.validate(bad)] == ["network.port"]


def test_the_demo_engine_stays_on_the_demo_rig(tmp_path: Path) -> None:
    simulated = FakeEngine()
    simulated.simulated = True
    store = ProfileStore(tmp_path, {"demo": simulated})
    stray = profile(engine=EngineRef("demo"))
    assert [e.path for e in store.validate(stray)] == ["engine.id"]
    assert store.validate(profile(engine=EngineRef("demo"), target="demo")) == ()
