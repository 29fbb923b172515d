from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service_fakes import ENGINES, profile
from twinrig.domain.errors import (
    ConflictError,
    DamagedFileError,
    NewerSchemaError,
    ProfileError,
    UsageError,
)
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Network, Profile
from twinrig.services.profile_codec import read_profile
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


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n# nothing\n", "is empty"),
        (b"\x89PNG\r\n\x1a\n\x00\xff", "not a text file"),
        (b"schema_version: 1\x00", "not a readable YAML"),
        (b"- just\n- a list\n", "does not hold a profile"),
        (b"{schema_version: 1, name: ", "line"),
        (b"a: &x [1]\nb: *x\n", "aliases"),
        (b"[" * 5000, "not a readable YAML"),
        (b"!!python/object/apply:os.system ['true']", "does not hold a profile"),
        (b"a: b\n---\nc: d\n", "not a readable YAML"),
        (b"x" * 300_000, "larger than any profile"),
    ],
)
def test_a_damaged_file_is_told_and_hides_nothing(
    store: ProfileStore, content: bytes, words: str
) -> None:
    store.save(profile("good"))
    path = write(store, "bad", content)
    listing = store.list()
    assert [p.id for p in listing.profiles] == ["good"]
    assert [b.path for b in listing.broken] == [path]
    assert words in str(listing.broken[0].text)
    assert listing.broken[0].next_step is not None
    assert path.read_bytes() == content


def test_truncation_at_every_byte_never_crashes_or_invents(store: ProfileStore) -> None:
    whole = dump_profile(profile(env={"A": EnvEntry("1", "why")})).encode()
    for length in range(0, len(whole) - 1, 7):
        write(store, "cut", whole[:length])
        listing = store.list()
        assert len(listing.profiles) + len(listing.broken) == 1


def test_odd_things_in_the_folder(store: ProfileStore, tmp_path: Path) -> None:
    store.save(profile("good"))
    folder = store.path("x").parent
    (folder / "loop.yaml").symlink_to(folder / "loop.yaml")
    (folder / "gone.yaml").symlink_to(tmp_path / "nowhere")
    (folder / "dir.yaml").mkdir()
    os.mkfifo(folder / "pipe.yaml")
    (folder / "My Profile.yaml").write_text(dump_profile(profile()))
    (folder / ".good.yaml.tmp").write_text("half")
    (folder / "notes.txt").write_text("mine")
    listing = store.list()
    assert [p.id for p in listing.profiles] == ["good"]
    names = {b.path.name for b in listing.broken}
    assert names == {"loop.yaml", "gone.yaml", "dir.yaml", "pipe.yaml", "My Profile.yaml"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_told(store: ProfileStore) -> None:
    store.save(profile("good"))
    path = write(store, "locked", "x")
    path.chmod(0)
    assert [b.path for b in store.list().broken] == [path]


def test_newer_schema_is_left_alone(store: ProfileStore) -> None:
    text = dump_profile(profile()).replace("schema_version: 1", "schema_version: 2")
    path = write(store, "new", text)
    with pytest.raises(NewerSchemaError):
        store.load("new")
    with pytest.raises(ConflictError):
        store.save(profile("new"))
    with pytest.raises(ConflictError):
        store.save(profile("new"), replaces=profile("new"))
    assert path.read_text() == text


def test_migrations_run_one_by_one() -> None:
    old = dump_profile(profile()).replace("schema_version: 1", "schema_version: -1")
    old = old.replace("settings:", "knobs:")
    steps: list[int] = []

    def first(data: dict) -> dict:
        steps.append(-1)
        return {**data, "nodes": ["node0"]}

    def second(data: dict) -> dict:
        steps.append(0)
        return {("settings" if k == "knobs" else k): v for k, v in data.items()}

    got, found = read_profile(old, "x", {-1: first, 0: second})
    assert (got, found, steps) == (profile(), (), [-1, 0])
    assert [f.path for f in read_profile(old, "x")[1]] == ["knobs", "schema_version"]


def test_the_file_name_is_the_id(store: ProfileStore) -> None:
    store.save(profile("one"))
    store.path("copy").write_bytes(store.path("one").read_bytes())
    assert store.load("copy") == profile("copy")


@pytest.mark.parametrize("bad", ["", "../x", "A", "a/b", "-a", "a" * 49, "ä", "a\n"])
def test_ids_cannot_leave_the_folder(store: ProfileStore, bad: str) -> None:
    with pytest.raises(UsageError):
        store.path(bad)


def test_save_keeps_the_previous_version_and_restore_swaps(store: ProfileStore) -> None:
    first, second = profile(name="First"), profile(name="Second")
    store.save(first)
    assert store.previous("one") is None
    store.save(second, replaces=first)
    assert store.previous("one") == first
    assert store.restore_previous("one") == first
    assert (store.load("one"), store.previous("one")) == (first, second)


def test_restore_mends_a_damaged_file_and_keeps_it(store: ProfileStore) -> None:
    first, second = profile(name="First"), profile(name="Second")
    store.save(first)
    store.save(second, replaces=first)
    write(store, "one", b"\xff\xfe")
    assert store.restore_previous("one") == first
    assert store.path("one").with_name("one.yaml.previous").read_bytes() == b"\xff\xfe"
    with pytest.raises(DamagedFileError):
        store.previous("one")


def test_delete_can_be_taken_back(store: ProfileStore) -> None:
    store.save(profile())
    store.delete("one")
    assert store.list().profiles == ()
    with pytest.raises(UsageError):
        store.load("one")
    with pytest.raises(UsageError):
        store.delete("one")
    assert store.restore_previous("one") == profile()
    assert store.load("one") == profile()


def test_save_refuses_to_overwrite_unseen(store: ProfileStore) -> None:
    first = profile(name="First")
    store.save(first)
    with pytest.raises(ConflictError):
        store.save(profile(name="Other"))
    store.save(profile(name="Second"), replaces=first)
    with pytest.raises(ConflictError):
        store.save(profile(name="Third"), replaces=first)
    assert store.load("one").name == "Second"
    store.delete("one")
    with pytest.raises(ConflictError):
        store.save(profile(name="Third"), replaces=profile(name="Second"))


def test_of_many_writers_at_once_one_wins(store: ProfileStore) -> None:
    start = profile(name="Start")
    store.save(start)
    stores = [ProfileStore(store.path("x").parent, ENGINES) for _ in range(8)]
    outcomes: list[str] = []

    def edit(number: int) -> None:
        try:
            stores[number].save(profile(name=f"Writer {number}"), replaces=start)
            outcomes.append("saved")
        except ConflictError:
            outcomes.append("conflict")

    threads = [threading.Thread(target=edit, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["conflict"] * 7 + ["saved"]
    assert store.previous("one") == start


def test_a_failed_write_leaves_the_old_file(
    store: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(profile())
    before = store.path("one").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        store.save(profile(name="New"), replaces=profile())
    assert store.path("one").read_bytes() == before
    assert not list(store.path("one").parent.glob(".*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(store: ProfileStore) -> None:
    store.save(profile())
    store.path("one").parent.chmod(0o500)
    try:
        with pytest.raises(UsageError):
            store.save(profile(name="New"), replaces=profile())
        assert store.load("one") == profile()
    finally:
        store.path("one").parent.chmod(0o700)


def test_import_and_export(store: ProfileStore, tmp_path: Path) -> None:
    store.save(profile())
    out = tmp_path / "shared.yaml"
    store.export("one", out)
    with pytest.raises(ConflictError):
        store.export("one", out)
    store.export("one", out, overwrite=True)
    with pytest.raises(ConflictError):
        store.import_file(out)
    assert store.import_file(out, "two") == profile("two")
    assert [p.id for p in store.list().profiles] == ["one", "two"]
    with pytest.raises(UsageError):
        store.import_file(tmp_path / "none.yaml")
    out.write_text(out.read_text().replace("2048", "no"))
    with pytest.raises(ProfileError):
        store.import_file(out, "three")
    assert not store.path("three").exists()


def test_draft_is_valid_and_its_id_is_free(store: ProfileStore) -> None:
    install = EngineInstall("fake", "/opt/env", "1.2", "/opt/env/bin/fakellm")
    draft = store.draft(
        "fake",
        name="Qwen 3 (32B)!",
        target="local",
        model_path="/m",
        gpu_count=2,
        on_wsl=False,
        install=install,
    )
    assert draft == Profile(
        "qwen-3-32b",
        "Qwen 3 (32B)!",
        "local",
        EngineRef("fake", "/opt/env", "1.2"),
        ModelRef("/m"),
        Network(port=8123),
        settings={"context_length": 8192},
    )
    assert store.validate(draft) == ()
    assert not store.path(draft.id).exists()
    store.save(draft)
    assert store.free_id("Qwen 3 32b") == "qwen-3-32b-2"
    store.delete(draft.id)
    assert store.free_id("Qwen 3 32b") == "qwen-3-32b-2"
    assert store.free_id("日本語") == "profile"
    assert len(store.free_id("x" * 200)) <= 48


def test_draft_takes_the_environment_that_the_platform_needs(store: ProfileStore) -> None:
    draft = store.draft("fake", name="W", target="wsl", model_path="/m", gpu_count=2, on_wsl=True)
    assert draft.env == {"NCCL_CUMEM_ENABLE": EnvEntry("0", "WSL")}
    with pytest.raises(UsageError, match="no engine ollama"):
        store.draft("ollama", name="W", target="wsl", model_path="/m", gpu_count=2, on_wsl=True)


def test_load_with_faults_gives_an_editor_the_rest(store: ProfileStore) -> None:
    write(store, "half", with_settings("eager: no"))
    got, found = store.load_with_faults("half")
    assert (got.name, [f.path for f in found]) == ("One", ["settings.eager"])


def test_missing_folder_is_an_empty_list(store: ProfileStore) -> None:
    assert store.list() == type(store.list())((), ())
    with pytest.raises(UsageError, match="no profile"):
        store.load("one")


def test_a_long_list_is_quick(store: ProfileStore) -> None:
    for number in range(40):
        write(store, f"p{number}", dump_profile(profile()))
    begun = time.perf_counter()
    assert len(store.list().profiles) == 40
    assert time.perf_counter() - begun < 5
