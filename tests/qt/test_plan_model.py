"""View model of the Plan page: typed texts, faults, what changed, what would be launched."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qt.pages_rig import PageWorkbench, make_profile
from twinrig.domain.errors import ConflictError, FieldError, UsageError
from twinrig.domain.launch import Endpoint, FileSpec, LaunchSpec, Readiness
from twinrig.domain.options import Option, OptionGroup, OptionKind
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Profile
from twinrig.messages import Translator, message
from twinrig.qt.viewmodels.launching import MASK, launch_text, render_launch
from twinrig.qt.viewmodels.models import engines_for, model_text, size_text
from twinrig.qt.viewmodels.plan import EnvRow, ExtraRow, PlanModel, group_options, merge_errors
from twinrig.qt.viewmodels.saving import new_profile, open_profile, overwrite, save_new
from twinrig.qt.viewmodels.values import parse_extra, parse_number, parse_setting, setting_text
from twinrig.services.models import ModelFolder


def option(option_id: str, kind: OptionKind, **changes) -> Option:
    values = {
        "id": option_id,
        "engine_key": option_id.replace("_", "-"),
        "kind": kind,
        "group": OptionGroup.CONTEXT,
        "label": option_id,
        "help": "",
    }
    return Option(**{**values, **changes})


CONTEXT = option("context", OptionKind.INT, minimum=256, maximum=1_000_000, expert=False)
EAGER = option("eager", OptionKind.BOOL)
SHARE = option("share", OptionKind.FLOAT, minimum=0.1, maximum=1.0)
EXTRA_LIST = option("stops", OptionKind.LIST)
JSON = option("rope", OptionKind.JSON, group=OptionGroup.MODEL)
KIND = option("dtype", OptionKind.CHOICE, choices=("auto", "fp8"), group=OptionGroup.CACHE)
OPTIONS = (CONTEXT, EAGER, SHARE, EXTRA_LIST, JSON, KIND)


def saved(**changes) -> Profile:
    values = {
        "settings": {"context": 8192, "eager": True},
        "env": {"A": EnvEntry("1", "because")},
        "extra": {"max-log-len": 10},
    }
    return Profile("p", "Name", "demo", EngineRef("demo"), ModelRef("/m"), **{**values, **changes})


@pytest.fixture
def model() -> PlanModel:
    profile = saved()
    return PlanModel(profile, OPTIONS, profile)


# -------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("32768", 32768),
        ("32,768", 32768),
        ("32 768", 32768),
        ("３２７６８", 32768),
        ("-5", -5),
        ("0.9", 0.9),
        ("1e3", 1000.0),
        ("0,9", None),
        ("12x", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        ("1,23", None),
    ],
)
def test_numbers_as_people_type_them(text, value):
    assert parse_number(text) == value


@given(st.integers(-(10**12), 10**12))
def test_every_integer_survives_field_and_back(number):
    value, fault = parse_setting(option("n", OptionKind.INT), setting_text(number))
    assert (value, fault) == (number, None)


@given(st.lists(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1)))
def test_every_list_survives_field_and_back(words):
    value, fault = parse_setting(EXTRA_LIST, setting_text(tuple(words)))
    assert fault is None
    assert value == (tuple(words) or None)


@pytest.mark.parametrize(
    ("row", "text", "fault"),
    [
        (CONTEXT, "12x", "must be a number"),
        (CONTEXT, "12.5", "must be a whole number"),
        (CONTEXT, "128", "must be at least 256"),
        (SHARE, "1.5", "must be at most 1.0"),
        (EAGER, "maybe", "must be true or false"),
        (JSON, "{broken", "is not valid JSON"),
        (KIND, "int3", "must be one of auto, fp8"),
    ],
)
def test_what_is_no_value_is_a_fault_in_words(row, text, fault):
    value, found = parse_setting(row, text)
    assert value is None
    assert str(found).startswith(fault)


@pytest.mark.parametrize("row", OPTIONS)
def test_an_empty_field_leaves_it_to_the_engine(row):
    assert parse_setting(row, "  ") == (None, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("False", False), ("12", 12), ("1.5", 1.5), ("1.2.3", "1.2.3"), ("x", "x")],
)
def test_further_keys_get_the_type_they_read_as(text, value):
    assert parse_extra(text) == value
    assert type(parse_extra(text)) is type(value)


# --------------------------------------------------------------------------------------- model


def test_an_untouched_profile_builds_to_itself(model):
    profile, errors = model.build()
    assert profile == saved()
    assert errors == ()
    assert not model.dirty


def test_typing_and_typing_back_is_no_change(model):
    model.set_setting("context", "4096")
    assert model.dirty
    assert model.changed("context")
    model.set_setting("context", "8192")
    assert not model.dirty
    assert not model.changed("context")


def test_a_half_typed_number_is_kept_as_typed_and_marks_dirty(model):
    model.set_setting("context", "81x")
    profile, errors = model.build()
    assert [e.path for e in errors] == ["settings.context"]
    assert profile.settings["context"] == 8192
    assert model.setting("context") == "81x"
    assert model.dirty


def test_emptying_a_field_removes_the_setting(model):
    model.set_setting("eager", "")
    assert "eager" not in model.build()[0].settings


def test_settings_the_form_does_not_know_are_kept():
    profile = saved(settings={"context": 8192, "from_the_future": "x"})
    model = PlanModel(profile, OPTIONS, profile)
    model.set_setting("context", "1024")
    assert model.build()[0].settings == {"context": 1024, "from_the_future": "x"}


def test_all_faults_are_told_at_once(model):
    model.set_setting("context", "x")
    model.set_setting("share", "y")
    model.set_port("80a")
    model.env_rows = [EnvRow("A", "1"), EnvRow("A", "2")]
    model.extra_rows = [ExtraRow("k", "1"), ExtraRow("k", "2"), ExtraRow("", "v")]
    paths = [e.path for e in model.build()[1]]
    assert paths == [
        "settings.context",
        "settings.share",
        "network.port",
        "env.A",
        "extra.k",
        "extra.",
    ]


def test_the_reason_of_a_variable_survives_editing_its_value(model):
    model.env_rows = [EnvRow("A", "2", "because"), EnvRow("", "", "")]
    assert model.build()[0].env == {"A": EnvEntry("2", "because")}


@pytest.mark.parametrize(("text", "port"), [("8001", 8001), ("８００１", 8001), (" 8001 ", 8001)])
def test_a_port_as_people_type_it(model, text, port):
    model.set_port(text)
    profile, errors = model.build()
    assert (profile.network.port, errors) == (port, ())


@pytest.mark.parametrize("text", ["", "80a", "80.5", "http"])
def test_a_port_that_is_none_is_a_fault(model, text):
    model.set_port(text)
    profile, errors = model.build()
    assert profile.network.port == 8000
    assert [e.path for e in errors] == ["network.port"]


def test_a_new_profile_is_dirty_until_it_is_saved():
    assert PlanModel(saved(), OPTIONS, None).dirty


def test_what_the_user_typed_wrong_hides_its_echo_from_the_store():
    typed = [FieldError("settings.context", message("must be a number"))]
    stored = [
        FieldError("settings.context", message("echo")),
        FieldError("name", message("one")),
        FieldError("name", message("two")),
    ]
    merged = merge_errors(typed, stored)
    assert [str(m) for m in merged["settings.context"]] == ["must be a number"]
    assert [str(m) for m in merged["name"]] == ["one", "two"]


def test_simple_shows_few_options_but_all_that_are_set():
    simple = group_options(OPTIONS, expert=False, used=["dtype"])
    assert [o.id for o in simple[OptionGroup.CONTEXT]] == ["context"]
    assert [o.id for o in simple[OptionGroup.CACHE]] == ["dtype"]
    assert OptionGroup.MODEL not in simple
    expert = group_options(OPTIONS, expert=True)
    assert sum(len(group) for group in expert.values()) == len(OPTIONS)


# -------------------------------------------------------------------------------------- models


def folder(**changes) -> ModelFolder:
    values = {
        "path": "/m/x",
        "name": "x",
        "size_bytes": 5 * 1024**3,
        "complete": True,
        "problem": None,
        "architecture": "A",
        "context_length": 4096,
    }
    return ModelFolder(**{**values, **changes})


def test_an_unknown_size_is_never_zero():
    en = Translator("en")
    assert size_text(None, en) == "size unknown"
    assert size_text(10, en) == "1 MiB"
    assert size_text(5 * 1024**3, en) == "5.0 GiB"


def test_a_model_with_a_problem_tells_it_instead_of_a_size():
    text = model_text(folder(problem=message("There is no tokenizer.")), Translator("en"))
    assert text == "x — There is no tokenizer."


def test_the_simulated_engine_is_offered_on_the_demo_rig_alone(tmp_path):
    workbench = PageWorkbench(tmp_path)
    assert [e.id for e in engines_for(workbench)] == ["demo"]
    workbench.demo = False
    assert [e.id for e in engines_for(workbench)] == ["vllm", "tabbyapi"]


# -------------------------------------------------------------------------------------- launch


def spec() -> LaunchSpec:
    return LaunchSpec(
        node_id="node0",
        argv=("/venv/bin/vllm", "serve", "--config", "/run/my file.yaml"),
        env={"TOKEN": "s3cret", "NCCL_DEBUG": "WARN"},
        files=(FileSpec("/run/my file.yaml", "api-key: s3cret\nport: 8000\n"),),
        endpoint=Endpoint("127.0.0.1", 8000),
        readiness=Readiness("/health", "/v1/completions", {}),
        model_id="m",
        secret_env=("TOKEN",),
        unset=("CUDA_VISIBLE_DEVICES",),
        bearer_token="b3arer",
    )


def test_the_launch_text_is_exact_and_masks_every_secret():
    text = launch_text([spec()], Translator("en"))
    assert "'/run/my file.yaml'" in text
    assert "NCCL_DEBUG=WARN" in text
    assert "CUDA_VISIBLE_DEVICES" in text
    assert "port: 8000" in text
    assert "s3cret" not in text
    assert f"TOKEN={MASK}" in text
    assert f"api-key: {MASK}" in text


async def test_rendering_never_fetches_the_key(tmp_path):
    workbench = PageWorkbench(tmp_path)
    profile = workbench.profiles.load(make_profile(workbench, "x"))
    with_key = replace(profile, network=replace(profile.network, key_name="mine"))
    workbench.secrets = None  # whoever asks it fails
    specs = await render_launch(workbench, with_key)
    assert specs[0].argv
    assert MASK not in str(specs[0].argv)


async def test_rendering_a_missing_engine_says_what_to_do(tmp_path):
    workbench = PageWorkbench(tmp_path)
    profile = workbench.profiles.draft(
        "vllm", name="v", target="demo", model_path="/m", gpu_count=2, on_wsl=True
    )
    broken = replace(profile, engine=EngineRef("vllm", "/no/such/place"))
    with pytest.raises(UsageError) as caught:
        await render_launch(workbench, broken)
    assert caught.value.next_step is not None


# -------------------------------------------------------------------------------------- saving


async def test_a_new_profile_has_the_defaults_of_this_machine(tmp_path):
    workbench = PageWorkbench(tmp_path)
    opened = await new_profile(workbench, "demo", "Fresh", "/m")
    assert opened.base is None
    assert opened.install is not None
    assert opened.profile.settings["tensor_parallel_size"] == 2
    stored = save_new(workbench.profiles, opened.profile)
    assert workbench.profiles.load(stored.id) == stored


async def test_saving_two_new_profiles_of_one_name_keeps_both(tmp_path):
    workbench = PageWorkbench(tmp_path)
    opened = await new_profile(workbench, "demo", "日本語", "/m")
    first = save_new(workbench.profiles, opened.profile)
    second = save_new(workbench.profiles, opened.profile)
    assert first.id != second.id
    assert len(workbench.profiles.list().profiles) == 2


async def test_overwriting_keeps_the_other_version_as_previous(tmp_path):
    workbench = PageWorkbench(tmp_path)
    store = workbench.profiles
    base = store.load(make_profile(workbench, "Mine"))
    other = replace(base, name="Other")
    store.save(other, replaces=base)
    mine = replace(base, name="My edit")
    with pytest.raises(ConflictError):
        store.save(mine, replaces=base)
    assert overwrite(store, mine) == mine
    assert store.load(base.id).name == "My edit"
    assert store.previous(base.id).name == "Other"


@pytest.mark.parametrize("damage", [None, b"\x00\xff: [", b""])
async def test_overwriting_a_file_that_vanished_or_broke(tmp_path, damage):
    workbench = PageWorkbench(tmp_path)
    store = workbench.profiles
    base = store.load(make_profile(workbench, "Mine"))
    path = store.path(base.id)
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    overwrite(store, base)
    assert store.load(base.id) == base


async def test_a_faulty_profile_can_be_opened_to_mend_it(tmp_path):
    workbench = PageWorkbench(tmp_path)
    profile_id = make_profile(workbench, "Mine")
    path = workbench.profiles.path(profile_id)
    path.write_text(path.read_text().replace("port: 18080", "port: 99999999"))
    opened = await open_profile(workbench, profile_id)
    assert opened.base is not None
    errors = workbench.profiles.validate(opened.profile)
    assert [e.path for e in errors] == ["network.port"]
