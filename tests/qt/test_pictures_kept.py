"""Pictures that come back are the same ones: Qt keeps a copy of every one that was painted."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor, QPixmap, QPixmapCache

from twinrig.qt.icons import Icons
from twinrig.qt.theme import Theme
from twinrig.qt.widgets.labels import KIND_ICONS, StatusBadge


@pytest.fixture
def small_cache(qapp):
    """Room for little, so that it shows when it is run over."""
    limit = QPixmapCache.cacheLimit()
    QPixmapCache.clear()
    QPixmapCache.setCacheLimit(200)
    yield
    QPixmapCache.setCacheLimit(limit)


def test_a_picture_that_comes_back_is_the_same_one(qapp) -> None:
    icons = Icons()
    one = icons.pixmap("ok", QColor("red"), 16, 1.5)
    assert icons.pixmap("ok", QColor("red"), 16, 1.5).cacheKey() == one.cacheKey()
    others = (("fail", "red", 16, 1.5), ("ok", "blue", 16, 1.5), ("ok", "red", 17, 1.5))
    for name, colour, size, ratio in (*others, ("ok", "red", 16, 1.0)):
        assert icons.pixmap(name, QColor(colour), size, ratio).cacheKey() != one.cacheKey()


def test_states_that_come_and_go_do_not_fill_the_cache_of_pictures(
    qtbot, qapp, small_cache
) -> None:
    badge = StatusBadge(Theme(qapp, "light"), Icons())
    qtbot.addWidget(badge)
    badge.show()
    QPixmapCache.insert("oldest", Icons().pixmap("ok", QColor("red"), 16))
    for number in range(400):  # a KiB each, if each were new
        badge.show_status(KIND_ICONS[number % len(KIND_ICONS)], "word")
        badge.repaint()
    assert QPixmapCache.find("oldest", QPixmap()), "pushed out by pictures of the badge"
