"""Who is signed in and in which language: told by numbers."""

from __future__ import annotations

import pytest

from twinrig.domain.errors import HostError
from twinrig.hosts.windows.ui_language import code_of, ui_language
from twinrig.hosts.windows.user_sid import user_sid

SID = "S-1-5-21-1111-2222-3333-1001"


@pytest.mark.parametrize("given", [SID, f"  {SID}\n", "S-1-12-1-5"])
def test_the_user_is_told_by_number(given: str) -> None:
    assert user_sid({"TWINRIG_USER_SID": given}) == given.strip()


@pytest.mark.parametrize("given", ["me", "", "S-1-5", "S-1-5-x", f"{SID} & calc", "山田"])
def test_what_is_no_number_is_nobody(given: str) -> None:
    with pytest.raises(HostError, match="who is signed in") as caught:
        user_sid({"TWINRIG_USER_SID": given})
    assert "Sign out of Windows" in str(caught.value.next_step)


def test_nobody_is_signed_in_outside_windows() -> None:
    with pytest.raises(HostError):
        user_sid({})


@pytest.mark.parametrize(
    ("number", "code"),
    [(0x0409, "en"), (0x0809, "en"), (0x0411, "ja"), (0x0407, ""), (0x040C, ""), (0, "")],
)
def test_languages_by_the_numbers_of_windows(number: int, code: str) -> None:
    """The upper bits are the region: British English is English."""
    assert code_of(number) == code


def test_only_windows_tells_its_language() -> None:
    assert ui_language() == ""
