"""The switch for other devices: shows what is, asks before it changes anything."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QWidget

from qt.pages_rig import PageWorkbench, make_profile, page_context
from twinrig.domain.profile import Network
from twinrig.qt.pages.base import PageContext
from twinrig.qt.viewmodels.fixing import Stage
from twinrig.qt.widgets.fix_dialog import FixDialog
from twinrig.qt.widgets.key_dialog import KeyDialog
from twinrig.qt.widgets.lan_switch import LanSwitch


@pytest.fixture
def workbench(tmp_path) -> PageWorkbench:
    return PageWorkbench(tmp_path)


@pytest.fixture
def pages(qapp, bridge, workbench) -> PageContext:
    return page_context(qapp, bridge, workbench, [])


def network(workbench: PageWorkbench, **changes: object) -> str:
    draft = workbench.profiles.draft(
        "vllm", name="Big", target="demo", model_path="/models/big", gpu_count=2, on_wsl=True
    )
    changed = replace(draft, network=Network(**{"port": 8123, **changes}))  # type: ignore[arg-type]
    workbench.profiles.save(changed)
    return changed.id


def shown(qtbot, context: PageContext, profile_id: str) -> LanSwitch:
    switch = LanSwitch(context)
    qtbot.addWidget(switch)
    switch.show_profile(profile_id)
    if profile_id:
        qtbot.waitUntil(switch.box.isEnabled)
    return switch


def dialog_of(widget: QWidget) -> FixDialog | None:
    found = widget.findChildren(FixDialog)
    return found[0] if found else None


def test_without_a_server_there_is_no_switch(qtbot, pages) -> None:
    assert shown(qtbot, pages, "").isHidden()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "Other devices: http://192.168.1.20:8123/v1"),
        (200, "Other devices get in without the key: http://192.168.1.20:8123/v1."),
        (None, "Other devices: http://192.168.1.20:8123/v1 (does not answer yet)"),
    ],
)
def test_what_other_devices_find(qtbot, pages, workbench, status, words) -> None:
    workbench.outside.status = status
    switch = shown(qtbot, pages, network(workbench, host="0.0.0.0", key_name="lan"))

    assert switch.box.isChecked()
    assert switch.note.text().startswith(words)


def key_dialog_of(widget: QWidget) -> KeyDialog | None:
    found = widget.findChildren(KeyDialog)
    return found[0] if found else None


def asked_for_a_key(qtbot, switch: LanSwitch) -> KeyDialog:
    qtbot.waitUntil(lambda: key_dialog_of(switch) is not None)
    dialog = key_dialog_of(switch)
    assert dialog is not None
    return dialog


def test_a_server_without_a_key_gets_one_before_it_is_shared(qtbot, pages, workbench) -> None:
    profile_id = network(workbench)
    switch = shown(qtbot, pages, profile_id)
    switch.box.click()
    dialog = asked_for_a_key(qtbot, switch)
    key = dialog.key.text()
    assert len(key) >= 32 and not switch.box.isChecked()
    assert dialog_of(switch) is None, "nothing is opened before there is a key"
    dialog.store_button.click()
    qtbot.waitUntil(lambda: dialog_of(switch) is not None)
    preview = dialog_of(switch)
    assert preview is not None
    qtbot.waitUntil(lambda: preview.flow.stage is Stage.PREVIEW)

    assert workbench.secrets.kept == {profile_id: key}
    assert workbench.profiles.load(profile_id).network.key_name == profile_id
    assert "has no key" not in switch.note.text()
    preview.reject()


def test_a_key_that_is_not_given_shares_nothing(qtbot, pages, workbench) -> None:
    profile_id = network(workbench)
    switch = shown(qtbot, pages, profile_id)
    switch.box.click()
    dialog = asked_for_a_key(qtbot, switch)
    dialog.key.setText("  ")
    assert not dialog.store_button.isEnabled()
    dialog.reject()

    assert workbench.secrets.kept == {}
    assert workbench.profiles.load(profile_id).network.key_name == ""
    assert not switch.box.isChecked() and dialog_of(switch) is None


def test_two_keys_in_a_row_differ_and_ones_own_is_taken(qtbot, pages, workbench) -> None:
    profile_id = network(workbench, host="0.0.0.0", key_name="lan")
    switch = shown(qtbot, pages, profile_id)
    made = []
    for own in ("", "  my own key  "):
        switch.key_button.click()
        dialog = asked_for_a_key(qtbot, switch)
        made.append(dialog.key.text())
        if own:
            dialog.key.setText(own)
        dialog.store_button.click()
        qtbot.waitUntil(lambda: key_dialog_of(switch) is None)
    assert made[0] != made[1]
    assert workbench.secrets.kept == {"lan": "my own key"}
    assert workbench.profiles.load(profile_id).network.key_name == "lan"
    assert dialog_of(switch) is None


def test_without_a_keyring_a_file_is_asked_for(qtbot, pages, workbench) -> None:
    async def allow_file() -> None:
        workbench.secrets.lasting = True

    workbench.secrets.allow_file = allow_file
    workbench.secrets.lasting = False
    profile_id = network(workbench)
    switch = shown(qtbot, pages, profile_id)
    switch.box.click()
    dialog = asked_for_a_key(qtbot, switch)
    assert not dialog.in_file.isVisibleTo(dialog)
    dialog.store_button.click()
    qtbot.waitUntil(lambda: dialog.in_file.isVisibleTo(dialog))
    assert "no keyring" in dialog.notice.text
    assert workbench.profiles.load(profile_id).network.key_name == "", "nothing is half done"
    dialog.in_file.setChecked(True)
    with qtbot.waitSignal(dialog.stored):
        dialog.store_button.click()
    assert workbench.profiles.load(profile_id).network.key_name == profile_id
    qtbot.waitUntil(lambda: dialog_of(switch) is not None)
    preview = dialog_of(switch)
    assert preview is not None
    preview.reject()


def test_only_a_shared_server_offers_another_key(qtbot, pages, workbench) -> None:
    switch = shown(qtbot, pages, network(workbench, key_name="lan"))
    assert not switch.key_button.isVisibleTo(switch)


def test_the_demo_server_is_not_shared(qtbot, pages, workbench) -> None:
    switch = shown(qtbot, pages, make_profile(workbench, "Demo"))
    switch.box.click()
    qtbot.waitUntil(lambda: "demo" in switch.note.text())

    assert not switch.box.isChecked() and dialog_of(switch) is None


def test_the_preview_comes_first_and_the_box_turns_when_it_is_done(qtbot, pages, workbench) -> None:
    profile_id = network(workbench, key_name="lan")
    switch = shown(qtbot, pages, profile_id)
    switch.box.click()
    qtbot.waitUntil(lambda: dialog_of(switch) is not None)
    dialog = dialog_of(switch)
    assert dialog is not None
    qtbot.waitUntil(lambda: dialog.flow.stage is Stage.PREVIEW)

    assert not switch.box.isChecked()
    text = dialog._text.toPlainText()
    assert '+  host: "0.0.0.0"' in text and "netsh interface portproxy add" in text
    assert any("/metrics" in str(note) for note in dialog.flow.notes())
    # The simulated machine has no Windows: the step fails, and the profile is put back.
    dialog.apply()
    qtbot.waitUntil(lambda: dialog.flow.stage is Stage.FAILED)
    assert workbench.profiles.load(profile_id).network.host == "127.0.0.1"
    assert not switch.box.isChecked()
    dialog.reject()


def test_ending_it_is_previewed_too(qtbot, pages, workbench) -> None:
    switch = shown(qtbot, pages, network(workbench, host="0.0.0.0", key_name="lan"))
    switch.box.click()
    qtbot.waitUntil(lambda: dialog_of(switch) is not None)
    dialog = dialog_of(switch)
    assert dialog is not None
    qtbot.waitUntil(lambda: dialog.flow.stage is Stage.PREVIEW)

    assert switch.box.isChecked()
    assert '+  host: "127.0.0.1"' in dialog._text.toPlainText()
    dialog.reject()
