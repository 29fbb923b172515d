"""Opening a server to the network: never without a key, every step with its way back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinrig import assets
from twinrig.domain.errors import UsageError
from twinrig.domain.profile import EngineRef, ModelRef, Network, Profile
from twinrig.engines.registry import load_engines
from twinrig.services.lan import LanPlan, NetworkKind, plan_lan

ENGINES = load_engines(assets.read_text)
OPEN = Profile(
    "big", "Big", "local", EngineRef("vllm"), ModelRef("/m"), Network("0.0.0.0", 8000, "lan")
)


def plan(profile: Profile, kind: NetworkKind, vm: str = "172.20.1.5", *lan: str) -> LanPlan:
    return plan_lan(
        profile,
        ENGINES[profile.engine.id],
        kind,
        linux_address=vm,
        lan_addresses=lan or ("192.168.1.20",),
    )


def test_nat_needs_a_proxy_and_a_rule_and_both_can_be_taken_back() -> None:
    made = plan(OPEN, NetworkKind.NAT)
    assert made.urls == ("http://192.168.1.20:8000/v1",)
    assert [step.command for step in made.steps] == [
        "netsh interface portproxy add v4tov4 listenaddress=0.0.0.0 listenport=8000"
        " connectaddress=172.20.1.5 connectport=8000",
        'New-NetFirewallRule -Name "Twinrig big" -DisplayName "Twinrig big" -Direction Inbound'
        " -Action Allow -Protocol TCP -LocalPort 8000 -Profile Private -RemoteAddress LocalSubnet",
    ]
    assert [step.undo for step in made.steps] == [
        "netsh interface portproxy delete v4tov4 listenaddress=0.0.0.0 listenport=8000",
        'Remove-NetFirewallRule -Name "Twinrig big"',
    ]
    assert any("changes with each start" in str(note) for note in made.notes)


def test_mirrored_needs_only_the_rule_of_the_virtual_machine() -> None:
    (step,) = plan(OPEN, NetworkKind.MIRRORED).steps
    assert "New-NetFirewallHyperVRule" in step.command
    assert "{40E0AC32-46A5-438A-A0B2-2B479E8F2E90}" in step.command
    assert step.undo == 'Remove-NetFirewallHyperVRule -Name "Twinrig big"'


def test_native_linux_needs_nothing_of_windows() -> None:
    made = plan(OPEN, NetworkKind.NATIVE, "192.168.1.20", "192.168.1.20", "fd00::1")
    assert made.steps == ()
    assert made.urls == ("http://192.168.1.20:8000/v1", "http://[fd00::1]:8000/v1")


@pytest.mark.parametrize(
    ("engine", "open_path"),
    [("vllm", "/invocations"), ("vllm", "/metrics"), ("tabbyapi", "/health")],
)
def test_what_the_key_does_not_guard_is_named(engine: str, open_path: str) -> None:
    made = plan(replace(OPEN, engine=EngineRef(engine)), NetworkKind.NAT)
    assert open_path in made.unguarded
    assert not [path for path in made.unguarded if path.startswith("/v1")]


@pytest.mark.parametrize(
    "network", [Network("127.0.0.1", 8000, "lan"), Network("0.0.0.0", 8000), Network("localhost")]
)
def test_no_open_door_without_a_key(network: Network) -> None:
    with pytest.raises(UsageError) as caught:
        plan(replace(OPEN, network=network), NetworkKind.NAT)
    assert caught.value.next_step is not None


@pytest.mark.parametrize("address", ["", "1.2.3", "172.20.1.5; Remove-Item C:\\", "host"])
def test_nothing_but_an_address_gets_into_a_command(address: str) -> None:
    with pytest.raises(UsageError):
        plan(OPEN, NetworkKind.NAT, address)
    with pytest.raises(UsageError):
        plan(OPEN, NetworkKind.NAT, "172.20.1.5", address)
    with pytest.raises(UsageError):
        plan(replace(OPEN, id=f"x{address} y"), NetworkKind.NAT)
