"""Recognises a tabbyAPI that somebody else starts, and reads its settings."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from twinrig.domain.options import Option, SettingValue
from twinrig.engines.adopting import Adopted, ForeignCommand, option_words, settings_from
from twinrig.engines.tabbyapi_edit import read_sections
from twinrig.engines.tabbyapi_launch import CONFIG_FILE, SCHEMA_FILE
from twinrig.engines.tabbyapi_validation import ALLOCATOR_VARIABLES, OWN_KEYS, SECRET_KEYS

_SCRIPTS = frozenset({"main.py", "start.py", "start.sh"})


def checkout_of(command: ForeignCommand) -> str:
    """The checkout that this command would run, "" when it runs something else."""
    for word in command.argv:
        if posixpath.basename(word) in _SCRIPTS:
            folder = posixpath.dirname(posixpath.join(command.cwd, word))
            return posixpath.normpath(folder) if folder.startswith("/") else ""
    return ""


def adoption_reads(command: ForeignCommand) -> tuple[str, ...] | None:
    """Files to read; None when this is no tabbyAPI."""
    folder = checkout_of(command)
    if not folder:
        return None
    other = _other_config(command, folder)
    return (f"{folder}/{CONFIG_FILE}", f"{folder}/{SCHEMA_FILE}", *((other,) if other else ()))


def adopt(
    command: ForeignCommand, files: Mapping[str, str | None], table: Sequence[Option]
) -> Adopted | None:
    """The same server as a profile; None when the folder holds no tabbyAPI.

    Raises ConfigRefusedError for a ``config.yml`` that tabbyAPI cannot read either.
    """
    folder = checkout_of(command)
    if files.get(f"{folder}/{SCHEMA_FILE}") is None:
        return None
    path = f"{folder}/{CONFIG_FILE}"
    values = _flat(read_sections(files.get(path) or "", path))
    values.update(_from_variables(command.env, table))
    other = _other_config(command, folder)
    if other:  # merged on top, and every other word is then ignored
        values.update(_set_only(_flat(read_sections(files.get(other) or "", other))))
    else:
        values.update(_from_words(command.argv, table))
    own = {key: values.pop(key, None) for key in OWN_KEYS}
    left = [key for key in SECRET_KEYS if values.pop(key, None) is not None]
    settings, strange = settings_from(table, values)
    _keep_allocator(command, settings)
    models = posixpath.join(folder, str(own["model.model_dir"] or "models"))
    name = own["model.model_name"]
    port = str(own["network.port"] or "")
    return Adopted(
        environment=folder,
        model_path=posixpath.normpath(posixpath.join(models, str(name))) if name else "",
        host=str(own["network.host"] or "127.0.0.1"),
        port=int(port) if port.isdigit() else 5000,
        settings=settings,
        left_out=(*left, *strange),
    )


def _other_config(command: ForeignCommand, folder: str) -> str:
    """Absolute path of a file named by ``--config``, "" without one."""
    name = option_words(command.argv).get("config")
    return posixpath.join(folder, name) if isinstance(name, str) else ""


def _set_only(values: Mapping[str, object]) -> dict[str, object]:
    """A blank key leaves what is below it."""
    return {key: value for key, value in values.items() if value is not None}


def _flat(sections: Mapping[str, object]) -> dict[str, object]:
    return {
        f"{section}.{key}": value
        for section, keys in sections.items()
        if isinstance(keys, dict)
        for key, value in keys.items()
    }


def _from_variables(env: Mapping[str, str], table: Sequence[Option]) -> dict[str, object]:
    """``TABBY_SECTION_KEY``, which wins over ``config.yml``."""
    keys = (*(option.engine_key for option in table), *OWN_KEYS)
    names = {f"TABBY_{key.replace('.', '_')}".upper(): key for key in keys}
    return {names[name]: value for name, value in env.items() if name in names}


def _from_words(argv: Sequence[str], table: Sequence[Option]) -> dict[str, object]:
    """Command-line options by their full key; tabbyAPI lets them win over the file."""
    keys = {key.partition(".")[2]: key for key in (*(o.engine_key for o in table), *OWN_KEYS)}
    found = option_words(argv)
    return {keys.get(name.replace("-", "_"), name): value for name, value in found.items()}


def _keep_allocator(command: ForeignCommand, settings: dict[str, SettingValue]) -> None:
    """Who sets the allocator by variable means it; tabbyAPI's own default would undo it."""
    if any(name in command.env for name in ALLOCATOR_VARIABLES):
        settings["cuda_malloc_async"] = False
