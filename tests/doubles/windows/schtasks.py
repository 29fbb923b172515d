"""``schtasks.exe``: the switches, exit codes, languages and code pages of the real one.

Success is told on standard output, failure on standard error, in the language of Windows and the
code page of its console; the exit code is 0 or 1 and says nothing else.
"""

from __future__ import annotations

import sys
from typing import Any

import scheduler
from scheduler import Refused, Tasks

TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "ok": "SUCCESS: ",
        "error": "ERROR: ",
        "created": 'The scheduled task "{name}" has successfully been created.',
        "run": 'Attempted to run the scheduled task "{name}".',
        "ended": 'The scheduled task "{name}" has been terminated successfully.',
        "deleted": 'The scheduled task "{name}" was successfully deleted.',
        "changed": 'The parameters of scheduled task "{name}" have been changed.',
        "not_found": "The system cannot find the file specified.",
        "denied": "Access is denied.",
        "usage": "Invalid syntax. Type SCHTASKS /? for usage.",
        "service": "The task scheduler service is not running.",
        "sure": 'WARNING: Are you sure you want to remove the task "{name}" (Y/N)? ',
        "head": "TaskName,Next Run Time,Status",
        "running": "Running",
        "ready": "Ready",
        "disabled": "Disabled",
    },
    "ja": {
        "ok": "成功: ",
        "error": "エラー: ",
        "created": 'スケジュール タスク "{name}" は正しく作成されました。',
        "run": 'スケジュール タスク "{name}" の実行が試行されました。',
        "ended": 'スケジュール タスク "{name}" は正しく中断されました。',
        "deleted": 'スケジュール タスク "{name}" は正しく削除されました。',
        "changed": 'スケジュール タスク "{name}" のパラメーターは変更されました。',
        "not_found": "指定されたファイルが見つかりません。",
        "denied": "アクセスが拒否されました。",
        "usage": "構文が正しくありません。",
        "service": "タスク スケジューラ サービスが実行されていません。",
        "sure": '警告: タスク "{name}" を削除しますか (Y/N)? ',
        "head": "タスク名,次回の実行時刻,状態",
        "running": "実行中",
        "ready": "準備完了",
        "disabled": "無効",
    },
    "de": {
        "ok": "ERFOLGREICH: ",
        "error": "FEHLER: ",
        "created": 'Die geplante Aufgabe "{name}" wurde erfolgreich erstellt.',
        "run": 'Es wurde versucht, die geplante Aufgabe "{name}" auszuführen.',
        "ended": 'Die geplante Aufgabe "{name}" wurde erfolgreich beendet.',
        "deleted": 'Die geplante Aufgabe "{name}" wurde erfolgreich gelöscht.',
        "changed": 'Die Parameter der geplanten Aufgabe "{name}" wurden geändert.',
        "not_found": "Das System kann die angegebene Datei nicht finden.",
        "denied": "Zugriff verweigert",
        "usage": "Ungültige Syntax.",
        "service": "Der Aufgabenplanungsdienst wird nicht ausgeführt.",
        "sure": 'WARNUNG: Möchten Sie die Aufgabe "{name}" entfernen (J/N)? ',
        "head": "Aufgabenname,Nächste Laufzeit,Status",
        "running": "Wird ausgeführt",
        "ready": "Bereit",
        "disabled": "Deaktiviert",
    },
}
_SWITCHES = {"f", "nh", "v", "enable", "disable", "it", "z"}
_WITH_VALUE = {"tn", "xml", "fo", "sc", "tr", "ru", "rp", "s", "u", "p", "i"}


class Console:
    """Writes text as the console's code page has it."""

    def __init__(self, call: Any) -> None:
        state = call.store.state()
        self._call = call
        self._oem = state.get("oem", "cp437")
        self._texts = TEXTS.get(state.get("language", "en"), TEXTS["en"])

    def say(self, key: str, name: str = "") -> None:
        self._write(self._call.stdout, self._texts["ok"] + self._texts[key].format(name=name))

    def refuse(self, key: str, detail: str = "") -> None:
        text = self._texts.get(key, key)
        self._write(self._call.stderr, self._texts["error"] + text + detail)

    def ask(self, name: str) -> None:
        self._write(self._call.stdout, self._texts["sure"].format(name=name))

    def plain(self, text: str) -> None:
        self._write(self._call.stdout, text)

    def word(self, key: str) -> str:
        return self._texts[key]

    def _write(self, stream: Any, text: str) -> None:
        stream.write(
            (text + "\r\n").replace("\n", "\r\n").replace("\r\r", "\r").encode(self._oem, "replace")
        )
        stream.flush()


def main(call: Any) -> int:
    """0 or 1."""
    console = Console(call)
    verb, options = parse(call.argv)
    tasks = Tasks(call.store)
    if "schtasks_hangs" in call.store.state().get("flags", []):
        import time

        time.sleep(3600)
    handler = _VERBS.get(verb)
    if handler is None:
        console.refuse("usage")
        return 1
    try:
        tasks.service()
        return handler(tasks, options, console, call)
    except Refused as error:
        console.refuse(error.key, error.detail)
        return 1


def parse(argv: list[str]) -> tuple[str, dict[str, str]]:
    """Verb and options; ``-`` counts as ``/``, letters in either case."""
    verb, options, rest = _switch(argv[0]) if argv else "", {}, argv[1:]
    while rest:
        name = _switch(rest.pop(0))
        if name not in _SWITCHES | _WITH_VALUE:
            return "", {}
        takes = name in _WITH_VALUE and rest
        # A path of Linux begins like a switch.
        options[name] = rest.pop(0) if takes and _switch(rest[0]) not in _SWITCHES else ""
    return verb, options


def _switch(word: str) -> str:
    return word[1:].lower() if word[:1] in ("/", "-") else ""


def _create(tasks: Tasks, options: dict[str, str], console: Console, call: Any) -> int:
    if "sc" in options or "tr" in options or not options.get("xml") or not options.get("tn"):
        raise Refused("usage")
    name = scheduler.full_name(options["tn"])
    if tasks.exists(name) and "f" not in options:
        raise Refused("denied", f" ({name})")
    try:
        with open(options["xml"], "rb") as file:  # noqa: PTH123
            data = file.read()
    except OSError as error:
        raise Refused("not_found") from error
    tasks.register(name, data)
    console.say("created", options["tn"])
    return 0


def _run(tasks: Tasks, options: dict[str, str], console: Console, call: Any) -> int:
    name = tasks.need(options.get("tn", ""))
    tasks.run(name)
    console.say("run", options["tn"])
    return 0


def _end(tasks: Tasks, options: dict[str, str], console: Console, call: Any) -> int:
    name = tasks.need(options.get("tn", ""))
    tasks.end(name)
    console.say("ended", options["tn"])
    return 0


def _delete(tasks: Tasks, options: dict[str, str], console: Console, call: Any) -> int:
    name = tasks.need(options.get("tn", ""))
    if "f" not in options:
        console.ask(name)
        if call.stdin.readline().strip().lower() not in (b"y", b"j"):
            return 1
    tasks.delete(name)
    console.say("deleted", options["tn"])
    return 0


def _change(tasks: Tasks, options: dict[str, str], console: Console, call: Any) -> int:
    name = tasks.need(options.get("tn", ""))
    if "enable" not in options and "disable" not in options:
        raise Refused("usage")
    tasks.enable(name, "enable" in options)
    console.say("changed", options["tn"])
    return 0


def _query(tasks: Tasks, options: dict[str, str], console: Console, call: Any) -> int:
    names = [tasks.need(options["tn"])] if options.get("tn") else tasks.names()
    if "xml" in options:
        one = options["xml"].upper() == "ONE"
        text = "\n".join(tasks.text(name, readable=bool(options.get("tn"))) for name in names)
        if one and not options.get("tn"):
            text = (
                "<Tasks>\n" + "\n".join(map(scheduler.undeclared, text.splitlines())) + "</Tasks>"
            )
        console.plain(text)
        return 0
    if "nh" not in options:
        console.plain(console.word("head"))
    for name in names:
        state = tasks.state(name)
        console.plain(f'"{name}","N/A","{console.word(state)}"')
    return 0


_VERBS = {
    "create": _create,
    "run": _run,
    "end": _end,
    "delete": _delete,
    "change": _change,
    "query": _query,
}

if __name__ == "__main__":
    sys.exit("call entry.py")
