"""Texts: live switch, bound widgets, errors for people."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QLabel

from twinrig.domain.errors import HostError
from twinrig.messages import Translator, message
from twinrig.qt import text as text_module
from twinrig.qt.text import Texts


class Backwards(Translator):
    """A language that is English read backwards, so that a test sees what was translated."""

    def __init__(self, language: str = "en") -> None:
        super().__init__("en")
        self.language = language

    def text(self, msg, **params):
        plain = super().text(msg, **params)
        return plain if self.language == "en" else plain[::-1]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Texts:
    monkeypatch.setattr(text_module, "Translator", Backwards)
    return Texts("en")


def test_bound_text_follows_the_language(qtbot, texts: Texts) -> None:
    label = QLabel()
    qtbot.addWidget(label)
    texts.bind(label, QLabel.setText, "Load of {name}", name="GPU 0")
    assert label.text() == "Load of GPU 0"
    with qtbot.waitSignal(texts.changed):
        texts.set_language("ja")
    assert label.text() == "0 UPG fo daoL"
    texts.set_language("en")
    assert label.text() == "Load of GPU 0"


def test_binding_again_replaces(qtbot, texts: Texts) -> None:
    label = QLabel()
    qtbot.addWidget(label)
    texts.bind(label, QLabel.setText, "Start")
    texts.bind(label, QLabel.setText, "Stop")
    texts.set_language("ja")
    assert label.text() == "potS"


def test_a_widget_that_is_gone_is_forgotten(qtbot, texts: Texts) -> None:
    parent = QLabel()
    child = QLabel(parent)
    texts.bind(child, QLabel.setText, "Start")
    parent.deleteLater()
    with qtbot.waitSignal(parent.destroyed):
        pass
    texts.set_language("ja")  # must not touch the deleted C++ object


def test_unknown_language_is_english(texts: Texts) -> None:
    assert Texts("tlh").language in ("en", "tlh")
    assert Texts("en").tr(message("{a} of {b}", a=1, b=2)) == "1 of 2"


def test_a_missing_catalogue_is_english(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(language: str) -> Translator:
        if language != "en":
            raise FileNotFoundError(language)
        return Translator("en")

    monkeypatch.setattr(text_module, "Translator", missing)
    assert Texts("ja").language == "en"


def test_errors_say_what_and_what_next(texts: Texts) -> None:
    error = HostError(message("No answer from {host}.", host="box"), message("Switch it on."))
    assert texts.error(error) == "No answer from box.\nSwitch it on."
    assert "ZeroDivisionError" in texts.error(ZeroDivisionError())
    assert "boom" in texts.error(RuntimeError("boom"))
