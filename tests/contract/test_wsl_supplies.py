"""Set-ups and downloads through ``wsl.exe``: steps, lines as they come, return codes, requests."""

from __future__ import annotations

import pytest

from contract.conftest import Machine
from fixtures.hub_double import HubDouble, Repo, tiny
from twinrig import assets
from twinrig.hosts.secrets import KeyringSecrets
from twinrig.services.hub import PROGRAM, TABLE, Hub, ModelName, parse_table
from twinrig.services.hub_words import TOKEN_NAME
from twinrig.services.setup_script import SCRIPT, SetupScript
from twinrig.services.setup_words import SetupProgress, SetupStep


async def test_steps_of_a_set_up_and_their_codes(machine: Machine, marker: str) -> None:
    script = SetupScript(machine.host(), assets.read_text(SCRIPT), f"{marker}/vllm")
    look = await script.look()
    assert look.free_bytes > 0
    assert (look.current, look.partial, look.wheels_bytes) == ("", (), 0)
    told: list[SetupProgress] = []
    assert machine.sh(f"mkdir -p {marker}/vllm/wheels").code == 0
    words = ("vllm==0.33.0", "a 'quoted' $word")
    code, _said = await script.follow(SetupStep.FETCH, "require", "env-1", *words, tell=told.append)
    assert code == 0
    kept = machine.sh(f"cat {marker}/vllm/wheels/requirements.txt")
    assert kept.out.decode() == "vllm==0.33.0\na 'quoted' $word\n"
    code, said = await script.follow(SetupStep.INSTALL, "install", "env-1", tell=told.append)
    assert code not in (0, None), "there is no environment yet"
    assert "env-1" in said
    await script.clean(keep_wheels=False)
    assert machine.sh(f"ls {marker}/vllm").out == b""


async def test_a_download_and_its_token(machine: Machine, marker: str) -> None:
    if machine.real:
        pytest.skip("a hub of this computer is not reached from a real WSL")
    double = HubDouble()
    double.repos["org/tiny"] = Repo(tiny(), gated=True)
    secrets = KeyringSecrets({}, open_keyring=_no_keyring)
    await secrets.set(TOKEN_NAME, double.token)

    async def python() -> str:
        return "python3"

    with double.serving():
        hub = Hub(
            machine.host(),
            secrets,
            parse_table(assets.read_text(TABLE)),
            assets.read_text(PROGRAM),
            python,
            double.url,
        )
        told = []
        path = await hub.download(ModelName("org/tiny"), told.append, marker)
    assert path == f"{marker}/org/tiny"
    assert told[-1].done_bytes == told[-1].total_bytes > 0
    assert machine.sh(f"ls {path}").out.split() == [
        b"README.md",
        b"config.json",
        b"model.safetensors",
        b"tokenizer.json",
    ]
    asked = str(machine.store.calls())
    assert marker in asked or "python3" in asked or "bash" in asked
    assert double.token not in asked, "no command line of wsl.exe held the token"


def _no_keyring() -> object:
    raise ImportError
