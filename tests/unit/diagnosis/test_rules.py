"""The form of rule files: every fault is named, and the shipped file keeps the promises."""

from __future__ import annotations

import string

import pytest

from twinrig.diagnosis.derived import DERIVATIONS
from twinrig.diagnosis.rules import TIERS, Rules, RulesError, load_rules

HEAD = "schema_version: 1\nmarkers: {ready: up}\nrules:\n"
RULE = """
  - id: a
    tier: worker
    needles: [boom]
    match: 'boom (?P<x>\\d+)'
    confidence: high
    permanent: true
    fixes: [f]
    text: It went {x}.
    next_step: Try {x} again.
"""


def test_reads_every_field() -> None:
    extra = (
        "    near: n\n    not_near: m\n    excludes: e\n    absent: [q]\n    after: [ready]\n"
        "    before: [ready]\n    exit: '9'\n    repeats: 3\n    info: true\n"
        "    catalogued: false\n"
    )
    (rule,) = load_rules(HEAD + RULE + extra).rules
    assert (rule.id, rule.tier, rule.needles, rule.fixes) == ("a", "worker", ("boom",), ("f",))
    assert rule.match is not None and rule.match.search("boom 7")
    assert rule.permanent is True and rule.confidence == "high" and rule.catalogued is False
    assert (rule.after, rule.before, rule.absent) == (("ready",), ("ready",), ("q",))
    assert (rule.repeats, rule.info) == (3, True)
    assert rule.rank == TIERS.index("worker")
    for pattern in (rule.near, rule.not_near, rule.excludes, rule.exit):
        assert pattern is not None


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("tier: worker", "tier: late", "tier must be one of"),
        ("confidence: high", "confidence: sure", "confidence must be one of"),
        ("permanent: true", "permanent: often", "permanent must be true or false"),
        ("    permanent: true\n", "", "permanent must be true or false"),
        ("needles: [boom]", "needles: []", "needs needles or an exit"),
        ("needles: [boom]", "needles: [1]", "needles must be a text or a list"),
        ("match: 'boom (?P<x>\\d+)'", "match: '('", "match:"),
        ("match: 'boom (?P<x>\\d+)'", "match: 'boom'", "texts name ['x']"),
        ("text: It went {x}.", "text: ''", "text must be text"),
        ("text: It went {x}.", "text: 'It { went'", "braces in a text"),
        ("next_step: Try {x} again.", "next_step: Try {y}.", "texts name ['y']"),
        ("fixes: [f]", "fixes: [f]\n    after: [moon]", "no such markers: ['moon']"),
        ("fixes: [f]", "fixes: [f]\n    derive: [magic]", "no such derivations"),
        ("fixes: [f]", "fixes: [f]\n    repeats: 0", "repeats must be a whole number"),
        ("fixes: [f]", "fixes: [f]\n    colour: red", "unknown fields ['colour']"),
        ("id: a", "name: a", "unknown fields ['name']"),
    ],
)
def test_a_faulty_rule_is_named(old: str, new: str, fault: str) -> None:
    assert old in RULE
    with pytest.raises(RulesError) as caught:
        load_rules(HEAD + RULE.replace(old, new), "r.yaml")
    assert fault in str(caught.value) and "r.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("rules: [", "not valid YAML"),
        ("- 1", "needs a mapping"),
        ("rules: {}", "needs a mapping"),
        ("schema_version: 9\nrules: []", "schema_version must be 1"),
        ("schema_version: 1\nrules: []", "markers must map"),
        ("schema_version: 1\nmarkers: {ready: 1}\nrules: []", "markers must map"),
        ("schema_version: 1\nmarkers: {other: x}\nrules: []", "when the server is ready"),
        (HEAD + "  - 3", "rule 1: must be a mapping"),
        (HEAD + RULE + RULE, "given twice: a"),
        (HEAD + RULE + "wrappers: [1]", "wrappers must be"),
    ],
)
def test_a_faulty_file_is_refused(text: str, fault: str) -> None:
    with pytest.raises(RulesError) as caught:
        load_rules(text, "r.yaml")
    assert fault in str(caught.value)


def test_texts_are_sentences_for_people(rules: Rules) -> None:
    for rule in rules.rules:
        for text in (rule.text, rule.next_step):
            assert text.endswith("."), (rule.id, text)
            assert text[0].isupper() or text.startswith("vLLM"), (rule.id, text)
            names = {name for _, name, _, _ in string.Formatter().parse(text) if name}
            assert all(name.isidentifier() for name in names)


def test_known_kinds_offer_a_fix(rules: Rules) -> None:
    for rule in rules.rules:
        assert bool(rule.fixes) is rule.catalogued, rule.id


def test_out_of_memory_has_a_rule_for_each_phase(rules: Rules) -> None:
    oom = [rule for rule in rules.rules if rule.needles == ("out of memory",)]
    assert {rule.id for rule in oom} == {
        "vram-oom-load",
        "kv-no-memory",
        "vram-oom-graphs",
        "vram-oom-runtime",
    }


@pytest.mark.parametrize(
    ("name", "captured", "value"),
    [
        ("gpu_share", {"free_gib": "10.21", "total_gib": "11.94"}, "0.82"),
        ("gpu_share", {"free_gib": "23.54", "total_gib": "23.54"}, "0.98"),
        ("gpu_share", {"free_gib": "0.2", "total_gib": "11.94"}, None),
        ("gpu_share", {"free_gib": "1", "total_gib": "0"}, None),
        ("gpu_share", {"free_gib": "x", "total_gib": "1"}, None),
        ("gpu_share", {}, None),
        ("rounded_context", {"estimated": "121900"}, "121856"),
        ("rounded_context", {"estimated": "1120"}, "1024"),
        ("rounded_context", {"estimated": "200"}, "200"),
        ("rounded_context", {"estimated": "0"}, None),
        ("rounded_context", {}, None),
        ("cuda_version", {"found": "12080"}, "12.8"),
        ("cuda_version", {"found": "13000"}, "13.0"),
        ("cuda_version", {"found": "²"}, None),
    ],
)
def test_derived_values(name: str, captured: dict[str, str], value: str | None) -> None:
    assert DERIVATIONS[name].compute(captured) == value
