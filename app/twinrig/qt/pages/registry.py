"""All pages, in the order of the navigation. A new page is one file and one line here."""

from __future__ import annotations

from twinrig.qt.pages.base import Page
from twinrig.qt.pages.first_steps import FirstStepsPage
from twinrig.qt.pages.overview import OverviewPage
from twinrig.qt.pages.plan import PlanPage
from twinrig.qt.pages.preflight import PreflightPage
from twinrig.qt.pages.server import ServerPage
from twinrig.qt.pages.settings import SettingsPage
from twinrig.qt.pages.try_page import TryPage

PAGES: tuple[type[Page], ...] = (
    OverviewPage,
    PreflightPage,
    PlanPage,
    ServerPage,
    TryPage,
    SettingsPage,
    FirstStepsPage,
)
