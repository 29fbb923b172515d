from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from fixtures.modes import modes_bind
from service_fakes import ENGINES, profile
from twinrig.domain.errors import (
    ConflictError,
    DamagedFileError,
    HostError,
    NewerSchemaError,
    ProfileError,
    UsageError,
)
from twinrig.domain.install import EngineInstall
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Network, Profile
from twinrig.services.profile_codec import read_profile
from twinrig.services.profiles import ProfileStore, dump_profile


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    return ProfileStore(tmp_path / "profiles", ENGINES)


def write(store: ProfileStore, id: str, text: str | bytes) -> Path:
    path = store.path(id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def with_settings(line: str) -> str:
    return dump_profile(profile()).replace("  context_length: 2048\n", f"  {line}\n")


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


def test_an_unreadable_file_is_told(store: ProfileStore) -> None:
    store.save(profile("good"))
    path = write(store, "locked", "x")
    path.chmod(0)
    with modes_bind():
        listing = store.list()
    assert [b.path for b in listing.broken] == [path]
    assert [p.id for p in listing.profiles] == ["good"]


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
    with pytest.raises(HostError, match="No space left"):
        store.save(profile(name="New"), replaces=profile())
    assert store.path("one").read_bytes() == before
    assert not list(store.path("one").parent.glob(".*"))


def test_read_only_folder(store: ProfileStore) -> None:
    store.save(profile())
    store.path("one").parent.chmod(0o500)
    try:
        with modes_bind(), pytest.raises(HostError):
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
    (tmp_path / "odd.yaml").write_bytes(b"\xff\x00")
    for path in (tmp_path, tmp_path / "odd.yaml"):
        with pytest.raises(DamagedFileError) as told:
            store.import_file(path)
        assert str(told.value.next_step) == "Choose another file, or correct this one."
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
    assert store.free_id("Nul") == "nul-profile"
    assert [e.path for e in store.validate(profile("com1"))] == ["id"]
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


def test_a_profile_that_was_cut_off_is_told_wherever_the_cut_is(tmp_path: Path) -> None:
    """Half a YAML file is often valid YAML: the settings after the cut would be lost silently."""
    store = ProfileStore(tmp_path, ENGINES)
    store.save(profile("one"))
    whole = store.path("one").read_bytes()
    for length in range(len(whole) - 2):
        store.path("one").write_bytes(whole[:length])
        (broken,) = store.list().broken
        assert broken.path == store.path("one"), length
        assert store.path("one").read_bytes() == whole[:length]
