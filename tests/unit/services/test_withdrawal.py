"""What stays behind when Twinrig is taken back is told, and hinders nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.controller_rig import Rig
from twinrig.domain.errors import ConflictError, HostError
from twinrig.messages import Message, message
from twinrig.services.withdrawal import Withdrawal


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def entry(name: str, at_s: float, can_undo: bool = True) -> Any:
    return SimpleNamespace(id=name, at_s=at_s, can_undo=can_undo, title=Message(name))


@dataclass
class FakeFixer:
    refused: tuple[str, ...] = ()
    undone: list[str] = field(default_factory=list)

    async def undo(self, entry_id: str) -> None:
        if entry_id in self.refused:
            raise ConflictError(message("The file was changed since."))
        self.undone.append(entry_id)


def bench_of(entries: list[Any], fixer: FakeFixer, problem: Message | None = None) -> Any:
    journal = SimpleNamespace(entries=lambda: entries, problem=lambda: problem)
    return SimpleNamespace(journal=journal, fixer=fixer)


async def test_changes_go_newest_first_and_one_that_resists_hinders_no_other() -> None:
    fixer = FakeFixer(refused=("second",))
    entries = [entry("first", 1), entry("third", 3), entry("second", 2), entry("gone", 4, False)]
    told: list[Message] = []
    left = await Withdrawal(bench_of(entries, fixer), told.append).undo_changes()
    assert fixer.undone == ["third", "first"]
    assert ["second" in str(text) and "changed since" in str(text) for text in left] == [True]
    assert len(told) == 2


async def test_a_journal_that_cannot_be_read_whole_is_told() -> None:
    bench = bench_of([], FakeFixer(), message("Line 3 is damaged."))
    assert await Withdrawal(bench, print).undo_changes() == (message("Line 3 is damaged."),)


async def test_tasks_of_deleted_profiles_go_too(rig: Rig) -> None:
    (rig.layout.root / "servers" / "deleted-since").mkdir(parents=True)
    withdrawal = Withdrawal(SimpleNamespace(controller=rig.controller), print)  # type: ignore[arg-type]
    assert await withdrawal.unregister() == ()
    assert rig.manager.unregistered == [("deleted-since", "one", "two")]
    rig.manager.resisting = ("\\Twinrig\\server-one-1001",)
    (left,) = await withdrawal.unregister()
    assert "server-one-1001" in str(left)


async def test_a_scheduler_that_does_not_answer_is_told(rig: Rig) -> None:
    async def away(_ids: object) -> tuple[str, ...]:
        raise HostError(message("The Task Scheduler of Windows does not answer."))

    rig.manager.unregister_all = away  # type: ignore[method-assign]
    withdrawal = Withdrawal(SimpleNamespace(controller=rig.controller), print)  # type: ignore[arg-type]
    assert await withdrawal.unregister() == (
        message("The Task Scheduler of Windows does not answer."),
    )


async def test_a_server_that_does_not_stop_is_told(rig: Rig) -> None:
    await rig.controller.start("one", "panel")
    withdrawal = Withdrawal(SimpleNamespace(controller=rig.controller), print)  # type: ignore[arg-type]
    (left,) = await withdrawal.stop_server()
    assert "did not get there in time" in str(left)


async def test_only_keys_of_this_target_are_forgotten() -> None:
    deleted: list[str] = []

    async def delete(name: str) -> None:
        deleted.append(name)

    def profile(target: str, key: str | None) -> Any:
        return SimpleNamespace(target=target, network=SimpleNamespace(key_name=key))

    listing = (profile("wsl", "b"), profile("wsl", "a"), profile("wsl", None), profile("demo", "c"))
    bench: Any = SimpleNamespace(
        target="wsl",
        profiles=SimpleNamespace(list=lambda: SimpleNamespace(profiles=listing)),
        secrets=SimpleNamespace(delete=delete),
    )
    assert await Withdrawal(bench, print).forget_keys() == ()
    assert deleted == ["a", "b"]
