"""Newer versions: what is asked, what counts as newer, and that no failure gets through."""

from __future__ import annotations

import json

import pytest

from twinrig import assets
from twinrig.domain.errors import HostError
from twinrig.domain.ports import HttpResponse
from twinrig.messages import message
from twinrig.services.update_check import TABLE, check_for_update, release_address

ADDRESS = "https://releases.example/latest"


class Net:
    def __init__(
        self, status: int = 200, body: bytes = b"", error: Exception | None = None
    ) -> None:
        self.answer, self.error = HttpResponse(status, body), error
        self.asked: list[tuple[str, str | None]] = []

    async def get(self, url: str, *, timeout_s: float, token: str | None = None) -> HttpResponse:
        self.asked.append((url, token))
        if self.error is not None:
            raise self.error
        return self.answer


def told(**data: object) -> bytes:
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("body", "own", "newer"),
    [
        (told(tag_name="v0.10.0"), "0.9.0", "0.10.0"),
        (told(tag_name="v0.9.0"), "0.10.0", ""),
        (told(version="1.0.0"), "1.0.0", ""),
        (told(version="1.0.0"), "1.0.0rc1", "1.0.0"),
        (told(version="2.0.0rc1"), "1.0.0", ""),
        (told(tag_name="latest", version="1.1"), "1.0.0", "1.1"),
    ],
)
async def test_what_is_newer(body: bytes, own: str, newer: str) -> None:
    net = Net(body=body)
    answer = await check_for_update(net, ADDRESS, own)
    assert (answer.newer, answer.known) == (newer, True)
    assert net.asked == [(ADDRESS, None)], "nothing goes along"


@pytest.mark.parametrize(
    "net",
    [
        Net(error=HostError(message("Nobody answers."))),
        Net(status=404, body=told(version="9")),
        Net(body=b"<html>"),
        Net(body=b"[]"),
        Net(body=told(version="newest")),
        Net(body=told(version=9)),
        Net(body=b"\xff\xfe"),
    ],
)
async def test_a_failure_is_told_and_never_raised(net: Net) -> None:
    answer = await check_for_update(net, ADDRESS, "1.0.0")
    assert not answer.known and not answer.newer
    assert "reason" in answer.text.params


async def test_without_an_address_nobody_is_asked() -> None:
    net = Net()
    assert not (await check_for_update(net, "", "1.0.0")).known
    assert net.asked == []


def test_the_address_is_data_and_a_variable_goes_before_it() -> None:
    shipped = assets.read_text(TABLE)
    assert release_address(shipped) == "" or release_address(shipped).startswith("https://")
    assert release_address(shipped, f" {ADDRESS} ") == ADDRESS
    assert release_address('address: "https://a.example"') == "https://a.example"
    assert release_address("[]") == ""
