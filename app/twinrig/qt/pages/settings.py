"""Settings of the panel itself."""

from __future__ import annotations

from twinrig.messages import N_
from twinrig.qt.pages.base import Page


class SettingsPage(Page):
    page_id = "settings"
    title = N_("Settings")
    icon = "settings"
