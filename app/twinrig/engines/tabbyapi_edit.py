"""Changes chosen keys of a ``config.yml`` and not one other byte.

The new text is read again: unless exactly the asked keys changed, the file is refused as it is.
Dialect: ruamel.yaml, YAML 1.2, as tabbyAPI reads it.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode

from twinrig.domain.errors import UsageError
from twinrig.messages import Message, message

Sections = Mapping[str, Mapping[str, object]]
_COLON = re.compile(r"[ \t]*:")
_ALIAS = re.compile(r"[ \t]*\*[^\s,\[\]{}]+")
_COMMENT = re.compile(r"(?:^|\s)(#.*?)\s*$", re.MULTILINE)
_PLAIN = re.compile(r"[A-Za-z_/][\w./+@-]*|[2-8],[2-8]", re.ASCII)
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_BOM = "\ufeff"


class ConfigRefusedError(UsageError):
    """A file that is left as it is; ``line_no`` (1-based) is where the reason stands."""

    def __init__(self, path: str, reason: Message, line_no: int | None = None) -> None:
        where = (
            message("{path} cannot be edited safely: {reason}.", path=path, reason=reason)
            if line_no is None
            else message(
                "{path} cannot be edited safely: {reason} (line {line}).",
                path=path,
                reason=reason,
                line=line_no,
            )
        )
        super().__init__(where, message("Correct the file; Twinrig has not changed it."))
        self.line_no = line_no


def read_sections(text: str, path: str) -> dict[str, Any]:
    """The file as plain data, empty for an empty file. Raises ConfigRefusedError."""
    try:
        data = YAML(typ="safe", pure=True).load(text.removeprefix(_BOM))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = str(error.problem or "").partition(" with value")[0]  # it may be a key
        reason = message("it is not valid YAML: {fault}", fault=problem[:120])
        raise ConfigRefusedError(path, reason, mark.line + 1 if mark else None) from error
    except (YAMLError, ValueError, RecursionError, TypeError) as error:
        raise ConfigRefusedError(
            path, message("it is not valid YAML: {fault}", fault=str(error)[:120])
        ) from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigRefusedError(path, message("it holds no sections"), 1)
    return data


def edit_sections(text: str, wanted: Sections, path: str) -> str:
    """``text`` with these keys set; None blanks a key. Raises ConfigRefusedError."""
    before = read_sections(text, path)
    changes = {
        section: {
            key: value
            for key, value in values.items()
            if not _same(_get(before, section, key), value)
        }
        for section, values in wanted.items()
    }
    changes = {section: values for section, values in changes.items() if values}
    if not changes:
        return text
    bom = _BOM if text.startswith(_BOM) else ""
    editor = _Editor(text.removeprefix(_BOM), path)
    edited = editor.edited(changes)
    if not _as_asked(before, edited, changes, path):
        reason = message("its form leaves no safe place for the change")
        raise ConfigRefusedError(path, reason, editor.line_of(next(iter(changes))))
    return bom + edited


def yaml_value(value: object) -> str:
    """One value as it is written: plain where nobody can misread it, else quoted."""
    if value is None:
        return ""
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(yaml_value(v) for v in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _get(data: Mapping[str, Any], section: str, key: str) -> object:
    values = data.get(section)
    return values.get(key) if isinstance(values, dict) else None


def _same(present: object, wanted: object) -> bool:
    if isinstance(present, bool) != isinstance(wanted, bool):
        return False
    if isinstance(wanted, tuple):
        wanted = list(wanted)
    return present == wanted


def _as_asked(before: dict[str, Any], edited: str, changes: Sections, path: str) -> bool:
    """Whether the new text reads as the old one with exactly these changes."""
    expected = copy.deepcopy(before)
    for section, values in changes.items():
        present = expected.get(section)
        target: dict[str, Any] = present if isinstance(present, dict) else {}
        expected[section] = target
        for key, value in values.items():
            target[key] = list(value) if isinstance(value, tuple) else value
    try:
        return read_sections(edited, path) == expected
    except ConfigRefusedError:
        return False


@dataclass
class _Editor:
    text: str
    path: str
    edits: list[tuple[int, int, str]] = field(default_factory=list)
    sections: dict[str, tuple[ScalarNode, Node]] = field(default_factory=dict)

    def edited(self, changes: Sections) -> str:
        """All changes in one pass over the composed document."""
        root = YAML(typ="rt", pure=True).compose(self.text)
        if isinstance(root, ScalarNode):  # a document without content
            if not _is_empty(self.text, root):
                self._refuse(message("it holds no sections"), root)
            root = None
        self.newline = "\r\n" if "\r\n" in self.text else "\n"
        self.shared = _shared(root)
        self.sections = _scalar_keys(root) if root else {}
        appended = ""
        for section, values in changes.items():
            if section in self.sections:
                self._change(*self.sections[section], values)
            else:
                appended += self._section(root, section, values)
        result = self.text
        for start, end, new in sorted(self.edits, key=lambda edit: edit[0], reverse=True):
            result = result[:start] + new + result[end:]
        if appended and result and not result.endswith("\n"):
            result += self.newline
        return result + appended

    def line_of(self, section: str) -> int:
        """Where a section begins (1-based); the end of the file where there is none."""
        if section in self.sections:
            return int(self.sections[section][0].start_mark.line) + 1
        return max(1, len(self.text.splitlines()))

    def _section(self, root: Any, name: str, values: Mapping[str, object]) -> str:
        if root is not None and root.flow_style:
            self._refuse(message("it is written in braces"), root)
        indent = " " * root.value[0][0].start_mark.column if root and root.value else ""
        lines = [f"{indent}{name}:", *(f"{indent}  {_entry(k, v)}" for k, v in values.items())]
        return self.newline.join(lines) + self.newline

    def _change(self, key: ScalarNode, node: Node, values: Mapping[str, object]) -> None:
        if _is_alias(key, node) or id(node) in self.shared:
            self._refuse(message("the section {name} is shared", name=key.value), key)
        if not isinstance(node, MappingNode):
            if not _is_empty(self.text, node):
                self._refuse(message("{name} is no section", name=key.value), key)
            indent = " " * (key.start_mark.column + 2)
            self._insert_line(self._colon_end(key), indent, values)
            return
        entries = _scalar_keys(node)
        new = {}
        for name, value in values.items():
            if name in entries:
                self._replace(*entries[name], value)
            else:
                new[name] = value
        if new and node.flow_style:
            self._insert_flow(node, new)
        elif new:
            first = node.value[0][0]
            start = self.text.rfind("\n", 0, first.start_mark.index) + 1
            indent = self.text[start : first.start_mark.index]
            if indent.strip():
                self._refuse(message("its indentation is unusual"), first)
            self._insert_line(self._end(*node.value[-1]), indent, new)

    def _insert_line(self, after: int, indent: str, values: Mapping[str, object]) -> None:
        end = self.text.find("\n", after)
        end = len(self.text) if end < 0 else end
        if self.text[:end].endswith("\r"):
            end -= 1
        lines = "".join(f"{self.newline}{indent}{_entry(k, v)}" for k, v in values.items())
        self.edits.append((end, end, lines))

    def _insert_flow(self, node: MappingNode, values: Mapping[str, object]) -> None:
        end = node.end_mark.index - 1
        last = self.text[: end + 1].rstrip("}").rstrip()
        comma = "" if last.endswith(("{", ",")) else ", "
        items = ", ".join(
            f"{k}: {'null' if v is None else yaml_value(v)}" for k, v in values.items()
        )
        self.edits.append((end, end, comma + items))

    def _replace(self, key: ScalarNode, node: Node, value: object) -> None:
        colon = self._colon_end(key)
        end = self._end(key, node)
        if node.anchor and id(node) in self.shared and not _is_alias(key, node):
            self._refuse(message("the value of {name} is shared", name=key.value), key)
        removed = self.text[colon:end]
        if _is_block(node) and not _is_alias(key, node):
            indent = " " * key.start_mark.column
            comments = "".join(
                f"{self.newline}{indent}{found[1]}" for found in _COMMENT.finditer(removed)
            )
            self.edits.append((colon, end, f" {yaml_value(value)}" + comments))
            return
        space = removed[: len(removed) - len(removed.lstrip(" \t"))] or " "
        self.edits.append((colon, end, space + yaml_value(value)))

    def _end(self, key: ScalarNode, node: Node) -> int:
        """Where the text of an entry's value ends, without comments that follow."""
        colon = self._colon_end(key)
        if _is_alias(key, node):
            found = _ALIAS.match(self.text, colon)
            if found is None:
                self._refuse(message("the value of {name} is unusual", name=key.value), key)
            return found.end() if found else colon
        if _is_empty(self.text, node):
            return colon
        if not _is_block(node):
            start, end = node.start_mark.index, node.end_mark.index
            return int(start + len(self.text[start:end].rstrip()))
        return max(self._leaf_end(leaf, key) for leaf in _leaves(node))

    def _leaf_end(self, leaf: Node, key: ScalarNode) -> int:
        if leaf.start_mark.index < key.start_mark.index:
            self._refuse(message("the value of {name} is shared", name=key.value), key)
        start, end = leaf.start_mark.index, leaf.end_mark.index
        return int(start + len(self.text[start:end].rstrip()))

    def _colon_end(self, key: ScalarNode) -> int:
        found = _COLON.match(self.text, key.end_mark.index)
        if found is None:
            self._refuse(
                message("the key {name} is written in an unusual way", name=key.value), key
            )
        return found.end() if found else 0

    def _refuse(self, reason: Message, node: Node) -> None:
        raise ConfigRefusedError(self.path, reason, node.start_mark.line + 1)


def _scalar_keys(node: Any) -> dict[str, tuple[ScalarNode, Node]]:
    """Entries of a mapping by key; one whose key is a list or a mapping is nobody's section."""
    return {key.value: (key, value) for key, value in node.value if isinstance(key, ScalarNode)}


def _entry(key: str, value: object) -> str:
    return f"{key}: {yaml_value(value)}".rstrip()


def _is_block(node: Node) -> bool:
    return isinstance(node, CollectionNode) and not node.flow_style


def _is_alias(key: Node, node: Node) -> bool:
    """An alias is composed to the very node of its anchor, which stands earlier."""
    return bool(node.start_mark.index < key.start_mark.index)


def _is_empty(text: str, node: Node) -> bool:
    start, end = node.start_mark.index, node.end_mark.index
    return isinstance(node, ScalarNode) and not text[start:end].strip() and node.style is None


def _leaves(node: Node) -> Iterator[Node]:
    if not _is_block(node) or not node.value:
        yield node
        return
    for child in node.value:
        for part in child if isinstance(child, tuple) else (child,):
            yield from _leaves(part)


def _shared(root: Any) -> frozenset[int]:
    """Nodes that stand in more than one place."""
    seen: set[int] = set()
    twice: set[int] = set()

    def walk(node: Any) -> None:
        if id(node) in seen:
            twice.add(id(node))
            return
        seen.add(id(node))
        if isinstance(node, ScalarNode):
            return
        for child in node.value:
            for part in child if isinstance(child, tuple) else (child,):
                walk(part)

    if root is not None:
        walk(root)
    return frozenset(twice)
