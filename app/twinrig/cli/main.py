"""Runs one verb: language, errors, Ctrl+C and broken pipes are dealt with here, once."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

from twinrig.cli.arguments import build_parser
from twinrig.cli.session import FINE, UNKNOWN, USAGE, Session
from twinrig.cli.terminal import Terminal
from twinrig.domain.errors import HostError, TwinrigError, UsageError
from twinrig.messages import Translator, message
from twinrig.services.workbench import Workbench

INTERRUPTED = 130
FAILED = 1

Verb = Callable[[Session], Awaitable[int]]


def main(
    argv: Sequence[str],
    open_workbench: Callable[[str], Workbench],
    *,
    language: str = "en",
    environ: Mapping[str, str] = os.environ,
    supervise: Callable[[str, str], int] | None = None,
    demo_server: Callable[[str | None], int] | None = None,
) -> int:
    """Exit code of the command. ``language`` is used unless ``argv`` names one.

    ``supervise(target, profile_id)`` and ``demo_server(config_path)`` own the process.
    """
    translator = Translator(_asked_language(argv) or language)
    try:
        args = build_parser(translator).parse_args(list(argv))
    except SystemExit as end:  # argparse has printed help, version or what is wrong
        return end.code if isinstance(end.code, int) else USAGE
    if args.verb is None:  # only options such as --json: the whole main job
        args = build_parser(translator).parse_args([*argv, "up"])
    terminal = Terminal(translator, environ, json_mode=args.json)
    if args.verb == "demo-server" and demo_server is not None:
        return demo_server(args.config)
    if args.verb == "supervise" and supervise is not None:
        try:
            return supervise(args.target, args.profile)
        except TwinrigError as error:
            return _told(terminal, error)
    session = Session(terminal, args, args.target, open_workbench)
    return _guarded(session)


def _guarded(session: Session) -> int:
    terminal, args = session.terminal, session.args
    try:
        return asyncio.run(_run(_verb(args), session))
    except TwinrigError as error:
        return _told(terminal, error)
    except KeyboardInterrupt:
        terminal.line()
        if args.verb == "watch":
            return FINE
        if args.verb == "start":
            terminal.say(message('The server is not stopped by this; see "twinrig status".'))
        return INTERRUPTED
    except BrokenPipeError:
        _close_output()
        return FINE


async def _run(verb: Verb, session: Session) -> int:
    return await verb(session)


def _told(terminal: Terminal, error: TwinrigError) -> int:
    try:
        terminal.error(error)
    except BrokenPipeError:
        _close_output()
    if isinstance(error, UsageError):
        return USAGE
    return UNKNOWN if isinstance(error, HostError) else FAILED


def _close_output() -> None:
    """The reader is gone; Python must not complain when it flushes at the end."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _verb(args: argparse.Namespace) -> Verb:
    from twinrig.cli import diagnose, doctor, estimate, fix, profiles, server, undo, up, watch

    verbs: Mapping[str, Verb] = {
        "up": up.run,
        "diagnose": diagnose.run,
        "doctor": doctor.run,
        "estimate": estimate.run,
        "fix": fix.run,
        "undo": undo.run,
        "profiles": profiles.run,
        "start": server.start,
        "stop": server.stop,
        "status": server.status,
        "watch": watch.run,
    }
    return verbs[args.verb]


def _asked_language(argv: Sequence[str]) -> str | None:
    """Needed before parsing, because help and faults are printed while parsing."""
    for index, word in enumerate(argv):
        if word == "--language" and index + 1 < len(argv):
            return argv[index + 1]
        if word.startswith("--language="):
            return word.partition("=")[2]
    return None
