"""What is told when a server has replied: once a start, and a fault of that harms nothing."""

from __future__ import annotations

from dataclasses import replace

from fixtures.supervision import write_desired
from twinrig.domain.ports import ExitStatus
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import Desired


async def test_it_is_told_after_the_reply_and_only_then(rig):
    told = []
    rig.parts = replace(rig.parts, proven=lambda: told.append(rig.seen[-1]))
    rig.start()
    await rig.until_state(ServerState.READY)
    write_desired(rig.layout, Desired.STOPPED, "end")
    assert await rig.end() == 0
    assert told == [ServerState.READY]


async def test_a_server_that_never_replied_proves_nothing(rig):
    told = []
    rig.parts = replace(rig.parts, proven=lambda: told.append(1))
    rig.launcher.on_launch = lambda server, output: server.end(ExitStatus(1))
    write_desired(rig.layout, Desired.RUNNING, "start")
    rig.start()
    await rig.until_state(ServerState.BACKOFF)
    write_desired(rig.layout, Desired.STOPPED, "end")
    await rig.end()
    assert told == []


async def test_a_full_disk_does_not_end_the_server(rig):
    def full():
        raise OSError(28, "No space left on device")

    rig.parts = replace(rig.parts, proven=full)
    rig.start()
    await rig.until_state(ServerState.READY)
    assert "cannot be kept" in rig.layout.supervisor_log("main").read_text()
    write_desired(rig.layout, Desired.STOPPED, "end")
    assert await rig.end() == 0
