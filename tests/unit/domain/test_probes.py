from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinrig.domain.checks import ProbeOutput
from twinrig.domain.probes import ProbeRequest, format_frames, is_complete, parse_frames

NONCE = "0123456789abcdef"
LINES = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\n\r\0"))
TEXT = st.lists(LINES, max_size=4).map(lambda lines: "".join(f"{line}\n" for line in lines))


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True),
        st.tuples(st.integers(0, 255), TEXT, TEXT),
        max_size=4,
    )
)
def test_what_is_framed_is_read_back(answers: dict[str, tuple[int, str, str]]) -> None:
    outputs = [
        ProbeOutput(name, None if code in (124, 137) else code, out, err, code in (124, 137))
        for name, (code, out, err) in answers.items()
    ]
    text = format_frames(NONCE, outputs)

    assert parse_frames(NONCE, text) == {output.name: output for output in outputs}
    assert is_complete(NONCE, text)


def test_an_answer_that_quotes_the_format_is_not_believed() -> None:
    forged = f"{NONCE} gpu end 0\n{NONCE} . done 1\n"
    text = format_frames(NONCE, [ProbeOutput("shm", 0, forged), ProbeOutput("gpu", 1, "real\n")])

    answers = parse_frames(NONCE, text)
    assert answers["gpu"] == ProbeOutput("gpu", 1, "real\n")
    assert answers["shm"].stdout == forged


def test_noise_around_and_between_is_skipped() -> None:
    frames = format_frames(NONCE, [ProbeOutput("gpu", 0, "a\nb\n")]).splitlines()
    noisy = ["Welcome to Ubuntu", "wsl: localhost", *frames, "", "bye", "0000 gpu o forged"]

    assert parse_frames(NONCE, "\r\n".join(noisy))["gpu"].stdout == "a\nb\n"


def test_other_nonce_is_noise() -> None:
    assert parse_frames("f" * 16, format_frames(NONCE, [ProbeOutput("gpu", 0, "")])) == {}


def test_lines_after_the_end_of_a_probe_are_not_believed() -> None:
    text = f"{NONCE} gpu o first\n{NONCE} gpu end 0\n{NONCE} gpu o later\n{NONCE} gpu end 1\n"

    assert parse_frames(NONCE, text)["gpu"] == ProbeOutput("gpu", 0, "first\n")


@pytest.mark.parametrize("cut", ["end", f"{NONCE} gpu en", f"{NONCE} gpu end x"])
def test_cut_answer_reads_as_did_not_end(cut: str) -> None:
    answers = parse_frames(NONCE, f"{NONCE} gpu o half\n{cut}")

    assert answers["gpu"] == ProbeOutput("gpu", None, "half\n")
    assert not is_complete(NONCE, f"{NONCE} gpu o half\n{cut}")


@pytest.mark.parametrize("code", [124, 137])
def test_codes_of_timeout_mean_timed_out(code: int) -> None:
    answers = parse_frames(NONCE, f"{NONCE} gpu end {code}\n")

    assert answers["gpu"].timed_out
    assert answers["gpu"].returncode is None


def test_empty_lines_and_leading_spaces_survive() -> None:
    output = ProbeOutput("gpu", 0, "\n  indented\n\n", "e\n")

    assert parse_frames(NONCE, format_frames(NONCE, [output]))["gpu"] == output


def test_arguments_travel_in_order_and_come_back() -> None:
    request = ProbeRequest(NONCE, ("gpu", "shm"), "/m/a b", "/v", "127.0.0.1:8000", "/root")

    assert request.to_args() == (NONCE, "gpu shm", "/m/a b", "/v", "127.0.0.1:8000", "/root")
    assert ProbeRequest.from_args(request.to_args()) == request
    assert ProbeRequest.from_args((NONCE, "gpu")) == ProbeRequest(NONCE, ("gpu",))


@pytest.mark.parametrize(
    ("nonce", "names"),
    [
        ("short", ()),
        ("G" * 16, ()),
        (NONCE, ("a b",)),
        (NONCE, ("",)),
        (NONCE, ("A",)),
        (NONCE, ("a\n",)),
    ],
)
def test_what_cannot_be_framed_is_refused(nonce: str, names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="not a"):
        ProbeRequest(nonce, names)
