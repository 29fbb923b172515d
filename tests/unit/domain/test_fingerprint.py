from __future__ import annotations

from twinrig.domain.fingerprint import changed, from_text, to_text

VERSIONS = {"driver": "596.36", "kernel": "6.6.114.1-microsoft-standard-WSL2", "nccl": "2.28.9"}


def test_round_trip_within_a_sentence() -> None:
    text = f"NCCL experiment, settings V2: 5000 MB/s {to_text(VERSIONS)}"
    assert from_text(text) == VERSIONS


def test_unknown_versions_are_left_out() -> None:
    assert to_text({"driver": "", "torch": "2.13.0+cu130"}) == "[torch 2.13.0+cu130]"


def test_text_without_versions() -> None:
    for text in ("", "words", "[half", "[a b c]", "[] words"):
        assert from_text(text) == {}


def test_only_what_is_known_of_both_times_can_differ() -> None:
    now = {"driver": "600.1", "kernel": "", "nccl": "2.28.9", "torch": "2.14"}
    assert changed(VERSIONS, now) == {"driver": ("596.36", "600.1")}
    assert changed(VERSIONS, VERSIONS) == {}
