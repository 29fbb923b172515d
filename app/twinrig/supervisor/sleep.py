"""Giving the memory of the cards back without ending the server, and taking it again."""

from __future__ import annotations

from twinrig.domain.errors import HostError
from twinrig.domain.launch import SleepWay
from twinrig.messages import Message, message
from twinrig.supervisor.health import Health
from twinrig.supervisor.readiness import Asker
from twinrig.supervisor.waiting import within


async def put_to_sleep(asker: Asker, way: SleepWay) -> Message | None:
    """None = it sleeps; else why it does not. A server that refuses goes on as before."""
    status = await _post(asker, way, way.sleep_path, way.sleep_timeout_s)
    if status is None:
        return message("The server did not answer when it was asked to free the cards.")
    if not 200 <= status < 300:
        return message("The server refused to free the cards (status {status}).", status=status)
    return None


async def wake_up(asker: Asker, way: SleepWay) -> Message | None:
    """None = it took its memory again, as far as it says; a reply has yet to prove it."""
    status = await _post(asker, way, way.wake_path, way.wake_timeout_s)
    if status is None or not 200 <= status < 300:
        return message("The server did not wake up.")
    return None


async def watch_asleep(asker: Asker) -> Message:
    """Looks until there is evidence that the process is dead. Nothing is asked of the model:
    a server that sleeps on purpose cannot reply, and is not ill for that."""
    clock, timing = asker.clock, asker.timing
    dead = 0
    while True:
        await clock.sleep(timing.watch_s)
        health = await asker.liveness(timing.request_timeout_s)
        dead = dead + 1 if health in (Health.SICK, Health.REFUSED) else 0
        if dead >= timing.restart_checks:
            return message(
                "The process lives, but its health check failed {count} times in a row.",
                count=dead,
            )


async def _post(asker: Asker, way: SleepWay, path: str, timeout_s: float) -> int | None:
    request = asker.http.post_json(
        asker.spec.endpoint.base_url + path,
        {},
        timeout_s=timeout_s,
        token=way.token or asker.spec.bearer_token,
    )

    async def answered() -> int:
        return (await request).status

    try:
        _done, status = await within(asker.clock, timeout_s, answered())
    except HostError:
        return None
    return status
