"""What every page is, and what it gets: one context object, by constructor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from PySide6.QtWidgets import QWidget

from twinrig.messages import Message
from twinrig.qt.bridge import Bridge, TaskHandle, Work
from twinrig.qt.icons import Icons
from twinrig.qt.live import LiveData
from twinrig.qt.settings import PanelSettings
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme
from twinrig.qt.viewmodels.settings import Folders

if TYPE_CHECKING:
    from twinrig.services.workbench import Workbench


@dataclass(frozen=True)
class PageContext:
    """Everything a page may use.

    ``live`` tells snapshots of cards and server; ``settings.current_profile`` is the profile that
    all pages work on; ``navigate(page_id)`` or ``navigate("server/log")`` shows a page, or a part
    of it; ``report(error)`` shows a failure in the one error dialog; ``apply_language(code)``
    switches ("" = as the system); ``open_target(name)`` closes this panel and opens one on
    another target.
    """

    workbench: Workbench
    bridge: Bridge
    texts: Texts
    theme: Theme
    icons: Icons
    live: LiveData
    settings: PanelSettings
    navigate: Callable[[str], None]
    report: Callable[[BaseException], None]
    folders: Folders
    apply_language: Callable[[str], None]
    open_target: Callable[[str], None] = lambda _target: None


class Page(QWidget):
    """Base of all pages. Work submitted through ``submit`` ends with the page.

    Subclasses set ``page_id``, ``title`` (a marked sentence) and ``icon`` (name of an icon in
    ``resources/icons``), and override what they need of the four hooks.
    """

    page_id: ClassVar[str] = ""
    title: ClassVar[str] = ""
    icon: ClassVar[str] = ""

    def __init__(self, context: PageContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.context = context
        self.setObjectName(f"page-{self.page_id}")
        context.texts.bind(self, QWidget.setAccessibleName, self.title)
        context.texts.changed.connect(self.retranslate)
        context.theme.changed.connect(self.retheme)

    @property
    def looked_at(self) -> bool:
        """Whether there is anything to look at: a page that nobody sees does nothing."""
        return self.isVisible() and not self.window().isMinimized()

    def on_shown(self) -> None:
        """The page became the visible one."""

    def on_hidden(self) -> None:
        """Another page is shown, or the window went to the tray."""

    def refresh(self) -> None:
        """F5: look again."""

    def reveal(self, part: str) -> None:
        """Bring a part of the page to view, such as "log"; unknown parts are no error."""

    def retranslate(self) -> None:
        """Set texts that are not bound by ``texts.bind``; called at each language switch."""

    def retheme(self) -> None:
        """Take colours and icons anew; called at each theme switch."""

    def tr(self, text: Message | str, **params: Any) -> str:
        """Text in the current language."""
        return self.context.texts.tr(text, **params)

    def submit(
        self,
        work: Work,
        on_result: Callable[[Any], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        on_progress: Callable[[Any], object] | None = None,
    ) -> TaskHandle:
        """``bridge.submit`` with this page as the owner."""
        return self.context.bridge.submit(work, self, on_result, on_error, on_progress)
