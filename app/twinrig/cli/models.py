"""``twinrig models``: list what is there, search a hub, download, store the hub's token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from twinrig.cli.format import gib
from twinrig.cli.session import FINDINGS, FINE, Session
from twinrig.cli.terminal import Terminal
from twinrig.domain.errors import HostError, TwinrigError, UsageError
from twinrig.domain.memory import Verdict
from twinrig.domain.wording import VERDICT_WORDS
from twinrig.messages import Message, message
from twinrig.services.fitting import Fit, Fitting, fitting_of
from twinrig.services.hub import DownloadProgress, HubLook, HubModel, parse_name
from twinrig.services.hub_words import TOKEN_NAME
from twinrig.services.models import ModelFolder
from twinrig.services.workbench import Workbench

Action = Callable[[Session, Workbench], Awaitable[int]]
_STYLES = {
    Verdict.FITS: "good",
    Verdict.TIGHT: "warn",
    Verdict.DOES_NOT_FIT: "bad",
    Verdict.UNKNOWN: "",
}


async def run(session: Session) -> int:
    """Dispatch to the action; the list without one."""
    async with session.bench() as bench:
        return await ACTIONS[session.args.action or "list"](session, bench)


async def _list(session: Session, bench: Workbench) -> int:
    """Exit code 1 when none is complete."""
    terminal = session.terminal
    models = await bench.models.scan()
    fitting = await fitting_of(bench)
    fits = [await fit_of_folder(bench, fitting, model) for model in models]
    terminal.data(
        {
            "models": [
                {**asdict(m), "problem": m.problem, "fit": f}
                for m, f in zip(models, fits, strict=True)
            ],
            "folders": bench.models.folders,
        }
    )
    terminal.table([_row(terminal, model, fit) for model, fit in zip(models, fits, strict=True)])
    for model in models:
        if model.problem is not None:
            terminal.say(
                message("{name}: {problem}", name=model.name, problem=model.problem), "warn"
            )
        if model.on_windows:
            text = message("It lies on a Windows drive, from which it loads many times slower.")
            terminal.say(message("{name}: {problem}", name=model.name, problem=text), "warn")
    if not models:
        terminal.say(message("No model was found."))
        terminal.next_step(
            message('"twinrig models search" lists models that others use and that fit your cards.')
        )
    return FINE if any(m.complete for m in models) else FINDINGS


async def fit_of_folder(bench: Workbench, fitting: Fitting, model: ModelFolder) -> Fit:
    """Whether a model of the library fits; what is incomplete cannot be told."""
    if not model.complete:
        return Fit(None)
    try:
        return fitting.of_model(await bench.estimating().model(model.path), model.quantization)
    except TwinrigError as error:
        return Fit(None, text=error.text)


def _row(terminal: Terminal, model: ModelFolder, fit: Fit) -> tuple[str, ...]:
    return (
        model.name,
        gib(model.size_bytes),
        model.quantization or "-",
        _fit_word(terminal, fit),
        model.path,
    )


def _fit_word(terminal: Terminal, fit: Fit) -> str:
    if fit.verdict is None:
        return "-"
    word = terminal.text(VERDICT_WORDS[fit.verdict])
    return terminal.style(word, _STYLES.get(fit.verdict, ""))


async def _search(session: Session, bench: Workbench) -> int:
    """Hits by downloads, with size and whether they fit. Exit code 1 when there are none."""
    terminal, args = session.terminal, session.args
    engine = args.engine or ""
    hits = await bench.hub.search(args.text or "", engine or _default_engine(bench))
    fitting = await fitting_of(bench)
    rows: list[dict[str, Any]] = []
    async with aclosing(bench.hub.look([hit.name for hit in hits[: args.limit]])) as looks:
        async for look in looks:
            rows.append(_hit(look, hits, fitting))
            if not (args.fits and not _may_fit(rows[-1]["fit"])):
                _show_hit(terminal, rows[-1])
    if args.fits:
        rows = [row for row in rows if _may_fit(row["fit"])]
    terminal.data({"models": rows})
    if not rows:
        terminal.say(message("Nothing was found."))
        return FINDINGS
    terminal.next_step(message('"twinrig models download NAME" downloads one of them.'))
    return FINE


def _default_engine(bench: Workbench) -> str:
    return next((e.id for e in bench.engines.values() if e.simulated == bench.demo), "")


def _may_fit(fit: Fit) -> bool:
    return fit.verdict is not None and fit.verdict is not Verdict.DOES_NOT_FIT


def _hit(look: HubLook, hits: Sequence[HubModel], fitting: Fitting) -> dict[str, Any]:
    hit = next(h for h in hits if h.name.repo == look.name.repo)
    fit = fitting.of_config(look.config, look.weights_bytes) if look.config else Fit(None)
    problem = look.problem.text if look.problem is not None else None
    return {
        "name": str(look.name),
        "downloads": hit.downloads,
        "gated": hit.gated,
        "size_bytes": look.size_bytes or None,
        "branches": look.branches,
        "problem": problem,
        "fit": fit if look.weights_bytes else Fit(None),
    }


def _show_hit(terminal: Terminal, row: Mapping[str, Any]) -> None:
    notes = [terminal.text(message("terms to accept first"))] if row["gated"] else []
    if row["branches"]:
        notes.append(terminal.text(message("branches: {names}", names=", ".join(row["branches"]))))
    elif row["problem"] is not None and not row["gated"]:
        notes.append(terminal.text(row["problem"]))
    cells = (
        row["name"],
        gib(row["size_bytes"]),
        _fit_word(terminal, row["fit"]),
        terminal.text(message("downloads: {count}", count=f"{row['downloads']:,}")),
        *notes,
    )
    terminal.line("  ".join(cells))


async def _download(session: Session, bench: Workbench) -> int:
    """Exit code 1 when the user said no."""
    terminal, args = session.terminal, session.args
    name = parse_name(args.name)
    async with aclosing(bench.hub.look([name])) as looks:
        look = await anext(looks)
    if look.problem is not None:
        raise look.problem
    fitting = await fitting_of(bench)
    fit = fitting.of_config(look.config, look.weights_bytes) if look.config else Fit(None)
    target = await bench.hub.target(name, args.folder or "")
    terminal.say(
        message(
            "{name}: {size} into {path}", name=str(name), size=gib(look.size_bytes), path=target
        )
    )
    if fit.verdict is not None:
        terminal.say(Message(VERDICT_WORDS[fit.verdict]), _STYLES.get(fit.verdict, ""))
    question = message("Download it now?")
    if not args.yes and not terminal.ask(question, default=fit.verdict is not Verdict.DOES_NOT_FIT):
        terminal.data({"path": None})
        terminal.say(message("Nothing was downloaded. Add --yes to download without a question."))
        return FINDINGS
    path = await bench.hub.download(name, _Follower(terminal), args.folder or "")
    parent = path.removesuffix(f"/{name.repo.partition('/')[2]}")
    terminal.data({"path": path, "size_bytes": look.size_bytes, "fit": fit})
    terminal.say(message("Downloaded and verified: {path}", path=path), "good")
    if path not in {m.path for m in await bench.models.scan()}:
        await bench.models.add_folder(parent)
    return FINE


class _Follower:
    """A line for each percent, and one when the hub asks for patience."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._percent = -1

    def __call__(self, progress: DownloadProgress) -> None:
        terminal = self._terminal
        if progress.waiting_s:
            terminal.say(
                message(
                    "Waiting {seconds} s before the next try…", seconds=round(progress.waiting_s)
                ),
                "dim",
            )
            return
        percent = (
            int(100 * progress.done_bytes / progress.total_bytes) if progress.total_bytes else 0
        )
        if percent > self._percent:
            self._percent = percent
            terminal.line(
                terminal.style(
                    f"  {percent:3} %  {gib(progress.done_bytes)} / {gib(progress.total_bytes)}",
                    "dim",
                )
            )


async def _token(session: Session, bench: Workbench) -> int:
    """Store or forget the hub's token; it is never printed."""
    args, terminal = session.args, session.terminal
    if args.clear:
        await bench.secrets.delete(TOKEN_NAME)
        terminal.data({"token": None})
        terminal.say(message("The token is forgotten."))
        return FINE
    value = terminal.read_secret(message("Token (not shown):"))
    if not value:
        raise UsageError(message("No token was given."), message("Type one, or pipe one in."))
    if args.in_file:
        await bench.secrets.allow_file()
    await bench.secrets.set(TOKEN_NAME, value)
    if not bench.secrets.lasting:
        raise HostError(
            message("This system has no keyring, so the token would be lost with this command."),
            message('Repeat with "--in-file" to keep it in a file that only you can read.'),
        )
    terminal.data({"place": terminal.text(bench.secrets.place)})
    terminal.say(message("Stored. Place: {place}", place=Message(bench.secrets.place)), "good")
    return FINE


ACTIONS: Mapping[str, Action] = {
    "list": _list,
    "search": _search,
    "download": _download,
    "token": _token,
}
