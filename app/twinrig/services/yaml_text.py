"""YAML without surprises: what PyYAML would guess is a fault, and so are anchors and repeats.

PyYAML follows YAML 1.1 and turns ``2_2`` into 22, ``1:30`` into 90 and ``no`` into False (as
run). A person who wrote that meant the text, so each such value is reported with its path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from twinrig.domain.errors import DamagedFileError, FieldError
from twinrig.messages import Message, message

_TAG = "tag:yaml.org,2002:"
_PLAIN: dict[str, re.Pattern[str]] = {
    _TAG + "bool": re.compile(r"true|True|TRUE|false|False|FALSE"),
    _TAG + "int": re.compile(r"[-+]?(0|[1-9][0-9]*)"),
    _TAG + "float": re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"),
    _TAG + "null": re.compile(r"null|Null|NULL|~|"),
}


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses aliases: a profile needs none, and they can hide a bomb."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not used here", mark)
        return super().compose_node(parent, index)


def read_yaml(text: str, source: str) -> tuple[Any, tuple[FieldError, ...]]:
    """Plain data of one YAML document, and a fault for each value that would be guessed.

    Raises DamagedFileError naming ``source`` (and the line) when it is no YAML at all.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, ()
            faults = tuple(_faults(node, ""))
            data = loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _damaged(source, error) from error
    return data, faults


def _damaged(source: str, error: Exception) -> DamagedFileError:
    mark = getattr(error, "problem_mark", None)
    step = message("Correct the file in a text editor, or restore its previous version.")
    if mark is None:
        return DamagedFileError(message("{path} is not a readable YAML file.", path=source), step)
    return DamagedFileError(
        message(
            "{path} is not a readable YAML file: line {line}, {problem}.",
            path=source,
            line=mark.line + 1,
            problem=str(getattr(error, "problem", "") or error),
        ),
        step,
    )


def _faults(node: yaml.Node, path: str) -> Iterator[FieldError]:
    """Report, and reduce what was reported to the text that stands in the file."""
    if isinstance(node, yaml.ScalarNode):
        fault = _scalar_fault(node)
        if fault is not None:
            node.tag = _TAG + "str"
            yield FieldError(path, fault)
        return
    expected = _TAG + ("seq" if isinstance(node, yaml.SequenceNode) else "map")
    if node.tag != expected:
        yield FieldError(path, _tag_fault(node.tag))
        node.tag = expected
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _faults(item, _join(path, str(number)))
    elif isinstance(node, yaml.MappingNode):
        yield from _map_faults(node, path)


def _map_faults(node: yaml.MappingNode, path: str) -> Iterator[FieldError]:
    kept: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            yield FieldError(path, message("a name must be one word, not a list or a group"))
            continue
        here = _join(path, key.value)
        if key.tag != _TAG + "str":
            yield FieldError(here, message("the name must be text; put it in quotes"))
            key.tag = _TAG + "str"
        if key.value in kept:
            yield FieldError(here, message("stands there twice"))
        kept[key.value] = (key, value)
        yield from _faults(value, here)
    node.value = list(kept.values())


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _scalar_fault(node: yaml.ScalarNode) -> Message | None:
    if node.tag == _TAG + "str":
        return None
    if node.style is not None:
        return _tag_fault(node.tag)
    pattern = _PLAIN.get(node.tag)
    if pattern is not None and pattern.fullmatch(node.value):
        return None
    return message(
        "{value} can be read in two ways; put it in quotes, or write a plain number, true or false",
        value=node.value,
    )


def _tag_fault(tag: str) -> Message:
    return message("the type mark {tag} is not allowed", tag=tag)
