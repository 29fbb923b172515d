"""Recognises a ``vllm serve`` that somebody else starts, and reads its settings."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from twinrig.domain.options import Option
from twinrig.engines.adopting import Adopted, ForeignCommand, option_words, settings_from

_SHORT = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-q": "--quantization",
    "-O": "--optimization-level",
    "-sc": "--speculative-config",
    "-cc": "--compilation-config",
    "-ep": "--enable-expert-parallel",
}
_OWN = ("model", "host", "port")
_SILENT = frozenset({"disable-access-log-for-endpoints", "served-model-name"})


def adoption_reads(command: ForeignCommand) -> tuple[str, ...] | None:
    """Files to read; None when this is no vLLM."""
    words = _words(command)
    if words is None:
        return None
    config = option_words(words).get("config")
    return (posixpath.join(command.cwd, str(config)),) if config else ()


def adopt(
    command: ForeignCommand, files: Mapping[str, str | None], table: Sequence[Option]
) -> Adopted | None:
    """The same server as a profile; None when the command is something else."""
    words = _words(command)
    if words is None:
        return None
    given = option_words(words)
    config = given.pop("config", None)
    values = {**_file(files.get(posixpath.join(command.cwd, str(config)))), **given}
    values = dict(_switch(key.replace("_", "-"), value) for key, value in values.items())
    if words and not words[0].startswith("-"):
        values["model"] = words[0]
    own = {key: values.pop(key, None) for key in _OWN}
    settings, left = settings_from(
        table, {key: value for key, value in values.items() if key not in _SILENT}
    )
    program = command.argv[0] if command.argv else ""
    port = str(own["port"] or "")
    return Adopted(
        environment=posixpath.dirname(posixpath.dirname(program)),
        model_path=posixpath.join(command.cwd, str(own["model"])) if own["model"] else "",
        host=str(own["host"] or "0.0.0.0"),
        port=int(port) if port.isdigit() else 8000,
        settings=settings,
        left_out=left,
    )


def _words(command: ForeignCommand) -> list[str] | None:
    """The words after the command's name; None when there is none."""
    argv = [_SHORT.get(word, word) for word in command.argv]
    for place, word in enumerate(argv):
        if posixpath.basename(word) == "vllm" and argv[place + 1 : place + 2] == ["serve"]:
            return argv[place + 2 :]
        if word == "vllm.entrypoints.openai.api_server":
            return argv[place + 1 :]
    return None


def _file(text: str | None) -> dict[str, Any]:
    try:
        data = yaml.safe_load(text or "")
    except yaml.YAMLError:
        return {}
    return data if isinstance(data, dict) else {}


def _switch(key: str, value: object) -> tuple[str, object]:
    if key.startswith("no-") and value is True:
        return key.removeprefix("no-"), False
    return key, value
