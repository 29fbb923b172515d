"""The command line: verbs, options, help; nothing heavy is imported here."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from twinrig import __version__
from twinrig.cli.bench_arguments import add_bench, add_chat
from twinrig.cli.command_parser import CommandParser, own_words
from twinrig.cli.estimate_arguments import add_estimate
from twinrig.cli.profile_arguments import add_profiles, draft_options
from twinrig.cli.setup_arguments import add_models, add_setup
from twinrig.messages import LANGUAGES, N_, Translator

TARGETS = ("auto", "local", "wsl", "demo")
Adder = Callable[[argparse.ArgumentParser, Translator], None]


def build_parser(translator: Translator) -> argparse.ArgumentParser:
    """The whole parser, its help in the translator's language."""
    text = translator.text
    parser = CommandParser(
        prog="twinrig",
        description=text(
            N_("Serve one large language model on two GPUs: check, fix, start, watch.")
        ),
        epilog=text(
            N_("Exit codes: 0 fine, 1 findings or failed, 2 wrong usage, 3 could not tell.")
        ),
    )
    _add_common(parser, text, top=True)
    parser.add_argument("--version", action="version", version=f"twinrig {__version__}")
    parser.add_argument(
        "--replay",
        dest="recording",
        metavar="FILE",
        help=text(N_("without a verb: show what watch --record wrote, in place of this machine")),
    )
    parser.add_argument(
        "--smoke",
        metavar="FILE",
        help=text(N_("without a verb: try every part of the panel, write what was found, end")),
    )
    common = CommandParser(add_help=False)
    _add_common(common, text, top=False)
    verbs = parser.add_subparsers(dest="verb", metavar=text(N_("VERB")))
    for name, help_text, add in _VERBS:
        child = verbs.add_parser(
            name, help=text(help_text), description=text(help_text), parents=[common]
        )
        add(child, translator)
    own_words(parser, text)
    return parser


def _add_common(parser: argparse.ArgumentParser, text: Callable[[str], str], *, top: bool) -> None:
    """Before or after the verb; only the top one has defaults, so that it is not overwritten."""
    parser.add_argument(
        "--target",
        choices=TARGETS,
        default="auto" if top else argparse.SUPPRESS,
        help=text(N_("machine to work with; auto is the right one for this computer")),
    )
    parser.add_argument(
        "--distro",
        metavar="NAME",
        default="" if top else argparse.SUPPRESS,
        help=text(N_("distribution of WSL; otherwise its default one")),
    )
    parser.add_argument(
        "--json",
        action="store_true",
        default=False if top else argparse.SUPPRESS,
        help=text(N_("print one JSON document instead of text; watch prints one in each line")),
    )
    parser.add_argument(
        "--language",
        choices=tuple(LANGUAGES),
        default=None if top else argparse.SUPPRESS,
        help=text(N_("language of all text")),
    )


def _doctor(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument("--profile", metavar="ID", help=tr.text(N_("judge for this profile")))
    parser.add_argument(
        "--check",
        metavar="ID",
        action="append",
        help=tr.text(N_("run only this check; may be repeated")),
    )
    parser.add_argument(
        "--verbose", "-v", action="store_true", help=tr.text(N_("show the evidence of every check"))
    )
    parser.add_argument(
        "--collective",
        action="store_true",
        help=tr.text(N_("let the cards exchange real data too; takes a minute")),
    )
    _rank_options(parser, tr)


def _fix(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument(
        "id",
        nargs="?",
        metavar="ID",
        help=tr.text(
            N_(
                "fix or finding; without it, what could be done is listed. nccl: find by "
                "experiment the settings with which the cards talk"
            )
        ),
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help=tr.text(N_("the best fix of every finding; with nccl: measure all candidates")),
    )
    parser.add_argument(
        "--safe",
        action="store_true",
        help=tr.text(
            N_(
                "every fix that only changes a profile and can be undone; one that does not "
                "help is taken back"
            )
        ),
    )
    parser.add_argument(
        "--finish",
        nargs="?",
        const="",
        metavar="ENTRY",
        help=tr.text(N_("do what is left of a fix that was cut off by a crash")),
    )
    parser.add_argument("--profile", metavar="ID", help=tr.text(N_("judge for this profile")))
    parser.add_argument(
        "--engine", metavar="ID", help=tr.text(N_("with nccl and no profile: whose candidates"))
    )
    parser.add_argument(
        "--backend",
        choices=("nccl", "gloo"),
        default="nccl",
        help=tr.text(N_("with nccl: gloo tries the processes alone, without cards")),
    )
    parser.add_argument(
        "--server",
        action="store_true",
        help=tr.text(N_("with nccl: as the last proof start the server, ask it once, stop it")),
    )
    _rank_options(parser, tr)
    _yes(parser, tr)


def _rank_options(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument(
        "--python",
        metavar="FILE",
        default="",
        help=tr.text(N_("Python with torch for the ranks; otherwise that of the engine")),
    )
    parser.add_argument(
        "--env",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help=tr.text(N_("variable for the ranks beside those of the profile; may be repeated")),
    )
    parser.add_argument(
        "--devices",
        metavar="N,N",
        default="",
        help=tr.text(N_("CUDA devices of the ranks, one rank each; otherwise 0,1")),
    )


def _undo(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument(
        "entry",
        nargs="?",
        metavar="ENTRY",
        help=tr.text(N_("change to take back; without it, changes are listed")),
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help=tr.text(N_("take back every change that fixes made, newest first")),
    )
    _yes(parser, tr)


def _start(parser: argparse.ArgumentParser, tr: Translator) -> None:
    _profile(parser, tr)
    _no_wait(parser, tr)
    _ready_timeout(parser, tr)
    parser.add_argument(
        "--prove",
        nargs="?",
        type=_seconds,
        const=120.0,  # services.persistence.PROOF_S, too heavy to be imported for the help
        metavar="SECONDS",
        help=tr.text(N_("leave it alone for two minutes, then say whether it stays")),
    )


def _switch(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument("profile", metavar="ID", help=tr.text(N_("profile to start")))
    _ready_timeout(parser, tr)
    _yes(parser, tr)


def _restart(parser: argparse.ArgumentParser, tr: Translator) -> None:
    _profile(parser, tr)
    _ready_timeout(parser, tr)


def _stop(parser: argparse.ArgumentParser, tr: Translator) -> None:
    _profile(parser, tr)
    _no_wait(parser, tr)


def _status(parser: argparse.ArgumentParser, tr: Translator) -> None:
    _profile(parser, tr)


def _free(parser: argparse.ArgumentParser, tr: Translator) -> None:
    _profile(parser, tr)


def _load(parser: argparse.ArgumentParser, tr: Translator) -> None:
    _profile(parser, tr)
    _ready_timeout(parser, tr)


def _ready_timeout(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=3600.0,
        metavar="SECONDS",
        help=tr.text(N_("how long to wait for the server to be ready")),
    )


def _watch(parser: argparse.ArgumentParser, tr: Translator) -> None:
    _view_seconds(parser, tr)
    parser.add_argument(
        "--once", action="store_true", help=tr.text(N_("show one reading, then end"))
    )
    parser.add_argument(
        "--details",
        action="store_true",
        help=tr.text(
            N_("also read PCIe traffic and energy; costs the driver up to 0.1 s each time")
        ),
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--record",
        metavar="FILE",
        help=tr.text(N_("append every reading to this file, one JSON object a line")),
    )
    either.add_argument(
        "--replay",
        metavar="FILE",
        help=tr.text(N_("show what --record wrote, in place of this machine")),
    )


def _up(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument("--profile", metavar="ID", help=tr.text(N_("profile to start")))
    draft_options(parser, tr)
    _view_seconds(parser, tr)
    parser.add_argument(
        "--keep", action="store_true", help=tr.text(N_("leave the server running at the end"))
    )
    _yes(parser, tr)


def _supervise(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument(
        "profile", metavar="PROFILE", help=tr.text(N_("profile whose server to own"))
    )
    parser.add_argument(
        "--home", metavar="FOLDER", help=tr.text(N_("folder of Twinrig's files, as TWINRIG_HOME"))
    )


def _diagnose(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help=tr.text(N_("log to read, - is the input; without it, the log of the server")),
    )
    parser.add_argument("--profile", metavar="ID", help=tr.text(N_("profile whose log to read")))
    parser.add_argument(
        "--report",
        nargs="?",
        const="-",
        metavar="OUT",
        help=tr.text(N_("write a report without keys and names, to show it to others")),
    )
    parser.add_argument(
        "--context",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help=tr.text(N_("a fact that the log does not tell; may be repeated")),
    )


def _demo_server(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        help=tr.text(N_("JSON file with the settings of the demo server")),
    )


def _withdraw(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument(
        "--undo-changes",
        action="store_true",
        help=tr.text(N_("take back every change that fixes made, newest first")),
    )
    parser.add_argument(
        "--keep-tasks",
        action="store_true",
        help=tr.text(N_("leave what starts servers at logon; a newer version follows")),
    )
    parser.add_argument(
        "--forget-keys", action="store_true", help=tr.text(N_("delete the keys of all profiles"))
    )


def _profiles(parser: argparse.ArgumentParser, tr: Translator) -> None:
    add_profiles(parser, tr, _add_common)


def _profile(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument(
        "profile",
        nargs="?",
        metavar="ID",
        help=tr.text(N_("profile; not needed when there is only one")),
    )


def _no_wait(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument(
        "--no-wait", action="store_true", help=tr.text(N_("return as soon as the request is taken"))
    )


def _view_seconds(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument(
        "--seconds",
        type=_seconds,
        metavar="N",
        help=tr.text(N_("end the live view after so many seconds")),
    )


def _yes(parser: argparse.ArgumentParser, tr: Translator) -> None:
    parser.add_argument("--yes", "-y", action="store_true", help=tr.text(N_("do not ask")))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text}: 0 ... 1e9")
    return value


def _models(parser: argparse.ArgumentParser, tr: Translator) -> None:
    add_models(parser, tr, _add_common)


_VERBS: tuple[tuple[str, str, Adder], ...] = (
    ("up", N_("do everything: check, plan, start, watch"), _up),
    ("doctor", N_("check this machine; nothing is changed"), _doctor),
    ("estimate", N_("compute what fits on the cards, before a download"), add_estimate),
    ("fix", N_("show a fix, ask, apply it, prove it"), _fix),
    ("undo", N_("list the changes made by fixes, or take one back"), _undo),
    ("setup", N_("set up or update an engine in an environment of its own"), add_setup),
    ("models", N_("list models, look for more, download them"), _models),
    ("profiles", N_("list, show, make and change profiles"), _profiles),
    ("start", N_("start a server and follow it until it is ready"), _start),
    ("switch", N_("stop the server that runs and start another profile's"), _switch),
    ("restart", N_("restart the server; changed settings that fail give way"), _restart),
    ("stop", N_("stop the server and wait until nothing is left"), _stop),
    ("free", N_("give the memory of the cards back: sleep where the server can, else stop"), _free),
    ("load", N_("load the model again after free"), _load),
    ("status", N_("one look at the server"), _status),
    ("watch", N_("live view of both cards and the server"), _watch),
    ("bench", N_("measure the speed, or compare profiles"), add_bench),
    ("chat", N_("ask the running server one question"), add_chat),
    ("diagnose", N_("tell from a log why a server ended"), _diagnose),
    ("supervise", N_("own a server in the foreground; services call this"), _supervise),
    ("demo-server", N_("run the demo rig's server in the foreground"), _demo_server),
    (
        "withdraw",
        N_("end all of Twinrig before it is removed; the uninstaller calls this"),
        _withdraw,
    ),
)
