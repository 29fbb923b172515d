"""What a restart would change: the running process beside what the form says."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from twinrig.domain.errors import HostError
from twinrig.domain.launch import FileSpec, LaunchSpec
from twinrig.domain.server import ServerState
from twinrig.messages import Translator, message
from twinrig.qt.viewmodels.launching import MASK, difference_text, launch_text, running_launch

SECRET = "planted-key-3fH"
EN = Translator("en")


def spec(context: int = 8192, **changes: object) -> LaunchSpec:
    from fixtures.supervision import make_spec

    return make_spec(
        argv=("/v/bin/vllm", "serve", "--config", "/run/main.yaml"),
        env={"NO_COLOR": "1", "VLLM_API_KEY": MASK},
        secret_env=("VLLM_API_KEY",),
        files=(FileSpec("/run/main.yaml", f"max-model-len: {context}\n"),),
        **changes,
    )


class Machine:
    """A running server as ``/proc`` and the disk tell it."""

    def __init__(self, state: ServerState | None = ServerState.READY, profile: str = "main"):
        record = SimpleNamespace(profile_id=profile, state=state, server_pid=7)
        self._record = None if state is None else record
        self.files: dict[str, bytes | None] = {
            "/proc/7/cmdline": b"/v/bin/vllm\0serve\0--config\0/run/main.yaml\0",
            "/proc/7/environ": f"HOME=/x\0NO_COLOR=1\0VLLM_API_KEY={SECRET}\0".encode(),
            "/run/main.yaml": b"max-model-len: 8192\n",
        }
        self.host = self
        self.controller = self

    async def active_record(self) -> SimpleNamespace | None:
        return self._record

    async def read_file(self, path: str) -> bytes | None:
        if path == "refuse":
            raise HostError(message("no"))
        return self.files.get(path)


async def difference(machine: Machine, wanted: LaunchSpec) -> str:
    running = await running_launch(machine, "main", (wanted,))  # type: ignore[arg-type]
    assert running is not None
    text = difference_text(running, (wanted,), EN)
    assert SECRET not in text and SECRET not in launch_text(running, EN)
    return text


async def test_the_same_settings_give_no_line() -> None:
    assert await difference(Machine(), spec()) == ""


async def test_each_changed_line_of_file_command_and_environment() -> None:
    machine = Machine()
    text = await difference(machine, spec(context=4096))
    assert "-max-model-len: 8192" in text and "+max-model-len: 4096" in text
    machine.files["/proc/7/cmdline"] = b"/old/bin/vllm\0serve\0--config\0/run/main.yaml\0"
    machine.files["/proc/7/environ"] = b"NO_COLOR=0\0"
    text = await difference(machine, spec())
    assert "-NO_COLOR=0" in text and "+NO_COLOR=1" in text
    assert "-/old/bin/vllm" in text and "+/v/bin/vllm" in text


async def test_a_file_that_is_gone_counts_as_empty() -> None:
    machine = Machine()
    del machine.files["/run/main.yaml"]
    assert "+max-model-len: 8192" in await difference(machine, spec())


@pytest.mark.parametrize(
    "machine",
    [Machine(None), Machine(ServerState.FAILED), Machine(profile="other")],
)
async def test_without_a_running_server_there_is_nothing_to_compare(machine: Machine) -> None:
    assert await running_launch(machine, "main", (spec(),)) is None  # type: ignore[arg-type]


async def test_a_process_that_may_not_be_looked_at_is_no_difference() -> None:
    machine = Machine()
    machine.files["/proc/7/cmdline"] = None
    assert await running_launch(machine, "main", (spec(),)) is None  # type: ignore[arg-type]

    async def refuse(_path: str) -> bytes:
        raise HostError(message("no"))

    machine.read_file = refuse  # type: ignore[method-assign]
    assert await running_launch(machine, "main", (spec(),)) is None  # type: ignore[arg-type]
