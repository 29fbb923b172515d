"""Fixes of the Windows side through preview, apply, proof, journal and undo."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fixtures.fixer_rig import FIXES, Finder, Store
from fixtures.memory_host import FakeClock, MemoryHost, host_error
from fixtures.standard_machine import ANSWERS, PROFILE, answer
from fixtures.standard_windows import CONFIG_PATH
from fixtures.windows_side import MemoryFiles, MemoryWindows, MemoryWsl, RecordingElevation
from twinrig.checks.registry import CHECKS
from twinrig.domain.checks import CheckResult, Finding, ProbeOutput, Status
from twinrig.domain.elevation import AdminAction, ElevationCancelledError
from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.fixes import FixPlan
from twinrig.domain.supervision import ServerRecord
from twinrig.domain.wsl_config import ConfigFile
from twinrig.messages import message
from twinrig.services.fixer import Fixer, FixOutcome
from twinrig.services.journal import Journal
from twinrig.services.preflight import Preflight
from twinrig.services.wsl_restart import WslRestart


class LiveWindows(MemoryWindows):
    """Tells what the double of the user's folder holds."""

    def __init__(self, files: MemoryFiles) -> None:
        super().__init__()
        self.files = files

    def answer(self, names: Sequence[str], endpoint: str = "") -> dict[str, ProbeOutput]:
        config = ConfigFile.of(CONFIG_PATH, self.files.files.get(CONFIG_PATH))
        self.answers["windows_wslconfig"] = config.to_json() + "\n"
        return dict(super().answer(names, endpoint))


class NoServer:
    """A target whose server does not run."""

    async def active_record(self) -> ServerRecord | None:
        return None


class Rig:
    def __init__(self, folder: Path, config: bytes | None = None) -> None:
        self.files = MemoryFiles({} if config is None else {CONFIG_PATH: config})
        self.windows = LiveWindows(self.files)
        self.wsl = MemoryWsl("Ubuntu-24.04", "docker-desktop")
        self.elevation = RecordingElevation()
        self.host = MemoryHost(lambda name: answer(name, ANSWERS[name]))
        clock = FakeClock()
        self.journal = Journal(folder / "journal.jsonl")
        self.preflight = Preflight(self.host, CHECKS, Finder(), clock, windows=self.windows)
        self.fixer = Fixer(
            self.host,
            Store(PROFILE),
            self.journal,
            self.preflight,
            FIXES,
            clock,
            "wsl",
            windows_files=self.files,
            elevation=self.elevation,
            wsl_restart=WslRestart(self.wsl, NoServer(), clock, ""),  # type: ignore[arg-type]
        )

    async def check(self, check_id: str) -> CheckResult:
        found = [r async for r in self.preflight.run(PROFILE, [check_id])]
        return found[0]

    async def plan(self, check_id: str) -> tuple[Finding, FixPlan]:
        finding = (await self.check(check_id)).finding
        assert finding is not None
        options = await self.fixer.options(finding, PROFILE)
        assert isinstance(options[0], FixPlan)
        return finding, options[0]

    async def apply(self, check_id: str) -> FixOutcome:
        finding, plan = await self.plan(check_id)
        return await self.fixer.apply(finding, plan, PROFILE)


TEXT = "# 私の設定\r\n[wsl2]\r\nmemory=8 gb\r\nvmIdleTimeout=-1\r\n"


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        ("\ufeff" + TEXT).encode(),
        ("\ufeff" + TEXT).encode("utf-16-le"),
        TEXT.replace("\r\n", "\n").rstrip().encode(),
    ],
    ids=["utf-8", "mark", "utf-16", "no last line end"],
)
@pytest.mark.parametrize("check_id", ["wslconfig", "wsl-idle"])
async def test_changed_proven_and_taken_back_to_the_byte(
    tmp_path: Path, data: bytes, check_id: str
) -> None:
    rig = Rig(tmp_path, data)
    outcome = await rig.apply(check_id)

    assert outcome.proven
    assert rig.files.files[CONFIG_PATH] != data
    assert rig.wsl.calls == ["shutdown"]
    assert (await rig.check(check_id)).status is Status.PASS

    await rig.fixer.undo(outcome.entry_id)
    assert rig.files.files[CONFIG_PATH] == data
    assert (await rig.check(check_id)).status is Status.WARN


async def test_the_preview_shows_lines_and_what_stops_and_changes_nothing(tmp_path: Path) -> None:
    data = ("\ufeff" + TEXT).encode("utf-16-le")
    rig = Rig(tmp_path, data)
    _, plan = await rig.plan("wslconfig")
    file, restart = (await rig.fixer.preview(plan)).steps

    assert "-memory=8 gb" in file.text and "+memory=8GB" in file.text
    assert "私の設定" in file.text
    assert restart.text.splitlines() == ["wsl --shutdown", "# stops: Ubuntu-24.04, docker-desktop"]
    assert rig.files.files[CONFIG_PATH] == data and rig.wsl.calls == []


async def test_a_file_that_changes_after_the_preview_is_left_alone(tmp_path: Path) -> None:
    rig = Rig(tmp_path, TEXT.encode())
    finding, plan = await rig.plan("wslconfig")
    rig.files.files[CONFIG_PATH] = b"[wsl2]\r\nmemory=9 gb\r\n"
    with pytest.raises(ConflictError):
        await rig.fixer.apply(finding, plan, PROFILE)

    assert rig.files.files[CONFIG_PATH] == b"[wsl2]\r\nmemory=9 gb\r\n"
    assert rig.wsl.calls == []


async def test_a_restart_that_fails_takes_the_file_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path, TEXT.encode())
    rig.wsl.error = host_error("WSL hangs")
    with pytest.raises(HostError):
        await rig.apply("wslconfig")

    assert rig.files.files[CONFIG_PATH] == TEXT.encode()


async def test_what_was_edited_since_is_not_taken_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path, TEXT.encode())
    outcome = await rig.apply("wslconfig")
    rig.files.files[CONFIG_PATH] += b"swap=1GB\r\n"
    with pytest.raises(ConflictError) as caught:
        await rig.fixer.undo(outcome.entry_id)

    assert "+swap=1GB" in str(caught.value.text)
    assert rig.files.files[CONFIG_PATH].endswith(b"swap=1GB\r\n")


def slow_card(rig: Rig) -> None:
    """TdrDelay as a value that only the double of the administrator changes."""
    rig.windows.answers["windows_graphics"] = "hags=on\ntdr_delay_s=1\n"

    def effect(action: AdminAction) -> None:
        seconds = dict(action.params).get("seconds")
        delay = f"tdr_delay_s={seconds}\n" if seconds else ""
        rig.windows.answers["windows_graphics"] = f"hags=on\n{delay}"

    rig.elevation.effect = effect


async def test_an_administrators_step_is_proven_and_taken_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    slow_card(rig)
    outcome = await rig.apply("tdr-delay")

    assert outcome.proven
    await rig.fixer.undo(outcome.entry_id)
    assert [action.to_words() for action in rig.elevation.actions] == [
        ("set-tdr-delay", "seconds=10"),
        ("set-tdr-delay", "seconds=1"),
    ]
    assert (await rig.check("tdr-delay")).status is Status.WARN


async def test_no_at_the_question_of_windows_leaves_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    slow_card(rig)
    rig.elevation.error = ElevationCancelledError(message("You did not allow it."))
    with pytest.raises(HostError) as caught:
        await rig.apply("tdr-delay")

    assert "You did not allow it" in str(caught.value.text)
    assert "Nothing is left of it" in str(caught.value.text)
    assert rig.elevation.actions == []
    assert rig.elevation.asked == 1, "the user is not asked again for what was not done"
    assert not rig.journal.entries()[0].can_undo


async def test_the_commands_of_an_administrator_are_shown(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    slow_card(rig)
    _, plan = await rig.plan("tdr-delay")
    (step,) = (await rig.fixer.preview(plan)).steps

    assert step.text.splitlines() == [
        "reg add HKLM\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers /v TdrDelay /t "
        "REG_DWORD /d 10 /f",
        "# undo: reg add HKLM\\SYSTEM\\CurrentControlSet\\Control\\GraphicsDrivers /v TdrDelay /t "
        "REG_DWORD /d 1 /f",
    ]
    assert rig.elevation.asked == 0
