"""``twinrig profiles``: list, show, new, copy, edit, adopt, import, export, delete,
restore, key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from twinrig import assets
from twinrig.cli.adopt import adopt
from twinrig.cli.assignments import assign, assigned_path
from twinrig.cli.drafting import cards_of, draft_profile
from twinrig.cli.session import FINDINGS, FINE, Session
from twinrig.domain.errors import GpuUnavailableError, ProfileError, UsageError
from twinrig.domain.profile import Profile
from twinrig.messages import Message, message
from twinrig.services.profile_codec import dump_profile
from twinrig.services.profile_store import write_new
from twinrig.services.recipes import (
    NAMES,
    apply_recipe,
    load_recipe,
    load_recipes,
    make_recipe,
)
from twinrig.services.server_key import ServerKeys, new_key
from twinrig.services.workbench import Workbench

Action = Callable[[Session, Workbench], Awaitable[int]]


async def run(session: Session) -> int:
    """Dispatch to the action named on the command line; the list without one."""
    async with session.bench() as bench:
        return await ACTIONS[session.args.action or "list"](session, bench)


async def _list(session: Session, bench: Workbench) -> int:
    terminal = session.terminal
    listing = bench.profiles.list()
    terminal.data(listing)
    terminal.table(
        [
            (p.id, p.name, p.target, p.engine.id, p.model.path, str(p.network.port))
            for p in listing.profiles
        ]
    )
    if not listing.profiles:
        terminal.say(message("There are no profiles yet."))
    for broken in listing.broken:
        terminal.paragraph(broken.text, style="bad")
        for error in broken.errors:
            terminal.line(f"  {error.path}: {terminal.text(error.text)}")
        terminal.next_step(broken.next_step)
    return FINDINGS if listing.broken else FINE


async def _show(session: Session, bench: Workbench) -> int:
    profile = bench.profiles.load(session.args.profile)
    session.terminal.data(profile)
    session.terminal.line(dump_profile(profile).rstrip())
    return FINE


async def _new(session: Session, bench: Workbench) -> int:
    args, terminal = session.args, session.terminal
    recipe = _recipe(args.recipe) if args.recipe else None
    draft = await draft_profile(
        terminal,
        bench,
        name=args.name,
        engine_id=recipe.engine.id if recipe else args.engine,
        environment=args.environment,
        model_path=args.model,
    )
    draft = apply_recipe(recipe, draft) if recipe else draft
    draft = assign(draft, args.assignments, bench.engines.get(draft.engine.id))
    bench.profiles.save(draft)
    terminal.data(draft)
    terminal.say(message("Saved the profile {id}.", id=draft.id), "good")
    terminal.next_step(
        message(
            'Start it with "twinrig --target {target} start {id}".',
            target=bench.target,
            id=draft.id,
        )
    )
    return FINE


def _recipe(name: str) -> Profile:
    """A shipped one by its name, else a file."""
    if name not in NAMES:
        return load_recipe(Path(name).expanduser())
    return next(r for r in load_recipes(assets.read_text) if r.id == name)


async def _edit(session: Session, bench: Workbench) -> int:
    args, terminal = session.args, session.terminal
    before, faults = bench.profiles.load_with_faults(args.profile)
    mended = {assigned_path(word) for word in args.assignments}
    left = [fault for fault in faults if fault.path not in mended]
    if left:  # saving would drop what could not be read
        raise ProfileError(before.id, left)
    after = assign(before, args.assignments, bench.engines.get(before.engine.id))
    if after == before:
        terminal.say(message("Nothing changed."))
    else:
        bench.profiles.save(after, replaces=before)
        terminal.say(message("Saved the profile {id}.", id=after.id), "good")
        active = await bench.controller.active()
        if active is not None and active.profile_id == after.id:
            terminal.say(message("A running server keeps its old settings until a restart."))
    terminal.data(after)
    return FINE


async def _copy(session: Session, bench: Workbench) -> int:
    """Under a name of its own, for this target; the original stays as it is."""
    args, terminal = session.args, session.terminal
    source = bench.profiles.load(args.profile)
    new_id = bench.profiles.free_id(args.name)
    copied = replace(source, id=new_id, name=args.name, target=bench.target)
    bench.profiles.save(copied)
    terminal.data(copied)
    terminal.say(message("Saved the profile {id}.", id=new_id), "good")
    return FINE


async def _import(session: Session, bench: Workbench) -> int:
    profile = bench.profiles.import_file(Path(session.args.file), session.args.new_id)
    session.terminal.data(profile)
    session.terminal.say(message("Saved the profile {id}.", id=profile.id), "good")
    return FINE


async def _export(session: Session, bench: Workbench) -> int:
    args = session.args
    if args.recipe:
        text = make_recipe(bench.profiles.load(args.profile), await _card_names(bench))
        write_new(Path(args.file), text, overwrite=args.overwrite)
    else:
        bench.profiles.export(args.profile, Path(args.file), overwrite=args.overwrite)
    session.terminal.data({"file": args.file})
    session.terminal.say(message("Written to {path}.", path=args.file), "good")
    return FINE


async def _card_names(bench: Workbench) -> tuple[str, ...]:
    try:
        return tuple(card.name for card in await cards_of(bench))
    except GpuUnavailableError:
        return ()


async def _delete(session: Session, bench: Workbench) -> int:
    args, terminal = session.args, session.terminal
    active = await bench.controller.active()
    if active is not None and active.profile_id == args.profile:
        raise UsageError(
            message("The server of {profile} is running.", profile=args.profile),
            message(
                'Stop it first with "twinrig --target {target} stop {profile}".',
                target=bench.target,
                profile=args.profile,
            ),
        )
    if terminal.can_ask and not args.yes:
        question = message("Delete the profile {profile}?", profile=args.profile)
        if not terminal.ask(question):
            terminal.say(message("Nothing was changed."))
            return FINDINGS
    bench.profiles.delete(args.profile)
    terminal.data({"deleted": args.profile})
    terminal.say(
        message('Deleted. "twinrig profiles restore {id}" brings it back.', id=args.profile)
    )
    return FINE


async def _restore(session: Session, bench: Workbench) -> int:
    if session.args.worked:
        profile = bench.last_good().restore(session.args.profile)
        text = message("The settings of {id} that worked are back.", id=profile.id)
    else:
        profile = bench.profiles.restore_previous(session.args.profile)
        text = message("Restored the previous version of {id}.", id=profile.id)
    session.terminal.data(profile)
    session.terminal.say(text, "good")
    return FINE


async def _key(session: Session, bench: Workbench) -> int:
    """Store, make or forget the server's key; it is never printed unless it was just made."""
    args, terminal = session.args, session.terminal
    keys = ServerKeys(bench.profiles, bench.secrets)
    if args.clear:
        profile = await keys.clear(args.profile)
        terminal.say(message("The server of {id} needs no key now.", id=profile.id))
        terminal.data({"key": None})
        return FINE
    bench.profiles.load(args.profile)  # a wrong name is said before a key is typed
    value = new_key() if args.generate else terminal.read_secret(message("Key (not shown):"))
    profile = await keys.give(args.profile, value, in_file=args.in_file)
    place = bench.secrets.place
    terminal.data({"key_name": profile.network.key_name, "place": terminal.text(place)})
    terminal.say(message("Stored. Place: {place}", place=Message(place)), "good")
    if args.generate:
        terminal.say(message("The key, shown this once: {key}", key=value))
    return FINE


ACTIONS: Mapping[str, Action] = {
    "list": _list,
    "show": _show,
    "new": _new,
    "adopt": adopt,
    "edit": _edit,
    "copy": _copy,
    "import": _import,
    "export": _export,
    "delete": _delete,
    "restore": _restore,
    "key": _key,
}
