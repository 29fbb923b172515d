"""Overview: both cards, speed, state and endpoint at a glance."""

from __future__ import annotations

from twinrig.messages import N_
from twinrig.qt.pages.base import Page


class OverviewPage(Page):
    page_id = "overview"
    title = N_("Overview")
    icon = "overview"
