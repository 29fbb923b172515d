"""The form of an option table: right rows are read, every fault is named."""

from __future__ import annotations

import pytest

from twinrig.domain.options import OptionGroup, OptionKind
from twinrig.engines.option_table import (
    OptionTableError,
    known_to,
    late_choice,
    parse_options,
    rows_for,
)

HEAD = "schema_version: 1\nengine: x\noptions:\n"
ROW = """
  - id: context_length
    key: max-model-len
    kind: int
    group: context
    label: Context length
    help: Longest conversation.
    min: 1
    max: 100
    step: 4
    unit: tokens
    versions: ">=0.19"
    expert: false
    default: 8
"""


def table(**changes: str | None) -> str:
    lines = []
    for line in ROW.splitlines():
        field = line.strip().removeprefix("- ").partition(":")[0]
        if field not in changes:
            lines.append(line)
        elif changes[field] is not None:
            lines.append(line.partition(":")[0] + ": " + str(changes[field]))
    return HEAD + "\n".join(lines)


def test_reads_every_field() -> None:
    (option,) = parse_options(HEAD + ROW, "t.yaml")
    assert (option.id, option.engine_key) == ("context_length", "max-model-len")
    assert (option.kind, option.group) == (OptionKind.INT, OptionGroup.CONTEXT)
    assert (option.minimum, option.maximum, option.multiple_of) == (1, 100, 4)
    assert (option.default, option.unit, option.versions) == (8, "tokens", ">=0.19")
    assert option.expert is False and option.free_text is False
    assert option.label == "Context length"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"kind": "number"}, "kind must be one of"),
        ({"group": "other"}, "group must be one of"),
        ({"label": "''"}, "label must be text"),
        ({"help": "3"}, "help must be text"),
        ({"id": "Context-Length"}, "id must be lower case"),
        ({"key": None}, "key must be text"),
        ({"min": "'1'"}, "min must be a number"),
        ({"min": "101"}, "min is greater than max"),
        ({"max": "true"}, "max must be a number"),
        ({"step": "0"}, "step must be a whole number"),
        ({"step": "1.5"}, "step must be a whole number"),
        ({"versions": "new"}, "versions:"),
        ({"expert": "maybe"}, "expert must be true or false"),
        ({"default": "9"}, "default must be a multiple of 4"),
        ({"default": "many"}, "default must be a number"),
        ({"kind": "choice"}, "choices belong to kind choice"),
    ],
)
def test_a_faulty_field_is_named(changes: dict[str, str | None], fault: str) -> None:
    with pytest.raises(OptionTableError) as caught:
        parse_options(table(**changes), "t.yaml")
    assert fault in str(caught.value)
    assert "t.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("options: [", "not valid YAML"),
        ("- 1", "needs a mapping"),
        ("schema_version: 1\noptions: 3", "needs a mapping"),
        ("schema_version: 2\noptions: []", "schema_version must be 1"),
        (HEAD + "  - 7", "row 1: must be a mapping"),
        (HEAD + ROW + "    colour: red", "unknown fields ['colour']"),
        (HEAD + ROW + ROW, "given twice: context_length"),
        (HEAD + ROW + ROW.replace("context_length", "other"), "given twice: max-model-len"),
    ],
)
def test_a_faulty_table_is_refused(text: str, fault: str) -> None:
    with pytest.raises(OptionTableError) as caught:
        parse_options(text, "t.yaml")
    assert fault in str(caught.value)


def test_choices_must_be_texts_and_different() -> None:
    row = ROW.replace("kind: int", "kind: choice").replace("    default: 8\n", "")
    row = row.replace("    min: 1\n    max: 100\n    step: 4\n", "")
    assert parse_options(HEAD + row + "    choices: [a, b]", "t")[0].choices == ("a", "b")
    for bad, fault in (
        ("[1, 2]", "must be texts"),
        ("a", "must be a list"),
        ("[a, a]", "given twice: a"),
        ('[a, {value: a, versions: ">=1"}]', "given twice: a"),
        ("[{value: a}]", "must be texts, or value and versions"),
        ("[{value: a, versions: new}]", "versions of a"),
    ):
        with pytest.raises(OptionTableError, match=fault):
            parse_options(HEAD + row + f"    choices: {bad}", "t")


@pytest.mark.parametrize(
    ("version", "choices"),
    [("0.19", ("a",)), ("0.20.1", ("a", "b")), ("", ("a", "b")), ("a fork", ("a", "b"))],
)
def test_versions_decide_which_choices_are_known(version: str, choices: tuple[str, ...]) -> None:
    row = ROW.replace("kind: int", "kind: choice").replace("    default: 8\n", "")
    row = row.replace("    min: 1\n    max: 100\n    step: 4\n", "")
    table = parse_options(HEAD + row + '    choices: [a, {value: b, versions: ">=0.20"}]', "t")
    (option,) = rows_for(table, version)
    assert option.choices == choices
    assert late_choice(table[0], "a", version) is None
    assert late_choice(table[0], "b", version) == (None if "b" in choices else ">=0.20")


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("0.18.9", False),
        ("0.19.0", True),
        ("0.32.0+cpu", True),
        ("0.19.0rc1", True),
        ("0.11.0+cu128", False),
        ("1.0", True),
        ("", True),
        ("a fork", True),
    ],
)
def test_versions_decide_what_is_known(version: str, known: bool) -> None:
    (option,) = parse_options(HEAD + ROW, "t.yaml")
    assert known_to(option, version) is known
