"""Text of the panel in the user's language, switched live.

Sentences are marked with ``N_`` or ``message`` where they are written, and translated here.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QLocale, QObject, Signal
from shiboken6 import isValid

from twinrig.domain.errors import TwinrigError
from twinrig.messages import LANGUAGES, N_, Message, Translator

_log = logging.getLogger(__name__)

Setter = Callable[[Any, str], object]


class Texts(QObject):
    """Translates, and keeps bound widgets in the current language.

    ``changed`` fires after all bound texts were set again.
    """

    changed = Signal()

    def __init__(self, language: str = "en", parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._translator = _translator(language)
        self._bound: weakref.WeakKeyDictionary[
            QObject, dict[Setter, tuple[Message | str, dict[str, Any]]]
        ] = weakref.WeakKeyDictionary()

    @property
    def language(self) -> str:
        """Code of the language in use: "en" or "ja"."""
        return self._translator.language

    def set_language(self, language: str) -> None:
        """Switch; every bound text is set again, then ``changed`` fires."""
        self._translator = _translator(language)
        for owner, entries in list(self._bound.items()):
            if not isValid(owner):
                self._bound.pop(owner, None)
                continue
            for setter, (text, params) in entries.items():
                setter(owner, self.tr(text, **params))
        self.changed.emit()

    def tr(self, text: Message | str, **params: Any) -> str:
        """A Message, or a marked sentence with its values, in the current language."""
        return self._translator.text(text, **params)

    def bind(self, owner: QObject, setter: Setter, text: Message | str, **params: Any) -> None:
        """Set a text now and at every language switch, as long as ``owner`` lives.

        ``setter`` is called as ``setter(owner, text)``: ``texts.bind(label, QLabel.setText,
        N_("Language"))``. Binding the same setter again replaces the text.
        """
        self._bound.setdefault(owner, {})[setter] = (text, params)
        setter(owner, self.tr(text, **params))

    def error(self, error: BaseException) -> str:
        """What happened and what to do next, for people."""
        if isinstance(error, TwinrigError):
            parts = [self.tr(error.text)]
            if error.next_step is not None:
                parts.append(self.tr(error.next_step))
            return "\n".join(parts)
        return self.tr(
            N_("Something unexpected happened: {error}. The log file has the details."),
            error=f"{type(error).__name__}: {error}" if str(error) else type(error).__name__,
        )


def system_language() -> str:
    """The supported language that the desktop's locale asks for, else English."""
    code = QLocale.system().name().partition("_")[0]
    return code if code in LANGUAGES else "en"


def _translator(language: str) -> Translator:
    try:
        return Translator(language)
    except FileNotFoundError:
        _log.warning("no catalogue for language %s; English is used", language)
        return Translator("en")
