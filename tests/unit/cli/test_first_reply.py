"""The end of ``twinrig up``: the proof by a reply, and the question about the logon."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.reply_server import ReplyServer, events, fault, reply_server
from service_fakes import FolderHost
from service_fakes import profile as a_profile
from twinrig.cli.first_reply import ask_logon, prove
from twinrig.cli.terminal import Terminal
from twinrig.domain.errors import HostError
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import ServerRecord
from twinrig.hosts.clock import SystemClock
from twinrig.hosts.http import HttpxClient
from twinrig.messages import Translator, message


class Screen(io.StringIO):
    encoding = "utf-8"

    def __init__(self, text: str = "", tty: bool = True) -> None:
        super().__init__(text)
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


def terminal(answer: str = "", language: str = "en", tty: bool = True) -> Terminal:
    environ = {"NO_COLOR": "1"}
    return Terminal(Translator(language), environ, out=Screen(tty=tty), source=Screen(answer, tty))


def shown(screen: Terminal) -> str:
    return screen._out.getvalue()  # type: ignore[attr-defined]


class Logon:
    """As much of the controller as the question needs."""

    def __init__(self, autostart: bool | None) -> None:
        self.autostart = autostart
        self.refuses = False

    async def status(self, profile_id: str) -> Any:
        return SimpleNamespace(autostart=self.autostart)

    async def set_autostart(self, profile_id: str, enabled: bool) -> None:
        if self.refuses:
            raise HostError(message("No task can be made."), message("Ask the administrator."))
        self.autostart = enabled


def bench_with(logon: Logon, *, demo: bool = False) -> Any:
    return SimpleNamespace(controller=logon, demo=demo)


@pytest.mark.parametrize(
    ("answer", "after"), [("\n", False), ("n\n", False), ("", False), ("y\n", True)]
)
async def test_logon_is_a_question_and_no_is_the_default(answer: str, after: bool) -> None:
    logon, screen = Logon(False), terminal(answer)
    await ask_logon(screen, bench_with(logon), "one")
    assert logon.autostart is after
    assert "Start the server when you log on, too? [y/N]" in shown(screen)
    assert ("It starts when you log on." in shown(screen)) is after


@pytest.mark.parametrize(
    ("autostart", "demo", "tty"),
    [(None, False, True), (True, False, True), (False, True, True), (False, False, False)],
)
async def test_nobody_is_asked_what_cannot_be_or_is_already(
    autostart: bool | None, demo: bool, tty: bool
) -> None:
    logon, screen = Logon(autostart), terminal("y\n", tty=tty)
    await ask_logon(screen, bench_with(logon, demo=demo), "one")
    assert logon.autostart is autostart
    assert shown(screen) == ""


async def test_a_task_that_cannot_be_made_is_told() -> None:
    logon, screen = Logon(False), terminal("y\n")
    logon.refuses = True
    await ask_logon(screen, bench_with(logon), "one")
    assert "No task can be made." in shown(screen)
    assert "Next: Ask the administrator." in shown(screen)


@pytest.fixture
def server() -> Iterator[ReplyServer]:
    with reply_server() as running:
        yield running


@pytest.fixture
async def bench(server: ReplyServer, tmp_path: Path) -> AsyncIterator[Any]:
    record = ServerRecord(
        *("one", "local", "fake", "run", ServerState.READY, 0.0, 1),
        base_url=server.url,
        model_id="tiny",
    )

    async def active_record() -> ServerRecord:
        return record

    http = HttpxClient()
    yield SimpleNamespace(
        http=http,
        clock=SystemClock(),
        host=FolderHost(tmp_path),
        engines={},
        controller=SimpleNamespace(active_record=active_record),
        profiles=SimpleNamespace(load=lambda wanted: a_profile(wanted)),
    )
    await http.close()


async def test_a_reply_is_shown_and_proves_it(bench: Any, server: ReplyServer) -> None:
    server.script = events(["Hello ", "from two cards."])
    screen = terminal()
    assert await prove(screen, bench, "one")
    assert "Hello from two cards." in shown(screen)
    assert "everything works" in shown(screen)
    assert server.asked[0]["max_tokens"] == 400
    assert server.asked[0]["messages"][0]["content"] == "Say hello in one short sentence."


async def test_it_is_asked_in_the_users_language(bench: Any, server: ReplyServer) -> None:
    server.script = events(["こんにちは"])
    assert await prove(terminal(language="ja"), bench, "one")
    assert "Say hello" not in server.asked[0]["messages"][0]["content"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (fault(401, b'{"detail": "no"}'), "refuses the key"),
        (fault(500, b'{"error": "boom"}'), "boom"),
        (events([]), "without a word"),
    ],
)
async def test_a_reply_that_fails_proves_nothing(
    bench: Any, server: ReplyServer, script: Any, words: str
) -> None:
    server.script = script
    screen = terminal()
    assert not await prove(screen, bench, "one")
    assert words in shown(screen)
    assert "Next:" in shown(screen)
    assert "everything works" not in shown(screen)


async def test_another_server_than_the_one_started_proves_nothing(bench: Any) -> None:
    screen = terminal()
    assert not await prove(screen, bench, "other")
    assert "The server of one is running on this target." in shown(screen)
