"""Servers that somebody else starts - a systemd user unit, a process - offered as profiles.

What is found is only read: unit, drop-ins and configuration stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from twinrig.domain.errors import HostError, TwinrigError
from twinrig.domain.ports import Host
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Network, Profile
from twinrig.engines.adopting import Adopted, ForeignCommand
from twinrig.engines.base import Engine
from twinrig.engines.field_rules import is_loopback
from twinrig.messages import Message, message
from twinrig.services.folders import FolderView
from twinrig.services.unit_files import command_of, environment_files, environment_of, foreign

UNIT_FOLDERS = ("~/.config/systemd/user", "/etc/systemd/user")
_KEPT_PREFIXES = ("NCCL_", "PYTORCH_", "CUDA_", "VLLM_", "EXL", "TORCH_", "HF_", "OMP_")
_KEPT_NAMES = frozenset({"MAX_JOBS"})
_SECRETS = frozenset({"VLLM_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})


@dataclass(frozen=True)
class Adoption:
    """One foreign server. ``source`` names where it was found; ``profile`` is not saved.

    ``left_out`` are keys that the profile cannot hold, ``notes`` what it has otherwise than there.
    ``next_step`` says how to hand it over.
    """

    source: str
    profile: Profile
    left_out: tuple[str, ...]
    next_step: Message
    notes: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Refused:
    """A server whose settings cannot be read, and why."""

    source: str
    text: Message


class AdoptionFinder:
    """Looks for servers of known engines. ``free_id`` makes a profile id of a name; ``refused``
    are those of the last search that cannot be taken over."""

    def __init__(
        self, host: Host, engines: Mapping[str, Engine], target: str, free_id: Callable[[str], str]
    ) -> None:
        self._host = host
        self._engines = engines
        self._target = target
        self._free_id = free_id
        self.refused: tuple[Refused, ...] = ()

    async def units(self) -> tuple[Adoption, ...]:
        """Systemd user units. Raises HostError when the target cannot be reached."""
        view = FolderView(self._host)
        dropped_in = [f"{place}/*.service.d" for place in UNIT_FOLDERS]
        await view.prefetch(
            [*UNIT_FOLDERS, *dropped_in],
            [*(f"{p}/*.service" for p in UNIT_FOLDERS), *(f"{p}/*.conf" for p in dropped_in)],
        )
        home = await view.home()
        self.refused = ()
        found = []
        for place in UNIT_FOLDERS:
            folder = await view.expand(place)
            for entry in await view.entries(folder):
                if entry.is_dir or not entry.name.endswith(".service"):
                    continue
                path = f"{folder}/{entry.name}"
                command = await _command(view, path, home)
                adopted = await self._adopted(path, command) if command else None
                if command is not None and adopted is not None:
                    found.append(self._adoption(path, entry.name, command, *adopted))
        return tuple(found)

    async def process(self, pid: int) -> Adoption | None:
        """A running process; None when it is no server that is known, or not readable."""
        view = FolderView(self._host)
        argv = await view.text(f"/proc/{pid}/cmdline")
        environ = await view.text(f"/proc/{pid}/environ")
        link = await self._host.run(["readlink", f"/proc/{pid}/cwd"], timeout_s=5.0)
        if not argv or environ is None or link.returncode != 0:
            return None
        pairs = (entry.partition("=")[::2] for entry in environ.split("\0") if "=" in entry)
        words = argv.rstrip("\0").split("\0")
        command = foreign(words, link.output.strip(), dict(pairs))
        self.refused = ()
        adopted = await self._adopted(f"/proc/{pid}", command)
        if adopted is None:
            return None
        name = f"{adopted[0].id}-{pid}"
        return self._adoption(f"/proc/{pid}", name, command, *adopted)

    async def _adopted(self, source: str, command: ForeignCommand) -> tuple[Engine, Adopted] | None:
        for engine in self._engines.values():
            paths = engine.adoption_reads(command)
            if paths is None:
                continue
            view = FolderView(self._host)
            files = {path: await view.text(path) for path in paths}
            try:
                adopted = engine.adopt(command, files)
            except HostError:
                raise
            except TwinrigError as error:  # its own engine cannot read it either
                self.refused = (*self.refused, Refused(source, error.text))
                continue
            if adopted is not None:
                return engine, adopted
        return None

    def _adoption(
        self, source: str, name: str, command: ForeignCommand, engine: Engine, adopted: Adopted
    ) -> Adoption:
        title = name.removesuffix(".service")
        env, dropped = _environment(command.env, source)
        own_id = self._free_id(title)
        closed = is_loopback(adopted.host)
        profile = Profile(
            id=own_id,
            name=title,
            target=self._target,
            engine=EngineRef(engine.id, adopted.environment),
            model=ModelRef(adopted.model_path),
            network=Network(adopted.host if closed else Network.host, adopted.port),
            settings=dict(adopted.settings),
            env=env,
            extra=dict(adopted.extra),
        )
        left_out = (*adopted.left_out, *dropped)
        notes = () if closed else (_for_this_computer(adopted.host, own_id),)
        return Adoption(source, profile, left_out, _hand_over(source, name), notes)


def _for_this_computer(host: str, profile_id: str) -> Message:
    return message(
        "It listens at {host}, for other devices too; the profile serves this computer only. To"
        ' share it: "twinrig profiles key {id} --generate", then "twinrig fix lan-open --profile'
        ' {id}".',
        host=host,
        id=profile_id,
    )


def _hand_over(source: str, name: str) -> Message:
    if name.endswith(".service"):
        return message(
            "With the profile saved, stop the old unit before the first start:"
            " systemctl --user disable --now {unit}",
            unit=name,
        )
    return message("With the profile saved, end {source} before the first start.", source=source)


def _environment(
    env: Mapping[str, str], source: str
) -> tuple[dict[str, EnvEntry], tuple[str, ...]]:
    kept, dropped = {}, []
    for name, value in env.items():
        if name in _SECRETS:
            dropped.append(name)
        elif name in _KEPT_NAMES or name.startswith(_KEPT_PREFIXES):
            kept[name] = EnvEntry(value, source)
    return kept, tuple(dropped)


async def _command(view: FolderView, path: str, home: str) -> ForeignCommand | None:
    texts = await _unit_texts(view, path)
    command = command_of(texts, home)
    if command is None:
        return None
    env = dict(command.env)
    for file in environment_files(texts, home):
        env |= environment_of(await view.text(file) or "")
    return replace(command, env=env)


async def _unit_texts(view: FolderView, path: str) -> list[str]:
    """The unit and its drop-ins, in the order in which systemd reads them."""
    texts = [await view.text(path) or ""]
    for entry in sorted(await view.entries(f"{path}.d"), key=lambda e: e.name):
        if entry.name.endswith(".conf") and not entry.is_dir:
            texts.append(await view.text(f"{path}.d/{entry.name}") or "")
    return texts
