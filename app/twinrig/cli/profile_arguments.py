"""Options of ``profiles`` and of a new profile."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from twinrig.messages import N_, Translator
from twinrig.services.recipes import NAMES as RECIPES

AddCommon = Callable[..., None]


def add_profiles(parser: argparse.ArgumentParser, tr: Translator, add_common: AddCommon) -> None:
    """``profiles ACTION``."""
    text = tr.text
    actions = parser.add_subparsers(dest="action", metavar=text(N_("ACTION")))

    def action(name: str, help_text: str) -> argparse.ArgumentParser:
        child = actions.add_parser(name, help=text(help_text), description=text(help_text))
        add_common(child, text, top=False)
        return child

    action("list", N_("list profiles, and files that cannot be used"))
    action("show", N_("print one profile")).add_argument("profile", metavar="ID")
    restore = action("restore", N_("swap a profile with its previous version"))
    restore.add_argument("profile", metavar="ID")
    restore.add_argument(
        "--worked", action="store_true", help=text(N_("the settings of the last successful start"))
    )
    _new_profile(action("new", N_("make a profile from what this machine has")), tr)
    adopt = action("adopt", N_("take over a server that a systemd user unit or you start"))
    adopt.add_argument("--pid", type=int, help=text(N_("look at this process instead of units")))
    adopt.add_argument("--save", action="store_true", help=text(N_("keep what was found")))
    edit = action("edit", N_("change settings: edit ID set KEY=VALUE ..."))
    edit.add_argument("profile", metavar="ID")
    edit.add_argument("set", choices=("set",))
    edit.add_argument("assignments", metavar="KEY=VALUE", nargs="+")
    copy = action("copy", N_("make another profile with the same settings"))
    copy.add_argument("profile", metavar="ID")
    copy.add_argument("name", metavar="NAME")
    load = action("import", N_("add the profile of a file"))
    load.add_argument("file", metavar="FILE")
    load.add_argument("--as", dest="new_id", metavar="ID", help=text(N_("save it under this id")))
    store = action("export", N_("write a profile to a file"))
    store.add_argument("profile", metavar="ID")
    store.add_argument("file", metavar="FILE")
    store.add_argument(
        "--overwrite", action="store_true", help=text(N_("replace an existing file"))
    )
    store.add_argument(
        "--recipe",
        action="store_true",
        help=text(N_("only settings, without paths, keys and names, to share them")),
    )
    delete = action("delete", N_("delete a profile; restore brings it back"))
    delete.add_argument("profile", metavar="ID")
    delete.add_argument("--yes", "-y", action="store_true", help=text(N_("do not ask")))
    key = action("key", N_("store the key that clients need; it is kept outside the profile"))
    _profile_key(key, tr)


def _new_profile(new: argparse.ArgumentParser, tr: Translator) -> None:
    text = tr.text
    new.add_argument("name", metavar="NAME")
    new.add_argument(
        "--recipe",
        metavar="NAME",
        help=text(N_("settings that others found good: a file, or one of: ")) + ", ".join(RECIPES),
    )
    draft_options(new, tr)
    new.add_argument(
        "--set",
        dest="assignments",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help=text(N_("change a setting of the new profile; may be repeated")),
    )


def _profile_key(key: argparse.ArgumentParser, tr: Translator) -> None:
    text = tr.text
    key.add_argument("profile", metavar="ID")
    either = key.add_mutually_exclusive_group()
    either.add_argument(
        "--generate", action="store_true", help=text(N_("make a new key and show it once"))
    )
    either.add_argument("--clear", action="store_true", help=text(N_("need no key any more")))
    key.add_argument(
        "--in-file",
        action="store_true",
        help=text(N_("without a keyring, keep it in a file that only you can read")),
    )


def draft_options(parser: argparse.ArgumentParser, tr: Translator) -> None:
    """What a new profile is made of."""
    parser.add_argument("--engine", metavar="ID", help=tr.text(N_("server program, such as vllm")))
    parser.add_argument(
        "--environment", metavar="FOLDER", help=tr.text(N_("Python environment of the engine"))
    )
    parser.add_argument("--model", metavar="FOLDER", help=tr.text(N_("model folder")))
