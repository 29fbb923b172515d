"""Opening a server to the network: never without a key, every step with its way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fixtures.memory_host import host_error
from fixtures.standard_machine import answer, facts, on_linux
from fixtures.standard_windows import WINDOWS_ANSWERS
from twinrig import assets
from twinrig.domain.checks import Facts
from twinrig.domain.errors import HostError, UsageError
from twinrig.domain.ports import HttpResponse
from twinrig.domain.profile import EngineRef, ModelRef, Network, Profile
from twinrig.engines.registry import load_engines
from twinrig.services.lan import LanAnswer, LanSharing

ENGINES = load_engines(assets.read_text)
CLOSED = Profile(
    "big", "Big", "wsl", EngineRef("vllm"), ModelRef("/m"), Network("127.0.0.1", 8000, "lan")
)
OPEN = replace(CLOSED, network=Network("0.0.0.0", 8000, "lan"))


class Source:
    def __init__(self, told: Facts | HostError) -> None:
        self.told = told

    async def facts(self, profile: Profile | None, names: Sequence[str]) -> Facts:
        if isinstance(self.told, HostError):
            raise self.told
        return replace(self.told, probes={n: self.told.probe(n) for n in names})


class Http:
    def __init__(self, status: int | None) -> None:
        self.status = status
        self.asked: list[tuple[str, str | None]] = []

    async def get(self, url: str, *, timeout_s: float, token: str | None = None) -> HttpResponse:
        self.asked.append((url, token))
        if self.status is None:
            raise host_error("nobody answers")
        return HttpResponse(self.status, b"")


def sharing(status: int | None = 401, told: Facts | HostError | None = None) -> LanSharing:
    return LanSharing(Source(told or facts()), Http(status), ENGINES)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("engine", "open_path"),
    [("vllm", "/invocations"), ("vllm", "/metrics"), ("tabbyapi", "/health")],
)
def test_what_the_key_does_not_guard_is_named(engine: str, open_path: str) -> None:
    wish = sharing().wish(replace(CLOSED, engine=EngineRef(engine)), share=True)

    assert open_path in wish.param("unguarded")
    assert "/v1" not in wish.param("unguarded")
    assert (wish.id, wish.fixes) == ("lan-closed", ("lan-open",))


def test_no_wish_without_a_key_but_an_end_always() -> None:
    bare = replace(OPEN, network=Network("0.0.0.0", 8000))
    with pytest.raises(UsageError) as caught:
        sharing().wish(bare, share=True)

    assert "--generate" in str(caught.value.next_step)
    assert sharing().wish(bare, share=False).fixes == ("lan-close",)


def test_the_demo_server_is_never_shared() -> None:
    with pytest.raises(UsageError):
        sharing().wish(replace(CLOSED, engine=EngineRef("demo")), share=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
async def test_a_server_for_this_computer_is_not_shared_and_nobody_is_asked(host: str) -> None:
    made = sharing(told=host_error("nobody may be asked"))
    state = await made.state(replace(CLOSED, network=Network(host, 8000, "lan")))

    assert (state.shared, state.urls, state.answer) == (False, (), None)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, LanAnswer.GUARDED),
        (403, LanAnswer.GUARDED),
        (200, LanAnswer.UNGUARDED),
        (503, LanAnswer.SILENT),
        (None, LanAnswer.SILENT),
    ],
)
async def test_it_is_asked_from_outside_and_without_the_key(
    status: int | None, expected: LanAnswer
) -> None:
    made = sharing(status)
    state = await made.state(OPEN)

    assert state.urls == ("http://192.168.1.20:8000/v1",)
    assert state.answer is expected
    assert "/metrics" in state.unguarded
    assert made._http.asked == [("http://192.168.1.20:8000/v1/models", None)]  # type: ignore[attr-defined]


async def test_without_windows_between_the_address_is_the_machines_own() -> None:
    told = on_linux(answer("address", "address 127.0.0.1\naddress fd00::5\naddress nonsense\n"))
    probes = {n: o for n, o in told.probes.items() if n not in WINDOWS_ANSWERS}
    state = await sharing(told=replace(told, probes=probes)).state(OPEN)

    assert state.urls == ("http://[fd00::5]:8000/v1",)


async def test_an_unknown_address_is_not_made_up() -> None:
    state = await sharing(told=host_error("no answer")).state(OPEN)
    assert (state.shared, state.urls, state.answer) == (True, (), None)
