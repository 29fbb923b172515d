"""Runs one verb: language, errors, Ctrl+C and broken pipes are dealt with here, once."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

from twinrig.cli.arguments import build_parser
from twinrig.cli.command_parser import CommandLineError
from twinrig.cli.session import FINE, UNKNOWN, USAGE, Session
from twinrig.cli.terminal import OutputLostError, Terminal
from twinrig.domain.errors import HostError, TwinrigError, UsageError
from twinrig.domain.supervision import ServerRecord
from twinrig.domain.wsl import TARGET, target_with
from twinrig.messages import Message, Translator, message
from twinrig.services.workbench import Workbench

INTERRUPTED = 130
FAILED = 1

Verb = Callable[[Session], Awaitable[int]]
SupervisorEnd = tuple[int, ServerRecord | None]
"""Exit code and the last record; None: there was nothing it could own."""


def main(
    argv: Sequence[str],
    open_workbench: Callable[[str], Workbench],
    *,
    language: str = "en",
    environ: Mapping[str, str] = os.environ,
    supervise: Callable[[str, str], SupervisorEnd] | None = None,
    demo_server: Callable[[str | None], int] | None = None,
    keep_fault: Callable[[BaseException], str] | None = None,
    end_other_processes: Callable[[], tuple[Message, ...]] = tuple,
) -> int:
    """Exit code of the command. ``language`` is used unless ``argv`` names one.

    ``supervise(target, profile_id)`` and ``demo_server(config_path)`` own the process.
    ``keep_fault`` keeps a fault of Twinrig itself and returns the file's name; without it such
    a fault is raised.
    """
    translator = Translator(_asked_language(argv) or language)
    try:
        args = build_parser(translator).parse_args(list(argv))
    except CommandLineError as wrong:
        return _wrong_words(wrong, Terminal(translator, environ, json_mode="--json" in argv))
    except SystemExit as end:  # argparse has printed help or version
        return end.code if isinstance(end.code, int) else USAGE
    if args.verb is None:  # only options such as --json: the whole main job
        args = build_parser(translator).parse_args([*argv, *_main_job(args)])
    terminal = Terminal(translator, environ, json_mode=args.json)
    if args.distro and args.target not in ("auto", TARGET):
        return _told(terminal, _no_distro_here())
    args.target = target_with(args.distro) if args.distro else args.target
    if args.verb == "demo-server" and demo_server is not None:
        return demo_server(args.config)
    session = Session(terminal, args, args.target, open_workbench, end_other_processes)
    try:
        if args.verb == "supervise" and supervise is not None:
            return _supervised(terminal, supervise, args)
        return _guarded(session)
    except OutputLostError as error:
        _close_output()
        _complain(terminal, message("The output cannot be written: {reason}.", reason=str(error)))
        return UNKNOWN
    except Exception as error:  # a sentence for people; the rest goes into a file
        if keep_fault is None:
            raise
        return _told(terminal, _own_fault(error, keep_fault(error)))


def _own_fault(error: Exception, path: str) -> HostError:
    return HostError(
        message("Twinrig itself failed: {reason}.", reason=repr(error)),
        message("Please report it with the file {path}.", path=path),
    )


def _main_job(args: argparse.Namespace) -> list[str]:
    if args.recording is not None:
        return ["watch", "--replay", args.recording]
    return ["up"]


def _supervised(
    terminal: Terminal, supervise: Callable[[str, str], SupervisorEnd], args: argparse.Namespace
) -> int:
    try:
        code, record = supervise(args.target, args.profile)
    except TwinrigError as error:
        return _told(terminal, error)
    if record is None:
        return _told(
            terminal,
            HostError(
                message("Another supervisor is at work here, or its folder cannot be written."),
                message('See "twinrig status" and the permissions of the folder.'),
            ),
        )
    terminal.data(record)
    if record.failure is not None:
        terminal.paragraph(record.failure.text, style="bad")
        terminal.next_step(record.failure.next_step)
    return code


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
        if args.verb in ("start", "load"):
            terminal.say(message('The server is not stopped by this; see "twinrig status".'))
        elif args.verb in ("stop", "free", "restart", "switch"):
            terminal.say(message('This may be half done; "twinrig status" tells what runs.'))
        return INTERRUPTED
    except BrokenPipeError:
        _close_output()
        return FINE


def _wrong_words(wrong: CommandLineError, terminal: Terminal) -> int:
    """In the way of the format asked for: one JSON document, or usage and reason on stderr."""
    if not terminal.json_mode:
        step = message("See {command} --help.", command=wrong.parser.prog)
        next_step = terminal.text(message("Next: {step}", step=step))
        program = wrong.parser.prog
        told = message("{program}: error: {reason}", program=program, reason=wrong.reason)
        with contextlib.suppress(OSError):
            sys.stderr.write(wrong.parser.format_usage())
            sys.stderr.write(f"{terminal.text(told)}\n{next_step}\n")
            sys.stderr.flush()
        return USAGE
    return _told(
        terminal,
        UsageError(
            message("The command line cannot be used: {reason}.", reason=wrong.reason),
            message("See {command} --help.", command=wrong.parser.prog),
        ),
    )


def _no_distro_here() -> UsageError:
    return UsageError(
        message("The option --distro goes with --target wsl only."),
        message("Leave it out, or use --target wsl."),
    )


def _complain(terminal: Terminal, text: Message) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"twinrig: {terminal.text(text)}\n")


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
    from twinrig.cli import (
        bench,
        chat,
        diagnose,
        doctor,
        estimate,
        fix,
        free,
        models,
        profiles,
        server,
        setup,
        switch,
        undo,
        up,
        watch,
        withdraw,
    )

    verbs: Mapping[str, Verb] = {
        "up": up.run,
        "bench": bench.run,
        "chat": chat.run,
        "diagnose": diagnose.run,
        "doctor": doctor.run,
        "estimate": estimate.run,
        "fix": fix.run,
        "undo": undo.run,
        "models": models.run,
        "profiles": profiles.run,
        "setup": setup.run,
        "switch": switch.switch,
        "restart": switch.restart,
        "start": server.start,
        "stop": server.stop,
        "status": server.status,
        "free": free.free,
        "load": free.load,
        "watch": watch.run,
        "withdraw": withdraw.run,
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
