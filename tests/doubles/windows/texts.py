"""What ``wsl.exe`` says, in the languages it speaks. Paths of errors are never translated."""

from __future__ import annotations

TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "nag": "A new version of Windows Subsystem for Linux is available. Run: wsl --update",
        "status": "Default Distribution: {name}\nDefault Version: 2",
        "head": "  {name}STATE           VERSION",
        "none_running": "There are no running distributions.",
        "no_distros": "Windows Subsystem for Linux has no installed distributions.",
        "plain_head": "Windows Subsystem for Linux Distributions:",
        "default": " (Default)",
        "code": "Error code: ",
        "done": "The operation completed successfully.",
        "DISTRO_NOT_FOUND": "There is no distribution with the supplied name.",
        "USER_NOT_FOUND": "User not found.",
        "E_UNEXPECTED": "Catastrophic failure",
        "E_INVALIDARG": "The parameter is incorrect.",
        "VMP": "WSL2 is not supported with your current machine configuration.",
        "ILLEGAL": "The operation could not be started because the distribution is busy.",
        "usage": "Copyright (c) Microsoft Corporation. All rights reserved.\n\n"
        "Usage: wsl.exe [Argument]",
        "version": "WSL version: {v}\nKernel version: 6.6.87.2-1\nWSLg version: 1.0.66\n"
        "MSRDC version: 1.2.6074\nDirect3D version: 1.611.1-81528511\n"
        "DXCore version: 10.0.26100.1-240331-1435.ge-release\nWindows version: 10.0.26100.4061",
        "warning": "wsl: Processing /etc/fstab with mount -a failed.",
    },
    "ja": {
        "nag": "Linux 用 Windows サブシステムの新しいバージョンが利用可能です。",
        "status": "既定のディストリビューション: {name}\n既定のバージョン: 2",
        "head": "  {name}STATE           VERSION",
        "none_running": "実行中のディストリビューションはありません。",
        "no_distros": "Linux 用 Windows サブシステムには"
        "インストールされたディストリビューションはありません。",
        "plain_head": "Linux 用 Windows サブシステム ディストリビューション:",
        "default": " (既定値)",
        "code": "エラー コード: ",
        "done": "この操作を正しく終了しました。",
        "DISTRO_NOT_FOUND": "指定された名前のディストリビューションはありません。",
        "USER_NOT_FOUND": "ユーザーが見つかりません。",
        "E_UNEXPECTED": "エラーを特定できません",
        "E_INVALIDARG": "パラメーターが間違っています。",
        "VMP": "お使いのコンピューターの構成では WSL2 はサポートされていません。",
        "ILLEGAL": "ディストリビューションは使用中です。",
        "usage": "使用法: wsl.exe [引数]",
        "version": "WSL バージョン: {v}\nカーネル バージョン: 6.6.87.2-1\nWSLg バージョン: 1.0.66\n"
        "MSRDC バージョン: 1.2.6074\nDirect3D バージョン: 1.611.1-81528511\n"
        "DXCore バージョン: 10.0.26100.1\nWindows バージョン: 10.0.26100.4061",
        "warning": "wsl: mount -a を使用した /etc/fstab の処理に失敗しました。",
    },
    "de": {
        "nag": "Eine neue Version des Windows-Subsystems für Linux ist verfügbar.",
        "status": "Standardverteilung: {name}\nStandardversion: 2",
        "head": "  {name}STATE           VERSION",
        "none_running": "Es werden keine Verteilungen ausgeführt.",
        "no_distros": "Für das Windows-Subsystem für Linux sind keine Distributionen installiert.",
        "plain_head": "Windows-Subsystem für Linux-Distributionen:",
        "default": " (Standard)",
        "code": "Fehlercode: ",
        "done": "Der Vorgang wurde erfolgreich beendet.",
        "DISTRO_NOT_FOUND": "Es ist keine Distribution mit dem angegebenen Namen vorhanden.",
        "USER_NOT_FOUND": "Der Benutzer wurde nicht gefunden.",
        "E_UNEXPECTED": "Schwerwiegender Fehler",
        "E_INVALIDARG": "Falscher Parameter.",
        "VMP": "WSL2 wird von der aktuellen Computerkonfiguration nicht unterstützt.",
        "ILLEGAL": "Die Distribution ist beschäftigt.",
        "usage": "Verwendung: wsl.exe [Argument]",
        "version": "WSL-Version: {v}\nKernelversion: 6.6.87.2-1\nWSLg-Version: 1.0.66\n"
        "MSRDC-Version: 1.2.6074\nDirect3D-Version: 1.611.1-81528511\n"
        "DXCore-Version: 10.0.26100.1\nWindows-Version: 10.0.26100.4061",
        "warning": "wsl: Fehler beim Verarbeiten von /etc/fstab.",
    },
}
"""``inbox`` builds translate the head and the states of ``--list --verbose`` too."""

INBOX_STATES = {"Running": "実行中", "Stopped": "停止", "Installing": "インストール中"}
INBOX_HEAD = "  {name}状態            バージョン"
