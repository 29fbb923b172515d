"""Options of the verbs that bring something onto the machine: ``setup`` and ``models``."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from twinrig.messages import N_, Translator

AddCommon = Callable[..., None]


def add_setup(parser: argparse.ArgumentParser, tr: Translator) -> None:
    """``setup ENGINE``."""
    text = tr.text
    parser.add_argument("engine", metavar="ENGINE", help=text(N_("server program, such as vllm")))
    parser.add_argument(
        "--version", metavar="V", help=text(N_("another version than the one that was tried"))
    )
    parser.add_argument(
        "--cuda",
        type=int,
        choices=(12, 13),
        help=text(N_("wheels for this CUDA; otherwise those that fit the driver")),
    )
    parser.add_argument(
        "--profile",
        metavar="ID",
        help=text(N_("profile that shall use it, and prove it by a first reply")),
    )
    parser.add_argument(
        "--unproven",
        action="store_true",
        help=text(N_("put it into use without a first reply, such as while the cards are taken")),
    )
    parser.add_argument(
        "--discard", action="store_true", help=text(N_("drop what a cut set-up has left"))
    )
    parser.add_argument("--yes", "-y", action="store_true", help=text(N_("do not ask")))


def add_models(parser: argparse.ArgumentParser, tr: Translator, add_common: AddCommon) -> None:
    """``models ACTION``."""
    text = tr.text
    actions = parser.add_subparsers(dest="action", metavar=text(N_("ACTION")))

    def action(name: str, help_text: str) -> argparse.ArgumentParser:
        child = actions.add_parser(name, help=text(help_text), description=text(help_text))
        add_common(child, text, top=False)
        return child

    action("list", N_("list model folders, with what is wrong and whether they fit"))
    search = action("search", N_("look for models on the hub, most used first"))
    search.add_argument("text", nargs="?", metavar="TEXT", help=text(N_("words of the name")))
    search.add_argument("--engine", metavar="ID", help=text(N_("only what this engine can load")))
    search.add_argument("--fits", action="store_true", help=text(N_("only what fits the cards")))
    search.add_argument("--limit", type=int, default=12, metavar="N", help=text(N_("so many")))
    load = action("download", N_("download a model, go on with a download that was cut off"))
    load.add_argument("name", metavar="NAME", help=text(N_("OWNER/NAME, or OWNER/NAME@BRANCH")))
    load.add_argument("--folder", metavar="FOLDER", help=text(N_("folder of models")))
    load.add_argument("--yes", "-y", action="store_true", help=text(N_("do not ask")))
    token = action("token", N_("store the token for models whose terms you have accepted"))
    token.add_argument("--clear", action="store_true", help=text(N_("forget it")))
    token.add_argument(
        "--in-file",
        action="store_true",
        help=text(N_("without a keyring, keep it in a file that only you can read")),
    )
