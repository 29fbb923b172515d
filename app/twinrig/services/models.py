"""Finds model folders on the target and tells which of them are complete.

A model folder holds ``config.json``. Layouts seen: ``models/NAME``, ``models/PUBLISHER/NAME``
and the Hugging Face cache ``models--PUBLISHER--NAME/snapshots/REVISION``. Nothing is moved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinrig.domain.errors import DamagedFileError, UsageError
from twinrig.domain.ports import FolderEntry, Host
from twinrig.files import read_small, write_atomic
from twinrig.messages import Message, message
from twinrig.services.folders import FolderView, parents

USUAL_FOLDERS: tuple[str, ...] = (
    "~/models",
    "~/.cache/huggingface/hub",
    "~/tabbyAPI/models",
    "~/.lmstudio/models",
)
WINDOWS_FOLDERS: tuple[str, ...] = ("/mnt/[a-z]/Users/*/.lmstudio/models",)
"""Beside the usual ones under WSL: where programs of the Windows side keep models."""
PARTIAL = ".partial"
"""End of a folder's name while its download is not finished and verified."""
MAX_FOLDERS = 3000
"""Folders looked at in one scan; a whole disk added by mistake must end some time."""

_DEPTH = 3
"""Levels of folders below the one that is looked into."""

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_TOKENIZERS = {
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "tekken.json",
    "vocab.json",
}
_PLACEHOLDER_BYTES = 1024


@dataclass(frozen=True)
class ModelFolder:
    """One model. ``size_bytes`` is that of the weights, None when there are none.

    ``problem`` says why it is not ``complete``. ``context_length`` is the model's own limit.
    ``quantization`` is the method with its bits, such as "exl3 4.15" ("" = not quantised).
    """

    path: str
    name: str
    size_bytes: int | None
    complete: bool
    problem: Message | None
    architecture: str
    context_length: int | None
    quantization: str = ""

    @property
    def on_windows(self) -> bool:
        """Whether it lies on a drive of the Windows side, as WSL mounts them."""
        return re.match(r"/mnt/[a-z]/", self.path) is not None


class ModelLibrary:
    """The folders to look into, usual ones and the user's own, and what they hold.

    The user's own are kept as a JSON list in ``store``.
    """

    def __init__(
        self,
        host: Host,
        folders: Sequence[str] = USUAL_FOLDERS,
        store: Path | None = None,
    ) -> None:
        self._host = host
        self._usual = tuple(folders)
        self._store = store
        self._own: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """All folders that a scan looks into. Raises DamagedFileError for a damaged list."""
        return tuple(dict.fromkeys((*self._added(), *self._usual)))

    async def add_folder(self, path: str) -> None:
        """Look into ``path`` too. Raises UsageError when the target has no such folder."""
        view = FolderView(self._host)
        folder = await view.expand(path.strip())
        parent, _, name = folder.rpartition("/")
        siblings = {e.name for e in await view.entries(parent or "/") if e.is_dir}
        if not folder.startswith("/") or (name and name not in siblings):
            raise UsageError(
                message("There is no folder {path}.", path=path),
                message("Give the full path of a folder that holds models."),
            )
        if folder not in self.folders:
            self._save((*self._added(), folder))

    async def remove_folder(self, path: str) -> None:
        """Forget one of the user's own folders; nothing on disk is touched."""
        folder = await FolderView(self._host).expand(path.strip())
        kept = tuple(f for f in self._added() if f not in (path, folder))
        if kept == self._added():
            raise UsageError(
                message("{path} is not one of the added folders.", path=path),
                message("Only added folders can be removed from the list."),
            )
        self._save(kept)

    async def scan(self) -> tuple[ModelFolder, ...]:
        """Every model found, by name. Raises HostError when the target is unreachable."""
        view = FolderView(self._host)
        found: dict[str, ModelFolder] = {}
        budget = _Budget(MAX_FOLDERS)
        own = set(self._added())
        roots = [re.sub(r"([*?\[])", r"[\1]", r) if r in own else r for r in self.folders]
        levels = [
            root.rstrip("/") + "/*" * depth or "/" for root in roots for depth in range(_DEPTH + 1)
        ]
        await view.prefetch([*(p for r in roots for p in parents(r)), *levels], _described(levels))
        await view.home()  # an unreachable target is an error, not "nothing found"
        for root in roots:
            for folder in await view.matching(root):
                await _walk(view, folder, folder, _DEPTH, found, budget)
        return tuple(sorted(found.values(), key=lambda m: (m.name.casefold(), m.path)))

    async def describe(self, path: str) -> ModelFolder | None:
        """The model in one folder, None when it holds none."""
        view = FolderView(self._host)
        literal = re.sub(r"([*?\[])", r"[\1]", path.rstrip("/"))
        if literal.startswith(("/", "~/")):
            await view.prefetch([literal], _described([literal]))
        folder = await view.expand(path)
        entries = await view.entries(folder)
        if not any(e.name == "config.json" for e in entries):
            return None
        return await _describe(view, folder, folder.rpartition("/")[2], entries)

    def _added(self) -> tuple[str, ...]:
        if self._store is None:
            return self._own
        try:
            data = json.loads(read_small(self._store))
            if isinstance(data, list) and all(isinstance(v, str) for v in data):
                return tuple(data)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RecursionError):
            pass
        raise DamagedFileError(
            message("The list of model folders {path} is damaged.", path=str(self._store)),
            message("Move the file away and add the folders again; it was not changed."),
        )

    def _save(self, folders: tuple[str, ...]) -> None:
        if self._store is None:
            self._own = folders
            return
        try:
            write_atomic(self._store, json.dumps(list(folders), indent=1).encode())
        except OSError as error:
            raise UsageError(
                message(
                    "{path} cannot be written: {reason}.",
                    path=str(self._store),
                    reason=error.strerror or "",
                ),
                message("Check free space and the permissions of the folder."),
            ) from error


@dataclass
class _Budget:
    left: int


def _described(folders: Sequence[str]) -> list[str]:
    """Patterns of the files that a description reads."""
    return [f"{folder}/{name}" for folder in folders for name in ("config.json", "*.index.json")]


async def _walk(
    view: FolderView,
    folder: str,
    root: str,
    depth: int,
    found: dict[str, ModelFolder],
    budget: _Budget,
) -> None:
    if budget.left <= 0:
        return
    budget.left -= 1
    entries = await view.entries(folder)
    if any(e.name == "config.json" and not e.is_dir for e in entries):
        found.setdefault(folder, await _describe(view, folder, _name(folder, root), entries))
        return
    if depth == 0:
        return
    for entry in entries:
        if entry.is_dir and not entry.name.startswith("."):
            await _walk(view, f"{folder}/{entry.name}", root, depth - 1, found, budget)


def _name(folder: str, root: str) -> str:
    """Name to show: ``PUBLISHER/NAME`` of a cache entry, else the path below the root."""
    for part in folder.split("/"):
        if part.startswith("models--"):
            return part.removeprefix("models--").replace("--", "/")
    below = folder.removeprefix(root).strip("/")
    return below or folder.rpartition("/")[2]


async def _describe(
    view: FolderView, folder: str, name: str, entries: Sequence[FolderEntry]
) -> ModelFolder:
    config = _object(await view.text(f"{folder}/config.json"))
    sizes = {e.name: e.size_bytes for e in entries if not e.is_dir}
    index_name = next((n for n in sizes if n.endswith(".index.json")), None)
    index = _object(await view.text(f"{folder}/{index_name}")) if index_name else None
    wanted = _wanted(index) if index_name else None
    weights = {n: s or 0 for n, s in sizes.items() if n.endswith(_WEIGHTS)}
    if folder.endswith(PARTIAL):
        problem: Message | None = message(
            "The download is not finished; download it again to go on."
        )
    elif config is None:
        problem = message("config.json is damaged.")
    else:
        problem = _problem(weights, wanted, index, index_name, set(sizes))
    facts = config or {}
    return ModelFolder(
        path=folder,
        name=name,
        size_bytes=sum(weights.values()) if weights else None,
        complete=problem is None,
        problem=problem,
        architecture=_architecture(facts),
        context_length=_context(facts),
        quantization=_quantization(facts),
    )


def _problem(
    weights: Mapping[str, int],
    wanted: frozenset[str] | None,
    index: Mapping[str, Any] | None,
    index_name: str | None,
    names: set[str],
) -> Message | None:
    if index_name is not None and not wanted:
        return message("{name} is damaged.", name=index_name)
    if not weights:
        return message("There are no weight files.")
    missing = sorted((wanted or frozenset()) - names)
    if missing:
        return message(
            "Weight files missing: {missing} of {total}, first {name}.",
            missing=len(missing),
            total=len(wanted or ()),
            name=missing[0],
        )
    small = next((n for n, s in sorted(weights.items()) if s < _PLACEHOLDER_BYTES), None)
    if small is not None:
        return message("{name} is empty or only a placeholder.", name=small)
    total = _total(index)
    present = sum(size for name, size in weights.items() if wanted is None or name in wanted)
    if total is not None and present < total:
        return message(
            "The download is not complete: {percent} % is there.",
            percent=int(100 * present / total),
        )
    if not names & _TOKENIZERS:
        return message("There is no tokenizer.")
    return None


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        data = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _wanted(index: Mapping[str, Any] | None) -> frozenset[str]:
    names = (index or {}).get("weight_map")
    if not isinstance(names, dict):
        return frozenset()
    return frozenset(str(v) for v in names.values())


def _total(index: Mapping[str, Any] | None) -> int | None:
    metadata = (index or {}).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(total) if isinstance(total, (int, float)) and total > 0 else None


def _architecture(config: Mapping[str, Any]) -> str:
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def _quantization(config: Mapping[str, Any]) -> str:
    """From ``quantization_config``; where a method has its bits differs."""
    found = config.get("quantization_config")
    if not isinstance(found, dict):
        return ""
    method = str(found.get("quant_method") or found.get("quant_algo") or "").lower()
    bits = next((found[k] for k in ("bits", "w_bit", "num_bits") if k in found), None)
    number = isinstance(bits, (int, float)) and not isinstance(bits, bool) and 0 < bits <= 16
    return f"{method} {bits:g}".strip() if number else method


def _context(config: Mapping[str, Any]) -> int | None:
    for part in (config, config.get("text_config")):
        value = part.get("max_position_embeddings") if isinstance(part, dict) else None
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
