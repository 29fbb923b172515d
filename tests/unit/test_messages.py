"""Sentences, their values, and what happens when a translation is broken or missing."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from hypothesis import given
from hypothesis import strategies as st

from twinrig import assets
from twinrig.messages import LANGUAGES, N_, Message, Translator, message


def catalogue(entries: dict[str, str]) -> bytes:
    """A compiled catalogue."""
    made = Catalog("ja")
    for msgid, text in entries.items():
        made.add(msgid, text)
    out = io.BytesIO()
    write_mo(out, made)
    return out.getvalue()


@pytest.fixture
def japanese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that Translator("ja") reads; tests write it."""
    path = tmp_path / "i18n" / "ja.mo"
    path.parent.mkdir()
    monkeypatch.setattr(assets, "_ROOTS", (tmp_path,))
    return path


def test_english_is_the_sentence_itself() -> None:
    assert Translator("en").text(N_("GPUs: {count}"), count=2) == "GPUs: 2"
    assert str(message("GPUs: {count}", count=2)) == "GPUs: 2"


def test_a_translation_is_used_and_its_fields_may_change_order(japanese: Path) -> None:
    japanese.write_bytes(catalogue({"{a} before {b}": "{b} の前に {a}"}))
    translator = Translator("ja")
    assert translator.language == "ja"
    assert translator.text(message("{a} before {b}", a=1, b=2)) == "2 の前に 1"


def test_a_missing_entry_is_english(japanese: Path) -> None:
    japanese.write_bytes(catalogue({"one": "一"}))
    assert Translator("ja").text("two {x}", x=3) == "two 3"


def test_messages_inside_messages_are_translated_first(japanese: Path) -> None:
    japanese.write_bytes(
        catalogue({"because {why}": "理由: {why}", "it is {state}": "{state} です"})
    )
    inner = message("it is {state}", state=message("on"))
    assert Translator("ja").text(message("because {why}", why=inner)) == "理由: on です"


@pytest.mark.parametrize("broken", ["{", "{count", "{missing}", "{0}", "{count.x}", "{count!z}",
                                    "{count:x}{", "{count[0]}"])  # fmt: skip
def test_a_broken_translation_falls_back_to_english(japanese: Path, broken: str) -> None:
    japanese.write_bytes(catalogue({"GPUs: {count}": broken}))
    assert Translator("ja").text(message("GPUs: {count}", count=2)) == "GPUs: 2"


@pytest.mark.parametrize(
    ("sentence", "values", "text"),
    [
        ("{a} and {b}", {"a": 1}, "1 and {b}"),
        ("{a:.1f} W", {"a": None}, "None W"),
        ("set {a} in {x", {"a": 1}, "set 1 in {x"),
        ("{a.b}", {"a": 1}, "{a.b}"),
    ],
)
def test_a_broken_sentence_still_tells_what_it_can(
    sentence: str, values: dict[str, object], text: str
) -> None:
    shown = Translator("en").text(Message(sentence, values))
    assert shown == text or (sentence == "{a.b}" and shown == "1")


def test_without_values_braces_are_plain_text() -> None:
    assert Translator("en").text('write {"a": 1}') == 'write {"a": 1}'


def test_the_empty_sentence_is_not_the_header_of_the_catalogue(japanese: Path) -> None:
    japanese.write_bytes(catalogue({}))
    assert Translator("ja").text("") == ""


@pytest.mark.parametrize("content", [None, b"", b"\xde\x12", b"not a catalogue" * 9,
                                     catalogue({"a": "b"})[:-30]])  # fmt: skip
def test_a_missing_or_damaged_catalogue_leaves_english(
    japanese: Path, content: bytes | None
) -> None:
    if content is not None:
        japanese.write_bytes(content)
    translator = Translator("ja")
    assert translator.language == "en"
    assert translator.text("GPUs: {count}", count=2) == "GPUs: 2"


@pytest.mark.parametrize("language", ["xx", "", "JA", "../ja"])
def test_an_unknown_language_is_english(language: str) -> None:
    assert Translator(language).language == "en"


def test_the_shipped_catalogues_load() -> None:
    for language in LANGUAGES:
        assert Translator(language).language == language


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.builds(
        Message, st.text(), st.dictionaries(st.from_regex(r"[a-z]+", fullmatch=True), inner)
    ),
    max_leaves=6,
)


@given(st.text(), st.dictionaries(st.from_regex(r"[a-z]+", fullmatch=True), values))
def test_json_keeps_a_message_and_text_never_fails(msgid: str, params: dict[str, object]) -> None:
    made = Message(msgid, params)
    assert Message.from_json(made.to_json()) == made
    assert isinstance(str(made), str)


@pytest.mark.parametrize("data", [{}, {"params": {}}, {"msgid": "x", "params": 3}])
def test_damaged_json_is_an_error(data: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Message.from_json(data)
