"""Themes: both are readable, and a switch reaches everybody."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QCheckBox

from twinrig.qt.theme import DARK, LIGHT, Theme, marks_palette, palette


def luminance(colour: QColor) -> float:
    def linear(part: float) -> float:
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    return (
        0.2126 * linear(colour.redF())
        + 0.7152 * linear(colour.greenF())
        + 0.0722 * linear(colour.blueF())
    )


def contrast(one: QColor, other: QColor) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_wcag_does() -> None:
    assert contrast(QColor("black"), QColor("white")) == pytest.approx(21.0)
    assert contrast(QColor("#777777"), QColor("white")) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("dark", [False, True])
def test_every_token_is_readable_on_window_and_card(dark: bool) -> None:
    tokens, colours = (DARK if dark else LIGHT), palette(dark)
    grounds = [colours.color(QPalette.ColorRole.Window), tokens.card]
    grounds.append(colours.color(QPalette.ColorRole.Base))
    texts = [tokens.ok, tokens.warn, tokens.fail, tokens.busy, tokens.muted]
    for ground in grounds:
        for colour in [*texts, *tokens.series]:
            assert contrast(colour, ground) >= 4.5, (dark, colour.name(), ground.name())


@pytest.mark.parametrize("dark", [False, True])
def test_palette_pairs_are_readable(dark: bool) -> None:
    colours, role = palette(dark), QPalette.ColorRole
    for text, ground in (
        (role.WindowText, role.Window),
        (role.Text, role.Base),
        (role.Text, role.AlternateBase),
        (role.ButtonText, role.Button),
        (role.ToolTipText, role.ToolTipBase),
        (role.PlaceholderText, role.Base),
        (role.HighlightedText, role.Highlight),
        (role.Link, role.Window),
    ):
        assert contrast(colours.color(text), colours.color(ground)) >= 4.5, (dark, text)


def test_a_switch_changes_palette_and_tokens_and_is_told(qtbot, qapp: QApplication) -> None:
    theme = Theme(qapp, "light")
    assert theme.tokens is LIGHT
    with qtbot.waitSignal(theme.changed):
        theme.apply("dark")
    assert theme.dark and theme.tokens is DARK
    assert qapp.palette().color(QPalette.ColorRole.Window) == palette(True).window().color()
    theme.apply("light")
    assert qapp.palette().color(QPalette.ColorRole.Window) == palette(False).window().color()


def test_unknown_mode_and_status_have_a_meaning(qapp: QApplication) -> None:
    theme = Theme(qapp, "purple")
    assert theme.mode == "system"
    assert theme.tokens.status("no such") == theme.tokens.muted
    assert theme.tokens.status("fail") == theme.tokens.fail


def test_an_empty_check_box_is_seen_on_dark_grounds() -> None:
    box = marks_palette(True).color(QPalette.ColorRole.Base)
    for ground in (DARK.card, palette(True).color(QPalette.ColorRole.Window)):
        assert contrast(box, ground) >= 3.0
    mark = marks_palette(True).color(QPalette.ColorRole.Text)
    assert contrast(mark, box) >= 3.0


def test_dark_lines_and_edges_are_no_brighter_than_text_that_fades() -> None:
    colours = palette(True)
    for role in (QPalette.ColorRole.Light, QPalette.ColorRole.Midlight):
        assert luminance(colours.color(role)) < luminance(DARK.muted), role


def test_the_application_gives_check_boxes_their_own_ground(qtbot, qapp: QApplication) -> None:
    theme = Theme(qapp, "dark")
    box = QCheckBox()
    qtbot.addWidget(box)
    box.show()
    for mode in ("dark", "light", "dark"):
        theme.apply(mode)
        wanted = marks_palette(mode == "dark").color(QPalette.ColorRole.Base)
        qtbot.waitUntil(
            lambda wanted=wanted: box.palette().color(QPalette.ColorRole.Base) == wanted,
            timeout=5000,
        )
