from __future__ import annotations

import pytest

from fixtures.standard_machine import facts
from twinrig.domain.checks import Finding
from twinrig.fixes.guidance import load_guidance


def test_entry_becomes_guidance() -> None:
    fixes = load_guidance("fixes:\n  a-b:\n    title: Do it\n    instructions: [First., Then.]\n")
    way = fixes["a-b"].plan(Finding("x"), facts())

    assert way.fix_id == "a-b"
    assert str(way.title) == "Do it"
    assert [str(step) for step in way.instructions] == ["First.", "Then."]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "fixes: []",
        "fixes: {a: text}",
        "fixes: {a: {title: T}}",
        "fixes: {a: {title: T, instructions: []}}",
        "fixes: {a: {title: '', instructions: [x]}}",
        "fixes: {a: {title: T, instructions: [1]}}",
        "fixes: {a: {title: T, instructions: [x], more: 1}}",
    ],
)
def test_faulty_advice_names_its_fault(text: str) -> None:
    with pytest.raises(ValueError, match="advice: "):
        load_guidance(text)
