"""The form of rule files: every fault is named with its line, and the rest still works."""

from __future__ import annotations

import re
import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.rule_samples import SAMPLES, SHIPPED
from twinrig import assets
from twinrig.diagnosis.derived import DERIVATIONS
from twinrig.diagnosis.rule_files import RULE_FILES, RulesError, load_rules, load_shipped
from twinrig.diagnosis.rules import TIERS

COMMON = """
schema_version: 2
markers: {started: go, ready: up, stopped: halt}
wrappers: [wrapped]
harmless: [calm]
kinds: []
"""
KIND = """
schema_version: 2
kinds:
  - id: a
    text: It went {x}.
    next_step: Try {x} again.
    permanent: true
    fixes: [f]
    unless: [b]
    variants:
      - when: [{fact: engine, is: vllm, required: true}]
        fixes: [g]
    signatures:
      - tier: worker
        confidence: high
        needles: [boom]
        match: 'boom (?P<x>\\d+)'
        when: [{fact: vllm, below: "0.30"}]
"""


def test_reads_every_field() -> None:
    extra = (
        "        near: n\n        not_near: m\n        excludes: e\n        absent: [q]\n"
        "        present: [p]\n        after: [ready]\n        before: [started]\n"
        "        exit: '9'\n        repeats: 3\n        info: true\n        warning: true\n"
        "        survives: true\n        after_stop: true\n        permanent: false\n"
        "        fixes: [h]\n        text: So {x}.\n        next_step: Then {x}.\n"
    )
    rules = load_rules({"common": COMMON, "a": KIND + extra})
    (kind,) = rules.kinds
    (signature,) = kind.signatures
    assert (kind.id, kind.fixes, kind.unless, kind.permanent) == ("a", ("f",), ("b",), True)
    assert kind.variants[0].fixes == ("g",) and kind.variants[0].when[0].required
    assert signature.match is not None and signature.match.search("boom 7")
    assert (signature.needles, signature.present, signature.absent) == (("boom",), ("p",), ("q",))
    assert (signature.after, signature.before) == (("ready",), ("started",))
    assert (signature.repeats, signature.info, signature.warning) == (3, True, True)
    assert (signature.survives, signature.after_stop, signature.permanent) == (True, True, False)
    assert (signature.fixes, signature.text) == (("h",), "So {x}.")
    assert signature.when[0].operator == "below" and signature.when[0].value == "0.30"
    assert signature.rank == TIERS.index("worker")
    assert rules.markers["ready"] == ("up",) and rules.wrappers == ("wrapped",)
    assert rules.faults == () and rules.kind("a") is kind and rules.kind("b") is None


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("tier: worker", "tier: late", "tier must be one of"),
        ("confidence: high", "confidence: sure", "confidence must be one of"),
        ("permanent: true", "permanent: often", "permanent must be true or false"),
        ("    permanent: true\n", "", "permanent must be true or false"),
        ("        needles: [boom]\n", "", "match needs needles"),
        ("needles: [boom]", "needles: [1]", "needles must be a text or a list"),
        ("match: 'boom (?P<x>\\d+)'", "match: '('", "match:"),
        ("match: 'boom (?P<x>\\d+)'", "match: 'boom'", "texts name ['x']"),
        ("text: It went {x}.", "text: ''", "text must be text"),
        ("text: It went {x}.", "text: 'It { went'", "braces in a text"),
        ("next_step: Try {x} again.", "next_step: Try {y}.", "texts name ['y']"),
        ("needles: [boom]", "needles: [boom]\n        after: [moon]", "no such markers: ['moon']"),
        ("needles: [boom]", "needles: [boom]\n        derive: [magic]", "no such derivations"),
        ("needles: [boom]", "needles: [boom]\n        observed: ufo", "no such observation: ufo"),
        ("needles: [boom]", "needles: [boom]\n        repeats: 0", "repeats must be a whole"),
        ("needles: [boom]", "needles: [boom]\n        colour: red", "unknown fields ['colour']"),
        ("id: a", "name: a", "unknown fields ['name']"),
        ('below: "0.30"', "under: 3", "unknown fields ['under']"),
        (', below: "0.30"', "", "a condition needs one of"),
        ('below: "0.30"', "matches: '('", "matches:"),
        ("        fixes: [g]\n", "", "a variant needs conditions and fixes"),
        ("unless: [b]", "unless: {b: 1}", "unless must be a text or a list"),
    ],
)
def test_a_faulty_rule_is_named_and_the_rest_works(old: str, new: str, fault: str) -> None:
    assert old in KIND
    other = KIND.replace("id: a", "id: other")
    rules = load_rules({"common": COMMON, "bad": KIND.replace(old, new), "good": other})
    assert [kind.id for kind in rules.kinds] == ["other"]
    (told,) = rules.faults
    assert fault in told and re.match(r"bad\.yaml:\d+", told), told


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kinds: [", "not valid YAML"),
        ("- 1", "needs a mapping"),
        ("kinds: {}", "schema_version must be 2"),
        ("schema_version: 9\nkinds: []", "schema_version must be 2"),
        ("schema_version: 2\nkinds: {}", "kinds must be a list"),
        ("schema_version: 2\nkinds: [3]", "3 must be a mapping"),
        ("schema_version: 2\nextra: 1", "unknown fields ['extra']"),
        ("schema_version: 2\nkinds: [{id: a, signatures: []}]", "signatures must be a list"),
        (KIND + KIND.split("kinds:")[1], "a is given twice"),
    ],
)
def test_a_faulty_file_is_refused_alone(text: str, fault: str) -> None:
    rules = load_rules({"common": COMMON, "bad": text, "good": KIND})
    assert fault in rules.faults[0] and rules.faults[0].startswith("bad.yaml")
    assert [kind.id for kind in rules.kinds] == ["a"]


@pytest.mark.parametrize(
    ("common", "fault"),
    [
        ("schema_version: 2", "markers must map"),
        ("schema_version: 2\nmarkers: {ready: up}", "markers must hold started"),
        (COMMON.replace("wrappers: [wrapped]", "wrappers: [1]"), "wrappers must be"),
        ("[", "not valid YAML"),
    ],
)
def test_without_markers_nothing_can_be_judged(common: str, fault: str) -> None:
    with pytest.raises(RulesError) as caught:
        load_rules({"common": common, "good": KIND})
    assert fault in str(caught.value)


def test_a_missing_file_is_told_and_the_rest_works() -> None:
    def read(name: str) -> str:
        if "cards" in name:
            raise FileNotFoundError("gone")
        return assets.read_text(name)

    rules = load_shipped(read)
    assert rules.faults == ("cards.yaml: gone",)
    assert rules.kind("gpu-lost-tdr") is None and rules.kind("port-in-use") is not None
    with pytest.raises(RulesError):
        load_rules({"cards": KIND})


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=200))
def test_no_text_breaks_the_loader(text: str) -> None:
    rules = load_rules({"common": COMMON, "fuzz": text, "good": KIND})
    assert [kind.id for kind in rules.kinds][-1] == "a"


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_no_damage_breaks_the_loader(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(KIND)))
    end = data.draw(st.integers(start, len(KIND)))
    damaged = KIND[:start] + data.draw(st.text(max_size=5)) + KIND[end:]
    rules = load_rules({"common": COMMON, "fuzz": damaged})
    assert len(rules.kinds) + len(rules.faults) >= 1 or "kinds" not in damaged or rules.kinds == ()


def test_the_shipped_files_are_whole() -> None:
    assert SHIPPED.faults == ()
    assert len({kind.source.split(":")[0] for kind in SHIPPED.kinds}) == len(RULE_FILES) - 1
    assert sum(kind.catalogued for kind in SHIPPED.kinds) == 120


def test_texts_are_sentences_for_people() -> None:
    for kind in SHIPPED.kinds:
        texts = {kind.text, kind.next_step}
        texts |= {t for s in kind.signatures for t in (s.text, s.next_step) if t}
        texts |= {v.next_step for v in kind.variants if v.next_step}
        for text in texts:
            assert text.endswith("."), (kind.id, text)
            assert text[0].isupper() or text.startswith(
                ("vLLM", "exllamav3", "tabbyAPI", "systemd", ".wslconfig", "config.yml")
            ), (kind.id, text)
            names = {name for _, name, _, _ in string.Formatter().parse(text) if name}
            assert all(name.isidentifier() for name in names)


def test_catalogued_kinds_offer_a_fix() -> None:
    for kind in SHIPPED.kinds:
        assert bool(kind.fixes) is kind.catalogued, kind.id


def test_look_alikes_name_kinds_that_exist() -> None:
    ids = {kind.id for kind in SHIPPED.kinds}
    for kind in SHIPPED.kinds:
        assert set(kind.unless) <= ids - {kind.id}, kind.id


def test_phrases_are_plain_text() -> None:
    """Blocks are searched with wide characters replaced."""
    for kind in SHIPPED.kinds:
        for signature in kind.signatures:
            phrases = (*signature.needles, *signature.present, *signature.absent)
            assert all(phrase.isascii() for phrase in phrases), kind.id


def test_no_rule_looks_at_times_ports_or_places() -> None:
    for kind in SHIPPED.kinds:
        for signature in kind.signatures:
            for pattern in (signature.match, signature.near, signature.excludes):
                if pattern is not None:
                    assert not re.search(r"\\d\\d:\\d\\d|pid=|\.(?:py|cu)\\?:\d", pattern.pattern)


EVIL = [
    *("a" * 6000, " " * 6000, "/" * 6000, "0" * 6000, "(" * 6000, "\\x" * 3000, "a." * 3000),
    *("' " * 3000, "-1 " * 2000, "Wsl/" * 1500, "x=" * 3000, "1/5 [0s/it]" * 500),
]


def test_no_expression_blows_up() -> None:
    """Every pattern against long runs, alone and behind the beginning of its own samples."""
    starts = {"": None} | {line[:30]: None for s in SAMPLES for line in s.lines[:1]}
    patterns = {
        p.pattern: p
        for kind in SHIPPED.kinds
        for s in kind.signatures
        for p in (s.match, s.near, s.not_near, s.excludes, s.exit)
        if p is not None
    }
    for pattern in patterns.values():
        begin = time.process_time()
        for evil in EVIL:
            pattern.search(evil)
        for head in list(starts)[::12]:
            pattern.search(head + EVIL[0])
            pattern.search(head + EVIL[1] + "!")
        spent = time.process_time() - begin
        assert spent < 0.5, f"{pattern.pattern}: {spent:.2f} s"


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
