"""Nothing that identifies a person, a machine or an account stays in a report."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinrig.services.redaction import KEY, Redactor

SECRET = "Zq8rT1vXw9KpLm2n"
HEX = "deadbeefdeadbeefdeadbeefdeadbeef"


@pytest.mark.parametrize(
    "text",
    [
        f"Your API key is: {HEX}",
        f"2026-08-28 20:15:01.830 INFO:     Your admin key is:\n{HEX}\n2026-08-28 x",
        f"Oct 02 21:04:17 pc1 tabby[8]: Your API key is:\nOct 02 21:04:17 pc1 tabby[8]: {HEX}",
        f"Authorization: Bearer {SECRET}",
        f"curl -H 'authorization: bearer {SECRET}' x",
        f"HF_TOKEN=hf_{SECRET}",
        f"vllm serve x --api-key {SECRET} --port 8000",
        f"non-default args: {{'model': '/m', 'api_key': ['{SECRET}']}}",
        f"api_key: {SECRET}",
        f'{{"token": "{SECRET}"}}',
        f"x-api-key: {SECRET}",
        f"sk-{SECRET}",
        f"http://name:{SECRET}@proxy.example.com:8080",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
    ],
)
def test_keys_are_masked(text: str) -> None:
    masked = Redactor().redact(text)
    assert SECRET not in masked and HEX not in masked
    assert KEY in masked


def test_known_secrets_are_masked_wherever_they_stand() -> None:
    masked = Redactor([SECRET, "ab"]).redact(f"odd place{SECRET}here, ab stays")
    assert masked == f"odd place{KEY}here, ab stays"


@pytest.mark.parametrize(
    ("text", "lost", "kept"),
    [
        ("/home/taro/models/Qwen3", "taro", "/models/Qwen3"),
        ("/Users/Hanako/x", "Hanako", "/x"),
        (r"C:\Users\Hanako Y\AppData", "Hanako", "AppData"),
        (r"C:\\Users\\hanako\\AppData", "hanako", "AppData"),
        (r"type \\wsl$\Ubuntu\home\taro\server.log", "taro", "server.log"),
        ("taro@gamer-pc:~$ free -g", "taro", "free -g"),
        ("taro@gamer-pc:~$ free -g", "gamer-pc", "free -g"),
        ("Oct 02 21:04:17 gamer-pc vllm[812]: x", "gamer-pc", "vllm[812]: x"),
        ("2026-10-02T21:04:17+0200 gamer-pc vllm[812]: x", "gamer-pc", "vllm[812]: x"),
        ("GAMER-PC:44872:44872 [0] NCCL INFO x", "GAMER-PC", "NCCL INFO x"),
        ("Run As User:                          hobby", "hobby", "Run As User:"),
        ("Using eth0:172.21.131.59<0>", "172.21.131.59", "<0>"),
        ("mail me@example.org now", "me@example.org", "now"),
        ("GPU-12345678-1234-1234-1234-123456789abc", "12345678-1234", ""),
    ],
)
def test_names_and_places_are_masked(text: str, lost: str, kept: str) -> None:
    masked = Redactor().redact(text)
    assert lost not in masked and kept in masked and "<" in masked


@pytest.mark.parametrize(
    "text",
    [
        "Uvicorn running on http://127.0.0.1:5000 (Press CTRL+C to quit)",
        "('0.0.0.0', 8000): address already in use",
        "vLLM API server version 0.27.1",
        "exllamav3 1.4.2+cu128.torch2.9.0",
        "Processed 900 tokens at 2011.4 T/s",
        "ValueError: token length 5 is wrong",
        "/home/user/models",
        "CUDA error: an illegal memory access was encountered",
        "key: value pairs",
    ],
)
def test_what_helps_stays(text: str) -> None:
    assert Redactor().redact(text) == text


def test_one_name_keeps_one_mask() -> None:
    redactor = Redactor()
    text = redactor.redact("/home/taro/a and /home/jiro/b\ntaro said hello to jiro, not to tarot")
    first, second = text.split("\n")
    assert first == "/home/<user1>/a and /home/<user2>/b"
    assert second == "<user1> said hello to <user2>, not to tarot"
    assert redactor.redact("/home/jiro") == "/home/<user2>"


def test_given_names_are_masked() -> None:
    assert Redactor(names=["gamer-pc", "root", "me"]).redact("on gamer-pc as root me") == (
        "on <name1> as root me"
    )


@given(st.text(max_size=300))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    redactor = Redactor([SECRET], ["somebody"])
    once = redactor.redact(text)
    assert redactor.redact(once) == once or "<" in once
    assert SECRET not in once
