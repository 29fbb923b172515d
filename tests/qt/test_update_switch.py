"""The switch for newer versions: off at first, asks when on, and the privacy line follows it."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from twinrig import assets
from twinrig.domain.ports import HttpResponse
from twinrig.qt.widgets.update_switch import FLAG, VARIABLE, UpdateSwitch
from twinrig.services.update_check import TABLE, release_address

ADDRESS = "https://releases.example/latest"


@pytest.fixture
def net(context, rig):
    asked: list[str] = []

    async def get(url: str, *, timeout_s: float, token: str | None = None) -> HttpResponse:
        asked.append(url)
        return HttpResponse(200, json.dumps({"version": "99.0"}).encode())

    bench = SimpleNamespace(http=SimpleNamespace(get=get), target="demo")
    return SimpleNamespace(asked=asked, context=replace(context, workbench=bench))


def make(qtbot, net) -> UpdateSwitch:
    switch = UpdateSwitch(net.context)
    qtbot.addWidget(switch)
    switch.show()
    return switch


def test_nobody_is_asked_until_it_is_switched_on(qtbot, net, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, ADDRESS)
    switch = make(qtbot, net)
    switch.look()
    assert not switch.box.isChecked() and net.asked == []
    assert not switch.privacy.isVisible()
    switch.box.click()
    qtbot.waitUntil(lambda: "99.0" in switch.answer.text())
    assert net.asked == [ADDRESS] and net.context.settings.flag(FLAG)
    assert switch.privacy.isVisible() and ADDRESS in switch.privacy.text()
    switch.look()
    assert net.asked == [ADDRESS], "once in a run is enough"
    switch.box.click()
    assert not switch.privacy.isVisible()
    assert not switch.answer.isVisible() and not net.context.settings.flag(FLAG)


def test_without_an_address_it_cannot_be_switched_on(qtbot, net, monkeypatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("twinrig.qt.widgets.update_switch.release_address", lambda *_: "")
    net.context.settings.set_flag(FLAG)
    switch = make(qtbot, net)
    switch.look()
    assert not switch.on and not switch.box.isChecked() and net.asked == []
    assert not switch.box.isVisible() and not switch.promise.isVisible()
    assert "never asks for newer versions" in switch.answer.text() and switch.answer.isVisible()


def test_the_shipped_table_decides_what_is_shown(qtbot, net, monkeypatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    address = release_address(assets.read_text(TABLE))
    switch = make(qtbot, net)
    assert switch.box.isVisible() is bool(address)
    assert ("No update address" in switch.answer.text()) is not bool(address)
