"""The list of profiles on the Server page: choose, copy, rename, delete, import, mend."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QListView

from qt.pages_rig import (
    PageWorkbench,
    ScriptedDialogs,
    make_profile,
    named,
    page_context,
    state_record,
    visible_texts,
)
from twinrig.qt.pages.server import ServerPage
from twinrig.qt.widgets.parts import Button


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
def page(qtbot, context, dialogs) -> ServerPage:
    page = ServerPage(context, dialogs=dialogs)
    qtbot.addWidget(page)
    page.resize(1100, 700)
    page.show()
    return page


def shown(qtbot, page) -> None:
    page.on_shown()
    qtbot.waitUntil(lambda: page.panel.loaded, timeout=5000)


def with_profile(qtbot, page, workbench, name="Alpha") -> str:
    profile_id = make_profile(workbench, name)
    shown(qtbot, page)
    qtbot.waitUntil(lambda: page.pane.profile_id == profile_id, timeout=5000)
    return profile_id


def names(page) -> list[str]:
    return [r.name for r in page.panel.model.rows]


def wait_text(qtbot, page, text) -> None:
    qtbot.waitUntil(lambda: text in visible_texts(page), timeout=5000)


def test_without_a_profile_it_says_what_to_do(qtbot, page, navigated, context):
    shown(qtbot, page)
    assert "No profile yet" in visible_texts(page)
    named(page, Button, "Make a profile").click()
    assert navigated == ["plan"]
    assert context.settings.current_profile == ""


def test_selecting_a_profile_makes_it_the_current_one(qtbot, page, workbench, context):
    make_profile(workbench, "Alpha")
    beta = make_profile(workbench, "Beta")
    shown(qtbot, page)
    view = named(page, QListView, "Profiles")
    view.setCurrentIndex(page.panel.model.position(beta))
    assert context.settings.current_profile == beta
    assert page.pane.profile_id == beta


def test_a_broken_file_hides_nobody_and_tells_its_reason(
    qtbot, page, workbench, dialogs, navigated
):
    with_profile(qtbot, page, workbench)
    path = workbench.profiles.path("bad")
    path.write_text("name: [")
    page.refresh()
    qtbot.waitUntil(lambda: names(page) == ["Alpha", "bad.yaml"], timeout=5000)
    page.panel.select("bad")
    assert str(path) in visible_texts(page)
    assert not page._mend.isVisibleTo(page)
    dialogs.answers.append(True)
    named(page, Button, "Open folder").click()
    assert dialogs.asked == [("show_in_desktop", str(path.parent))]


def test_a_profile_with_faulty_fields_can_be_mended(qtbot, page, workbench, navigated, context):
    profile_id = make_profile(workbench, "Alpha")
    path = workbench.profiles.path(profile_id)
    path.write_text(path.read_text().replace("port: 18080", "port: 0"))
    shown(qtbot, page)
    qtbot.waitUntil(lambda: "network.port" in visible_texts(page))
    named(page, Button, "Mend it on the Plan page").click()
    assert navigated == ["plan"]
    assert context.settings.current_profile == profile_id


def test_a_profile_of_another_machine_cannot_be_started_here(qtbot, page, workbench):
    make_profile(workbench, "Alpha")
    draft = workbench.profiles.draft(
        "vllm", name="Far", target="wsl", model_path="/m", gpu_count=2, on_wsl=True
    )
    workbench.profiles.save(draft)
    shown(qtbot, page)
    page.panel.select("far")
    assert "another machine" in visible_texts(page)
    assert not [b for b in page.findChildren(Button) if b.text() == "Start" and b.isVisible()]
    page.panel.duplicate()
    qtbot.waitUntil(lambda: len(names(page)) == 3, timeout=5000)
    copied = next(p for p in workbench.profiles.list().profiles if p.name == "Far (2)")
    assert copied.target == "demo"


def test_duplicate_rename_and_delete_with_undo(qtbot, page, workbench, dialogs):
    with_profile(qtbot, page, workbench)
    page.panel.action("duplicate").trigger()
    qtbot.waitUntil(lambda: names(page) == ["Alpha", "Alpha (2)"], timeout=5000)
    dialogs.answers.append("ベータ")
    page.panel.action("rename").trigger()
    qtbot.waitUntil(lambda: "ベータ" in names(page), timeout=5000)
    page.panel.select(page.panel.model.rows[-1].id)
    name = page.panel.current.name
    page.panel.action("delete").trigger()
    qtbot.waitUntil(lambda: len(names(page)) == 1, timeout=5000)
    assert f"Deleted: {name}" in visible_texts(page)
    named(page, Button, "Undo").click()
    qtbot.waitUntil(lambda: name in names(page), timeout=5000)
    assert len(workbench.profiles.list().profiles) == 2


def test_deleting_takes_the_autostart_along(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    workbench.controller.autostart[profile_id] = True
    page.panel.delete()
    qtbot.waitUntil(lambda: names(page) == [], timeout=5000)
    assert workbench.controller.asked == [("autostart", profile_id, "False")]


def test_a_running_profile_cannot_be_deleted(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    workbench.controller.set(state_record(profile_id))
    qtbot.waitUntil(lambda: not page.panel.action("delete").isEnabled(), timeout=5000)
    page.panel.delete()
    assert workbench.profiles.load(profile_id)


def test_a_damaged_file_is_deleted_only_after_a_question(qtbot, page, workbench, dialogs):
    path = workbench.profiles.path("bad")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x00")
    shown(qtbot, page)
    dialogs.answers.append(1)
    page.panel.delete()
    assert path.exists()
    dialogs.answers.append(0)
    page.panel.delete()
    qtbot.waitUntil(lambda: not path.exists(), timeout=5000)


def test_export_and_import(qtbot, page, workbench, dialogs, tmp_path):
    with_profile(qtbot, page, workbench)
    target = tmp_path / "out.yaml"
    dialogs.answers += [target, target]
    page.panel.action("export").trigger()
    wait_text(qtbot, page, "Exported")
    page.panel.action("import").trigger()
    qtbot.waitUntil(lambda: len(names(page)) == 2, timeout=5000)
    ids = {p.id for p in workbench.profiles.list().profiles}
    assert ids == {"alpha", "out"}


@pytest.mark.parametrize("content", [b"", b"\x00\x01\x02", b"- a list", b"x" * 300_000])
def test_importing_rubbish_is_refused_in_words(qtbot, page, workbench, dialogs, tmp_path, content):
    with_profile(qtbot, page, workbench)
    source = tmp_path / "rubbish.yaml"
    source.write_bytes(content)
    dialogs.answers.append(source)
    page.panel.action("import").trigger()
    qtbot.waitUntil(page.panel.notice.isVisible, timeout=5000)
    assert "rubbish" in page.panel.notice.text
    assert names(page) == ["Alpha"]


def test_the_previous_version_comes_back(qtbot, page, workbench):
    profile_id = with_profile(qtbot, page, workbench)
    base = workbench.profiles.load(profile_id)
    workbench.profiles.save(replace(base, name="Newer"), replaces=base)
    page.refresh()
    qtbot.waitUntil(lambda: names(page) == ["Newer"], timeout=5000)
    page.panel.action("previous").trigger()
    qtbot.waitUntil(lambda: names(page) == ["Alpha"], timeout=5000)


def test_a_recipe_is_shared_without_what_names_its_owner(qtbot, page, workbench, dialogs, tmp_path):
    profile_id = make_profile(workbench, "Alpha", "/home/taro/models/Name")
    page.on_shown()
    qtbot.waitUntil(lambda: page.panel.current is not None, timeout=20_000)
    target = tmp_path / "shared.yaml"
    dialogs.answers.append(target)
    page.panel.action("share").trigger()
    qtbot.waitUntil(target.exists, timeout=20_000)
    text = target.read_text()
    assert "taro" not in text and profile_id in text
    assert "/home/you/models/Name" in text
