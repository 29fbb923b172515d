"""The command line of ``wsl.exe``, and which program it is."""

from __future__ import annotations

import pytest

from twinrig.hosts.wsl.call import WslCall, wsl_environment
from twinrig.hosts.wsl.executable import OVERRIDE_VARIABLE, find_wsl

EXE = r"C:\Windows\System32\wsl.exe"
PACKAGE = r"C:\Program Files\WSL"


def test_the_call_holds_fixed_words_only() -> None:
    shell = ("--cd", "/", "--exec", "/bin/bash", "--noprofile", "--norc", "-s")
    call = WslCall(EXE, "Ubuntu-24.04")
    assert call.argv() == (EXE, "-d", "Ubuntu-24.04", *shell)
    assert call.argv(root=True) == (EXE, "-d", "Ubuntu-24.04", "-u", "root", *shell)
    assert call.argv(user="me_2.x-y") == (EXE, "-d", "Ubuntu-24.04", "-u", "me_2.x-y", *shell)
    assert call.argv(root=True, user="me") == call.argv(root=True)


@pytest.mark.parametrize(
    "name", ["", "a b", '"Ubuntu"', "Ubuntu;id", "日本", "-d", "--exec", "x" * 257]
)
def test_a_name_that_would_be_cut_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="distribution"):
        WslCall(EXE, name)


def test_the_longest_name_is_taken() -> None:
    assert WslCall(EXE, "x" * 256).distro == "x" * 256


@pytest.mark.parametrize("user", ["a b", "-u", '"me"', "Me", "0me", "m" * 65])
def test_a_user_that_would_be_cut_is_refused(user: str) -> None:
    with pytest.raises(ValueError, match="user"):
        WslCall(EXE, "Ubuntu").argv(user=user)


def test_nothing_is_handed_on_to_linux() -> None:
    made = wsl_environment({"PATH": "x", "WSLENV": "SECRET/u", "wslenv": "A", "WSL_UTF8": "0"})
    assert made == {"PATH": "x", "WSL_UTF8": "1", "WSL_DISABLE_WARNINGS": "1"}


def exists(*paths: str):
    return lambda path: path in paths


def test_the_package_comes_before_system32() -> None:
    own = rf"{PACKAGE}\wsl.exe"
    both = exists(own, EXE)
    for environ in ({}, {"SystemRoot": r"C:\Windows"}, {"SYSTEMROOT": r"C:\Windows"}):
        found = find_wsl(environ, platform="win32", package_folder=lambda: PACKAGE, exists=both)
        assert found == own
        assert find_wsl(environ, platform="win32", exists=both) == EXE
    gone = find_wsl({}, platform="win32", package_folder=lambda: PACKAGE, exists=exists(EXE))
    assert gone == EXE
    assert find_wsl({}, platform="win32", exists=exists()) is None
    other = find_wsl({"SystemRoot": r"D:\W"}, platform="win32", exists=lambda _: True)
    assert other == r"D:\W\System32\wsl.exe"


def test_elsewhere_only_the_override_names_one() -> None:
    assert find_wsl({}, platform="linux", exists=lambda _: True) is None
    environ = {OVERRIDE_VARIABLE: " /opt/wsl.exe "}
    assert find_wsl(environ, platform="linux", exists=exists("/opt/wsl.exe")) == "/opt/wsl.exe"
    assert find_wsl(environ, platform="linux", exists=exists()) is None
    assert find_wsl(environ, platform="win32", exists=exists("/opt/wsl.exe", EXE)) == "/opt/wsl.exe"


def test_a_folder_is_no_program(tmp_path) -> None:
    assert find_wsl({OVERRIDE_VARIABLE: str(tmp_path)}) is None
