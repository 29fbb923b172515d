"""Text of Windows programs in the encodings that were seen."""

from __future__ import annotations

import pytest

from twinrig.hosts.wsl.decoding import decode_own, error_symbol

NONE_RUNNING = "実行中のディストリビューションはありません。"
LISTED = "  NAME      STATE           VERSION\r\n* Ubuntu    Running         2\r\n"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (LISTED.encode("utf-16-le"), LISTED.replace("\r\n", "\n")),
        (LISTED.encode(), LISTED.replace("\r\n", "\n")),
        (b"\xff\xfe" + "é\r\n".encode("utf-16-le"), "é\n"),
        (b"\xef\xbb\xbf" + "é\r\n".encode(), "é\n"),
        # Japanese UTF-16 has hardly a zero byte, but its line ends have.
        (f"{NONE_RUNNING}\r\n".encode("utf-16-le"), f"{NONE_RUNNING}\n"),
        (NONE_RUNNING.encode("utf-16-le"), NONE_RUNNING),
        (f"{NONE_RUNNING}\r\n".encode(), f"{NONE_RUNNING}\n"),
        ("Ubuntu".encode("utf-16-le"), "Ubuntu"),
        ("Für das".encode("utf-16-le"), "Für das"),
        (b"", ""),
        (b"a", "a"),
        (b"\0", ""),
        (b"a\0b\0", "ab"),
        (b"plain\n", "plain\n"),
    ],
)
def test_what_windows_writes(data: bytes, text: str) -> None:
    assert decode_own(data) == text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("cp932", "成功: スケジュール"),
        ("cp850", "Zugriff für Öffentlich verweigert"),
        ("cp437", "é"),
    ],
)
def test_a_code_page_when_nothing_else_fits(page: str, text: str) -> None:
    assert decode_own(text.encode(page), page) == text


def test_a_code_page_of_even_length_is_not_taken_for_utf16() -> None:
    data = "エラー: アクセス".encode("cp932")
    assert len(data) % 2 == 0
    assert decode_own(data, "cp932") == "エラー: アクセス"


def test_western_text_that_was_cut_in_the_middle_of_a_letter() -> None:
    data = "Für das".encode("utf-16-le")
    assert decode_own(data[:-1]).startswith("Für da")
    assert decode_own(data[:-2]) == "Für da"
    # Few zero bytes make no UTF-16: this is a code page with one by chance.
    few = "Größe, größer, am größten".encode("cp850") + b"\0"
    assert decode_own(few, "cp850") == "Größe, größer, am größten"


def test_bytes_that_are_nothing_at_all_do_not_raise() -> None:
    assert decode_own(bytes(range(128, 256))) != ""
    assert decode_own(b"\xff\xfe\x00", "cp932") is not None
    assert "\ufffd" in decode_own(b"\xef\xbb\xbf\xff")


def test_one_stream_with_both() -> None:
    """Windows' warning in UTF-16 and the one of Linux in UTF-8 share standard error."""
    windows = "wsl: mount -a を使用した処理に失敗しました。\r\n"
    linux = "wsl: Failed to mount D:\\, 詳細は dmesg\n"
    for order in ((windows, linux), (linux, windows), (linux, linux, windows, windows)):
        data = b"".join(t.encode("utf-16-le") if t is windows else t.encode() for t in order)
        assert decode_own(data) == "".join(order).replace("\r\n", "\n")
    tail = windows.encode("utf-16-le") + "Ubuntu".encode("utf-16-le")
    assert decode_own(tail) == windows.replace("\r\n", "\n") + "Ubuntu"


@pytest.mark.parametrize("size", range(1, 40))
def test_a_stream_cut_anywhere_is_read_as_far_as_it_goes(size: int) -> None:
    data = LISTED.encode("utf-16-le")[:size]
    assert decode_own(data).rstrip("\r\n")[: size // 2] == LISTED[: size // 2].rstrip("\r\n")


@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        ("Error code: Wsl/Service/WSL_E_DISTRO_NOT_FOUND\n", "WSL_E_DISTRO_NOT_FOUND"),
        ("エラー コード: Wsl/Service/CreateInstance/CreateVm/HCS/0x80370102\n", "0x80370102"),
        ("Fehlercode: Wsl/E_INVALIDARG", "E_INVALIDARG"),
        ("Wslg/Service/E_FAIL then Wsl/0x8000ffff", "0x8000ffff"),
        ("Bash/Service/WSL_E_X1", "WSL_E_X1"),
        ("", ""),
        ("Wsl/Service/", ""),
        ("see https://aka.ms/wsl/E_NO", ""),
        ("MyWsl/E_NO", ""),
        ("Wsl/Service/lowercase", ""),
    ],
)
def test_the_path_of_an_error(text: str, symbol: str) -> None:
    assert error_symbol(text) == symbol
