"""The Plan page over the real profile store and option table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QLineEdit, QPlainTextEdit, QRadioButton, QTableWidget

from qt.pages_rig import (
    PageWorkbench,
    ScriptedDialogs,
    make_profile,
    named,
    page_context,
    unnamed,
    visible_texts,
)
from twinrig.domain.errors import HostError
from twinrig.messages import message
from twinrig.qt.pages.plan import PlanPage
from twinrig.qt.viewmodels.launching import MASK
from twinrig.qt.widgets.launch_dialog import LaunchDialog
from twinrig.qt.widgets.parts import Button

MODEL = "/home/demo/models/Demo-8B-AWQ"


@pytest.fixture
def workbench(tmp_path) -> PageWorkbench:
    return PageWorkbench(tmp_path)


@pytest.fixture
def navigated() -> list[str]:
    return []


@pytest.fixture
def context(qapp, bridge, workbench, navigated):
    return page_context(qapp, bridge, workbench, navigated)


@pytest.fixture
def dialogs() -> ScriptedDialogs:
    return ScriptedDialogs()


@pytest.fixture
def page(qtbot, context, dialogs) -> PlanPage:
    page = PlanPage(context, dialogs=dialogs)
    qtbot.addWidget(page)
    page.resize(1000, 700)
    page.show()
    return page


def opened(qtbot, page, profile_id="") -> None:
    page.context.settings.current_profile = profile_id
    page.on_shown()
    qtbot.waitUntil(
        lambda: (
            page.model is not None
            and page._opening.finished
            and bool(page.head.picker.models)
            and (not profile_id or page.model.profile.id == profile_id)
        ),
        timeout=8000,
    )


def saved(qtbot, page) -> None:
    page.save()
    qtbot.waitUntil(lambda: not page._saving, timeout=5000)


def field(page, option_id):
    return page.form.fields[option_id]


def type_cell(qtbot, table, text) -> None:
    """Type into the cell that is being edited (editors that were closed linger for a moment)."""
    qtbot.keyClicks(table.viewport().findChildren(QLineEdit)[-1], text)


def test_a_newcomer_chooses_a_model_and_saves(qtbot, page, workbench, navigated):
    opened(qtbot, page)
    combo = named(page, QComboBox, "Model")
    shown = [combo.itemText(i) for i in range(combo.count())]
    assert any(text.startswith("Demo-8B-AWQ — 5.7 GiB") for text in shown)
    page.head.picker._activated(shown.index(next(t for t in shown if "8B" in t)))
    assert named(page, QLineEdit, "Name of the profile").text() == "Demo-8B-AWQ"
    saved(qtbot, page)
    stored = workbench.profiles.list().profiles
    assert [(p.name, p.model.path, p.engine.id) for p in stored] == [("Demo-8B-AWQ", MODEL, "demo")]
    assert page.context.settings.current_profile == stored[0].id
    assert "Saved" in visible_texts(page)
    named(page, Button, "Go to Start").click()
    assert navigated == ["server"]


def test_saving_without_a_model_names_the_field_and_writes_nothing(qtbot, page, workbench):
    opened(qtbot, page)
    saved(qtbot, page)
    assert "choose a model folder" in visible_texts(page)
    assert "Faults to correct: 1" in visible_texts(page)
    assert workbench.profiles.list().profiles == ()


def test_nothing_is_claimed_of_a_folder_that_was_not_found(qtbot, page):
    opened(qtbot, page)
    assert "Models found: 2" in visible_texts(page)
    page.head.picker.set_path("/somewhere/else")
    assert "Not one of the models found" in visible_texts(page)
    page.head.picker.set_path(MODEL)
    assert "Demo-8B-AWQ — 5.7 GiB" in visible_texts(page)


def test_a_machine_that_is_silent_is_told_beside_the_model(qtbot, page, workbench, monkeypatch):
    async def silent():
        raise HostError(message("WSL does not answer."), message("Start WSL."))

    opened(qtbot, page)
    monkeypatch.setattr(workbench.models, "scan", silent)
    page.refresh()
    qtbot.waitUntil(lambda: "WSL does not answer." in visible_texts(page), timeout=5000)
    assert named(page, Button, "Look again").isEnabled()


def test_a_new_profile_is_not_scolded_before_anything_was_done(qtbot, page):
    opened(qtbot, page)
    assert "choose a model folder" not in visible_texts(page)


def test_a_name_given_by_hand_is_not_replaced_by_the_models(qtbot, page):
    opened(qtbot, page)
    name = named(page, QLineEdit, "Name of the profile")
    name.setFocus()
    name.selectAll()
    qtbot.keyClicks(name, "Mine")
    page.head.picker.picked.emit(MODEL)
    assert name.text() == "Mine"


def test_simple_hides_expert_options_and_expert_shows_all(qtbot, page, workbench):
    opened(qtbot, page, make_profile(workbench, "P", MODEL))
    simple = set(page.form.fields)
    named(page, QRadioButton, "Expert").click()
    expert = set(page.form.fields)
    table = {o.id for o in workbench.engines["demo"].options("1.0")}
    assert expert == table
    assert simple < expert
    assert page.env.isVisibleTo(page) and page.extra.isVisibleTo(page)
    assert page.context.settings.flag("plan-expert")
    named(page, QRadioButton, "Simple").click()
    assert not page.env.isVisibleTo(page)


def shown_ids(page) -> set[str]:
    return {name for name, field in page.form.fields.items() if field.isVisibleTo(page)}


def test_settings_are_found_by_words_of_label_help_or_the_engines_key(qtbot, page, workbench):
    opened(qtbot, page, make_profile(workbench, "P", MODEL))
    assert not page.form.filter.isVisibleTo(page)
    named(page, QRadioButton, "Expert").click()
    all_of_them = shown_ids(page)
    option = field(page, "context_length").option
    words = named(page, QLineEdit, "Search the settings")
    for typed in (option.engine_key.upper(), option.label.lower(), "context_length"):
        words.setText(typed)
        assert "context_length" in shown_ids(page) < all_of_them, typed
        assert page.form.fields["context_length"].label.isVisibleTo(page)
    words.setText("no such words")
    assert shown_ids(page) == set()
    assert "No setting has these words." in visible_texts(page)
    words.clear()
    assert shown_ids(page) == all_of_them


def test_only_what_the_profile_sets_and_what_is_wrong(qtbot, page, workbench):
    opened(qtbot, page, make_profile(workbench, "P", MODEL))
    named(page, QRadioButton, "Expert").click()
    page.form.filter.set_only.setChecked(True)
    set_here = {name for name in page.form.fields if page.model.setting(name)}
    assert shown_ids(page) == set_here and set_here
    field(page, "context_length").editor.setText("12x")
    page.form.filter.words.setText("no such words")
    assert "context_length" in shown_ids(page), "a fault is never hidden"
    hidden = next(name for name in page.form.fields if name not in shown_ids(page))
    page.reveal(hidden)
    assert hidden in shown_ids(page), "a link clears the search"
    named(page, QRadioButton, "Simple").click()
    assert shown_ids(page) == set(page.form.fields)


def test_each_field_shows_the_engines_own_key_below_its_label(qtbot, page, workbench):
    opened(qtbot, page, make_profile(workbench, "P", MODEL))
    for option_id, shown in page.form.fields.items():
        assert shown.option.engine_key in visible_texts(shown.label), option_id


def test_all_faults_stand_beside_their_fields_at_once(qtbot, page, workbench):
    opened(qtbot, page, make_profile(workbench, "P", MODEL))
    field(page, "context_length").editor.setText("12x")
    field(page, "gpu_memory_utilization").editor.setText("7")
    named(page, QLineEdit, "Port").setText("70000")
    assert "must be a number" in field(page, "context_length").faults.text
    assert "at most" in field(page, "gpu_memory_utilization").faults.text
    assert "between 1 and 65535" in visible_texts(page.head)
    saved(qtbot, page)
    assert "Faults to correct: 3" in visible_texts(page)
    assert workbench.profiles.load("p").network.port != 70000
    field(page, "context_length").editor.setText("32,768")
    assert field(page, "context_length").faults.text == ""


def test_changes_are_marked_saved_and_reverted(qtbot, page, workbench):
    profile_id = make_profile(workbench, "P", MODEL)
    opened(qtbot, page, profile_id)
    assert not named(page, Button, "Save").isEnabled()
    before = field(page, "context_length").text
    field(page, "context_length").editor.setText("4096")
    assert "Changed, not saved yet" in visible_texts(page)
    assert "(changed)" in field(page, "context_length").label._label.text()
    named(page, Button, "Revert").click()
    qtbot.waitUntil(lambda: page._opening.finished and not page.dirty)
    assert field(page, "context_length").text == before
    field(page, "context_length").editor.setText("4096")
    saved(qtbot, page)
    assert workbench.profiles.load(profile_id).settings["context_length"] == 4096
    assert not page.dirty


def test_save_as_keeps_the_first_profile(qtbot, page, workbench, dialogs):
    profile_id = make_profile(workbench, "P", MODEL)
    opened(qtbot, page, profile_id)
    field(page, "context_length").editor.setText("4096")
    dialogs.answers.append("Second")
    page.save_as()
    qtbot.waitUntil(lambda: not page._saving)
    first, second = sorted(workbench.profiles.list().profiles, key=lambda p: p.name)
    assert (first.name, second.name) == ("P", "Second")
    assert first.settings["context_length"] != 4096
    assert second.settings["context_length"] == 4096
    assert page.context.settings.current_profile == second.id


@pytest.mark.parametrize(
    ("answer", "name", "context_length"), [(0, "P", 4096), (1, "Other", None), (2, "Other", None)]
)
def test_a_file_changed_meanwhile_is_never_overwritten_unasked(
    qtbot, page, workbench, dialogs, answer, name, context_length
):
    profile_id = make_profile(workbench, "P", MODEL)
    opened(qtbot, page, profile_id)
    field(page, "context_length").editor.setText("4096")
    base = workbench.profiles.load(profile_id)
    workbench.profiles.save(replace(base, name="Other"), replaces=base)
    dialogs.answers.append(answer)
    page.save()
    qtbot.waitUntil(lambda: bool(dialogs.asked) and not page._saving)
    qtbot.waitUntil(lambda: page._opening.finished)
    stored = workbench.profiles.load(profile_id)
    assert stored.name == name
    if context_length:
        assert stored.settings["context_length"] == context_length
        assert workbench.profiles.previous(profile_id).name == "Other"
    if answer == 2:
        assert field(page, "context_length").text == "4096", "edits are kept"
    if answer == 1:
        assert named(page, QLineEdit, "Name of the profile").text() == "Other"


def test_edits_are_not_lost_when_another_profile_is_chosen(qtbot, page, workbench, context):
    first = make_profile(workbench, "First", MODEL)
    second = make_profile(workbench, "Second", MODEL)
    opened(qtbot, page, first)
    field(page, "context_length").editor.setText("4096")
    context.settings.current_profile = second
    assert page.model.profile.id == first
    assert "Changes to First are not saved yet" in visible_texts(page)
    named(page, Button, "Drop them and open the chosen profile").click()
    qtbot.waitUntil(lambda: page.model.profile.id == second)


def test_environment_and_further_keys_are_edited_in_tables(qtbot, page, workbench):
    draft = workbench.profiles.draft(
        "vllm", name="V", target="demo", model_path=MODEL, gpu_count=2, on_wsl=True
    )
    workbench.profiles.save(draft)
    opened(qtbot, page, draft.id)
    named(page, QRadioButton, "Expert").click()
    reasons = {n: e.reason for n, e in page.model.profile.env.items()}
    table = named(page, QTableWidget, "Environment variables")
    page.env.add()
    type_cell(qtbot, table, "NCCL_DEBUG\t")
    type_cell(qtbot, table, "INFO\t")
    page.extra.add()
    keys = named(page, QTableWidget, "Further options of the engine")
    type_cell(qtbot, keys, "max-log-len\t")
    type_cell(qtbot, keys, "120")
    saved(qtbot, page)  # as by Ctrl+S: the cell is still being edited
    stored = workbench.profiles.load(draft.id)
    assert stored.env["NCCL_DEBUG"].value == "INFO"
    assert stored.extra == {"max-log-len": 120}
    assert {n: stored.env[n].reason for n in reasons} == reasons


def test_a_further_key_the_engine_refuses_is_told_below_the_table(qtbot, page, workbench):
    opened(qtbot, page, make_profile(workbench, "P", MODEL))
    named(page, QRadioButton, "Expert").click()
    page.extra.add()
    type_cell(qtbot, page.extra.table, "no-such-key\t")
    assert page.extra.faults.text.startswith("no-such-key: ")
    page.extra.table.selectRow(0)
    page.extra.remove()
    assert page.extra.faults.text == ""


def test_a_secret_in_the_environment_is_refused_where_it_was_typed(qtbot, page, workbench):
    opened(qtbot, page, make_profile(workbench, "P", MODEL))
    named(page, QRadioButton, "Expert").click()
    page.env.add()
    last = page.env.table.rowCount() - 1
    page.env.table.item(last, 0).setText("HF_TOKEN")
    page.env.table.item(last, 1).setText("x")
    assert "HF_TOKEN" in page.env.faults.text
    named(page, QRadioButton, "Simple").click()
    assert "HF_TOKEN" in visible_texts(page), "a fault never hides with its field"


def test_the_exact_launch_is_shown_for_what_is_typed(qtbot, page, workbench):
    opened(qtbot, page, make_profile(workbench, "P", MODEL))
    field(page, "context_length").editor.setText("5120")
    named(page, Button, "Show the exact files and command").click()
    dialog = page.findChild(LaunchDialog)
    text = named(dialog, QPlainTextEdit, "Files and command")
    qtbot.waitUntil(lambda: "5120" in text.toPlainText(), timeout=5000)
    assert "demo-server" in text.toPlainText()
    assert MODEL in text.toPlainText()
    assert MASK not in text.toPlainText()
    assert unnamed(dialog) == []


def test_a_missing_engine_is_told_in_the_launch_view(qtbot, page, workbench):
    profile = workbench.profiles.draft(
        "vllm", name="V", target="demo", model_path=MODEL, gpu_count=2, on_wsl=True
    )
    broken = replace(profile, engine=replace(profile.engine, environment="/no/such"))
    workbench.profiles.save(broken)
    opened(qtbot, page, broken.id)
    assert "not found on this machine" in visible_texts(page)
    page.show_launch()
    dialog = page.findChild(LaunchDialog)
    qtbot.waitUntil(lambda: "/no/such" in visible_texts(dialog), timeout=5000)
    assert not dialog.text.isVisibleTo(dialog)


def test_a_faulty_profile_opens_with_its_faults_marked(qtbot, page, workbench):
    profile_id = make_profile(workbench, "P", MODEL)
    path = workbench.profiles.path(profile_id)
    path.write_text(path.read_text().replace("port: 18080", "port: 99999999"))
    opened(qtbot, page, profile_id)
    assert "between 1 and 65535" in visible_texts(page)
    named(page, QLineEdit, "Port").setText("18080")
    saved(qtbot, page)
    assert workbench.profiles.load(profile_id).network.port == 18080


@pytest.mark.parametrize("damage", [b"", b"\x00\xff\xfe", b"name: [", b"a" * 300_000])
def test_a_damaged_file_is_told_and_left_alone(qtbot, page, workbench, damage):
    profile_id = make_profile(workbench, "P", MODEL)
    path = workbench.profiles.path(profile_id)
    path.write_bytes(damage)
    page.context.settings.current_profile = profile_id
    page.on_shown()
    qtbot.waitUntil(lambda: page._opening is not None and page._opening.finished, timeout=5000)
    if page.model is None:
        assert str(path) in visible_texts(page) or profile_id in visible_texts(page)
        assert not named(page, Button, "Save").isEnabled()
    else:
        assert page.faults(), "what cannot be right is marked"
    assert path.read_bytes() == damage


def test_other_engines_can_be_chosen_only_while_new(qtbot, page, workbench):
    opened(qtbot, page)
    engine = page.head.engine
    assert engine.isEnabled()
    page.head.engine_chosen.emit("vllm")
    qtbot.waitUntil(lambda: page.model.profile.engine.id == "vllm", timeout=5000)
    assert {o for o in page.form.fields} <= {o.id for o in workbench.engines["vllm"].options()}
    opened(qtbot, page, make_profile(workbench, "P", MODEL))
    assert not engine.isEnabled()


def test_a_long_japanese_name_survives(qtbot, page, workbench):
    opened(qtbot, page)
    name = "とても長い名前" * 12
    page.head.picker.picked.emit(MODEL)
    named(page, QLineEdit, "Name of the profile").setText(name)
    page.head.picker.set_path(MODEL)
    page.model.set_model(MODEL)
    saved(qtbot, page)
    assert [p.name for p in workbench.profiles.list().profiles] == [name]


def test_the_wheel_does_not_change_a_choice_in_passing(qtbot, page, workbench):
    opened(qtbot, page, make_profile(workbench, "P", MODEL))
    combo = field(page, "kv_cache_dtype").editor
    assert combo.focusPolicy() == Qt.FocusPolicy.StrongFocus
    before = combo.currentIndex()
    from PySide6.QtCore import QPoint, QPointF
    from PySide6.QtGui import QWheelEvent
    from PySide6.QtWidgets import QApplication

    event = QWheelEvent(
        QPointF(5, 5),
        QPointF(5, 5),
        QPoint(0, -120),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(combo, event)
    assert combo.currentIndex() == before


def test_every_control_has_a_name(qtbot, page, workbench, context):
    opened(qtbot, page, make_profile(workbench, "P", MODEL))
    named(page, QRadioButton, "Expert").click()
    assert unnamed(page) == []
    context.texts.set_language("ja")
    context.texts.set_language("en")
    combo = field(page, "kv_cache_dtype").editor
    assert combo.itemText(0) == "Left to the engine"


# -- a link from elsewhere ---------------------------------------------------------------------


def test_a_link_goes_to_the_very_setting(qtbot, page, workbench) -> None:
    make_profile(workbench, "Second")
    opened(qtbot, page, "second")
    page.reveal("gpu_memory_utilization")
    wanted = field(page, "gpu_memory_utilization")
    assert wanted.highlighted and wanted.label.autoFillBackground()
    assert page.focusWidget() is wanted.editor
    others = [f for f in page.form.fields.values() if f is not wanted]
    assert not any(f.highlighted for f in others)
    qtbot.waitUntil(lambda: not wanted.highlighted, timeout=10_000)


def test_a_setting_of_the_experts_is_shown_for_it(qtbot, page, workbench) -> None:
    make_profile(workbench, "Second")
    opened(qtbot, page, "second")
    hidden = next(o.id for o in page.model.options.values() if o.id not in page.form.fields)
    page.reveal(hidden)
    assert page._expert.isChecked() and field(page, hidden).highlighted


def test_a_link_waits_until_its_profile_is_open(qtbot, page, workbench) -> None:
    make_profile(workbench, "Second")
    page.context.settings.current_profile = "second"
    page.on_shown()
    page.reveal("context_length")
    assert page.model is None
    qtbot.waitUntil(lambda: page.model is not None and page._to_reveal == "")
    assert field(page, "context_length").highlighted
    page.reveal("no_such_setting")
    assert page._to_reveal == ""
