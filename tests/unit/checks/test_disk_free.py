from __future__ import annotations

import pytest

from fixtures.standard_machine import DISK, answer, facts, missing_program, on_linux, timed_out
from twinrig.checks.disk_facts import parse_df
from twinrig.checks.disk_free import CHECK
from twinrig.domain.checks import Status

HEAD = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n"


def disk(*, home: int = 50_000_000, temporary: int = 50_000_000, model: int = 50_000_000) -> str:
    rows = {"model": (model, "/models"), "home": (home, "/home"), "temporary": (temporary, "/tmp")}
    return "".join(
        f"disk {label}\n{HEAD}/dev/x 99999999 1 {free} 1% {mount}\n"
        for label, (free, mount) in rows.items()
    )


def test_healthy_disk_passes() -> None:
    result = CHECK.judge(facts())

    assert result.status is Status.PASS
    assert str(result.summary) == "Free on /: 669.5 GiB"


@pytest.mark.parametrize(
    ("places", "status", "mount"),
    [
        ({"home": 1048575}, Status.FAIL, "/home"),
        ({"home": 1048576}, Status.WARN, "/home"),
        ({"home": 5242879}, Status.WARN, "/home"),
        ({"home": 5242880}, Status.PASS, ""),
        ({"temporary": 262143}, Status.FAIL, "/tmp"),
        ({"temporary": 262144}, Status.WARN, "/tmp"),
        ({"temporary": 0, "home": 2_000_000}, Status.FAIL, "/tmp"),
        ({"model": 0}, Status.PASS, ""),
    ],
)
def test_limits(places: dict[str, int], status: Status, mount: str) -> None:
    result = CHECK.judge(facts(answer("disk", disk(**places))))

    assert result.status is status
    if status is not Status.PASS:
        assert result.finding is not None
        assert result.finding.id == "disk-full"
        assert result.finding.param("mount") == mount


def test_fixes_of_wsl_are_offered_in_wsl_only() -> None:
    full = answer("disk", disk(home=10))

    in_wsl, on_bare = CHECK.judge(facts(full)).finding, CHECK.judge(on_linux(full)).finding

    assert in_wsl is not None and on_bare is not None
    assert in_wsl.fixes == ("free-disk", "wsl-resize-vhd")
    assert on_bare.fixes == ("free-disk",)


def test_works_without_a_profile() -> None:
    assert not CHECK.needs_profile
    assert CHECK.requires == ()


def test_names_with_spaces_are_read() -> None:
    text = f"disk home\n{HEAD}//server/my share 1000 10 990 1% /mnt/my share\n"

    (place,) = parse_df(text)
    assert (place.device, place.mount) == ("//server/my share", "/mnt/my share")
    assert place.available_bytes == 990 * 1024


@pytest.mark.parametrize("make", [timed_out, missing_program])
def test_no_answer_is_an_error(make: object) -> None:
    assert CHECK.judge(facts(make("disk"))).status is Status.ERROR  # type: ignore[operator]


@pytest.mark.parametrize(
    "text", ["", "ファイルシス 使用中\n", DISK.replace("disk home", "disk hoem")]
)
def test_garbage_is_an_error(text: str) -> None:
    result = CHECK.judge(facts(answer("disk", text)))

    assert (result.status, result.finding) == (Status.ERROR, None)
