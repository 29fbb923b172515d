"""Find a model: search, fit, download, cancel, terms to accept."""

from __future__ import annotations

import asyncio

import pytest

from fixtures.hub_double import LLAMA
from qt.pages_rig import PageWorkbench, named, page_context, unnamed, visible_texts
from twinrig.domain.gpu import GpuInfo
from twinrig.domain.memory import GIB
from twinrig.qt.widgets.find_model_dialog import FindModelDialog
from twinrig.qt.widgets.parts import Button
from twinrig.services.hub import HubLook, HubModel, ModelName
from twinrig.services.hub_words import TOKEN_NAME, hub_fault

WAIT_MS = 20_000
SMALL, LARGE, GATED, BRANCHES = (
    ModelName(n) for n in ("org/small", "org/large", "org/gated", "org/branches")
)


class Cards(PageWorkbench):
    def open_gpu_probe(self):
        probe = super().open_gpu_probe()
        cards = tuple(GpuInfo(i, f"GPU-{i}", "RTX 4090", 24 * GIB) for i in range(2))
        probe.devices = lambda: cards
        probe.sample = lambda: ()
        return probe


@pytest.fixture
def workbench(tmp_path) -> PageWorkbench:
    workbench = Cards(tmp_path)
    hub = workbench.hub
    hub.hits = (
        HubModel(LARGE, 9000, False),
        HubModel(SMALL, 500, False),
        HubModel(GATED, 70, True),
        HubModel(BRANCHES, 7, False),
    )
    large = {**LLAMA, "hidden_size": 8192, "num_hidden_layers": 80, "intermediate_size": 28672}
    no_weights = hub_fault("no-weights", {"what": "org/branches", "branches": ["4bpw"]}, "")
    hub.looks = {
        "org/small": HubLook(SMALL, 3 * GIB, 3 * GIB, LLAMA),
        "org/large": HubLook(LARGE, 140 * GIB, 140 * GIB, large),
        "org/gated": HubLook(GATED, 3 * GIB, 3 * GIB, LLAMA),
        "org/branches": HubLook(BRANCHES, 1000, 0, None, ("4bpw", "main"), no_weights),
    }
    return workbench


@pytest.fixture
def dialog(qtbot, qapp, bridge, workbench) -> FindModelDialog:
    dialog = FindModelDialog(page_context(qapp, bridge, workbench, []), "vllm")
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitUntil(lambda: len(looked(dialog)) == 4, timeout=WAIT_MS)
    return dialog


def looked(dialog) -> list[list[str]]:
    return [row for row in rows(dialog) if row[1] != "…"]


def rows(dialog) -> list[list[str]]:
    items = [dialog.list.topLevelItem(i) for i in range(dialog.list.topLevelItemCount())]
    return [[item.text(column) for column in range(4)] for item in items]


def choose(dialog, name: str) -> None:
    for number in range(dialog.list.topLevelItemCount()):
        item = dialog.list.topLevelItem(number)
        if item.text(0) == name:
            dialog.list.setCurrentItem(item)
            return
    raise AssertionError(f"no row {name}")


def test_without_words_it_shows_what_others_use_and_what_fits(dialog, workbench):
    assert workbench.hub.asked == [("", "vllm")]
    assert [r[0] for r in rows(dialog)] == [
        "org/large",
        "org/small",
        "org/gated",
        "org/branches",
    ]
    fits = {r[0]: r[2] for r in rows(dialog)}
    assert fits["org/large"] == "Does not fit"
    assert fits["org/small"] == "Fits"
    dialog._fits.setChecked(True)
    assert [r[0] for r in rows(dialog)] == ["org/small", "org/gated"]
    assert unnamed(dialog) == []


def test_a_list_that_is_empty_says_why_and_what_to_do(qtbot, dialog, workbench):
    workbench.hub.hits = (HubModel(LARGE, 9000, False),)
    named(dialog, Button, "Search").click()
    qtbot.waitUntil(lambda: len(looked(dialog)) == 1, timeout=WAIT_MS)
    dialog._fits.setChecked(True)
    assert rows(dialog) == []
    assert "None of the 1 models found is known to fit" in visible_texts(dialog)
    assert "Clear “Only what fits”" in visible_texts(dialog)
    dialog._fits.setChecked(False)
    assert "None of the" not in visible_texts(dialog)
    workbench.hub.hits = ()
    named(dialog, Button, "Search").click()
    qtbot.waitUntil(lambda: "Nothing was found." in visible_texts(dialog), timeout=WAIT_MS)
    assert "Try fewer words, or a full name such as OWNER/NAME." in visible_texts(dialog)


def test_a_model_with_branches_tells_how_to_name_one(dialog):
    choose(dialog, "org/branches")
    assert "org/branches@4bpw" in visible_texts(dialog)
    assert not named(dialog, Button, "Download").isEnabled()


def test_download_then_the_folder(qtbot, dialog, workbench):
    workbench.hub.gate = asyncio.Event()
    choose(dialog, "org/small")
    named(dialog, Button, "Download").click()
    qtbot.waitUntil(lambda: dialog._bar.value() == 100, timeout=WAIT_MS)
    with qtbot.waitSignal(dialog.downloaded, timeout=WAIT_MS) as caught:
        dialog._context.bridge.in_loop(workbench.hub.gate.set)
    assert caught.args == ["/home/demo/models/org/small"]
    assert "Downloaded and verified" in visible_texts(dialog)


def test_cancel_keeps_the_dialog_and_says_what_is_kept(qtbot, dialog, workbench):
    workbench.hub.gate = asyncio.Event()
    choose(dialog, "org/small")
    named(dialog, Button, "Download").click()
    qtbot.waitUntil(lambda: ("download", "org/small") in workbench.hub.asked, timeout=WAIT_MS)
    named(dialog, Button, "Cancel").click()
    qtbot.waitUntil(lambda: workbench.hub.cancelled, timeout=WAIT_MS)
    assert dialog.isVisible()
    assert "is kept" in visible_texts(dialog)
    named(dialog, Button, "Close").click()
    assert not dialog.isVisible()


def test_terms_and_token(qtbot, dialog, workbench):
    workbench.hub.load_error = hub_fault(
        "needs-token", {"what": "org/gated"}, "https://hub.example"
    )
    choose(dialog, "org/gated")
    assert "accept the terms" in visible_texts(dialog)
    assert not dialog._token.isVisibleTo(dialog)
    named(dialog, Button, "Download").click()
    qtbot.waitUntil(lambda: dialog._token.isVisibleTo(dialog), timeout=WAIT_MS)
    assert "https://hub.example/org/gated" in visible_texts(dialog)
    dialog._token.setText("hf_mine")
    named(dialog, Button, "Store the token").click()
    qtbot.waitUntil(lambda: workbench.secrets.kept == {TOKEN_NAME: "hf_mine"}, timeout=WAIT_MS)
    assert dialog._token.text() == ""


def test_a_hub_that_cannot_be_reached_is_told(qtbot, dialog, workbench):
    workbench.hub.error = hub_fault("connection", {"what": "search"}, "https://hub.example")
    named(dialog, Button, "Search").click()
    qtbot.waitUntil(lambda: "was lost" in visible_texts(dialog), timeout=WAIT_MS)
    assert rows(dialog) == []


def test_a_full_name_is_looked_at_as_it_is(qtbot, dialog, workbench):
    name = ModelName("org/small", "4bpw")
    workbench.hub.looks["org/small@4bpw"] = HubLook(name, GIB, GIB, LLAMA)
    dialog.text.setText("org/small@4bpw")
    named(dialog, Button, "Search").click()
    qtbot.waitUntil(
        lambda: [r[:2] for r in rows(dialog)] == [["org/small@4bpw", "1.0 GiB"]], timeout=WAIT_MS
    )
    assert len(workbench.hub.asked) == 1, "nothing was searched"
