"""Options of ``twinrig bench`` and ``twinrig chat``."""

from __future__ import annotations

import argparse

from twinrig.messages import N_, Translator


def add_bench(parser: argparse.ArgumentParser, tr: Translator) -> None:
    """What to measure, whom to ask, where to write."""
    parser.add_argument(
        "profile",
        nargs="?",
        metavar="PROFILE",
        help=tr.text(N_("profile to measure; without it, that of the running server")),
    )
    parser.add_argument(
        "--compare",
        nargs="+",
        metavar="PROFILE",
        help=tr.text(N_("measure several profiles in turns; the server is restarted each time")),
    )
    parser.add_argument(
        "--users",
        type=int,
        default=8,
        metavar="N",
        help=tr.text(N_("most requests at once that are tried; 8 without it")),
    )
    parser.add_argument(
        "--rounds", type=_rounds, metavar="N", help=tr.text(N_("rounds of each load at each visit"))
    )
    parser.add_argument(
        "--thorough",
        action="store_true",
        help=tr.text(N_("every number of requests with both prompts and both ways to sample")),
    )
    parser.add_argument(
        "--apply",
        choices=("alone", "several"),
        help=tr.text(
            N_("give the first profile the settings that are best for this use; can be undone")
        ),
    )
    parser.add_argument(
        "--csv", metavar="FILE", help=tr.text(N_("write the figures to this file, too"))
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help=tr.text(N_("show the results kept so far; measure nothing")),
    )
    parser.add_argument("--yes", "-y", action="store_true", help=tr.text(N_("do not ask")))


def add_chat(parser: argparse.ArgumentParser, tr: Translator) -> None:
    """One question to the running server."""
    parser.add_argument(
        "text",
        nargs="?",
        metavar="TEXT",
        default="-",
        help=tr.text(N_("question to ask; - is the input")),
    )
    parser.add_argument(
        "--system",
        metavar="TEXT",
        default="",
        help=tr.text(N_("what the model is told beforehand")),
    )
    parser.add_argument(
        "--max-tokens",
        type=_rounds,
        metavar="N",
        help=tr.text(N_("longest reply in tokens; otherwise the server decides")),
    )


def _rounds(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text}: 1 ... 1000000")
    return value
