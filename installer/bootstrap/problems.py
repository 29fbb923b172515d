"""What can go wrong while setting up, each as one sentence with what to do next."""

from __future__ import annotations

import errno
from collections.abc import Iterable

_NETWORK = (
    "Temporary failure in name resolution",
    "Name or service not known",
    "Failed to establish a new connection",
    "getaddrinfo failed",
    "Connection refused",
    "Network is unreachable",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "Read timed out",
    "Cannot connect to proxy",
    "ProxyError",
    "No route to host",
    "RemoteDisconnected",
)
_CERTIFICATE = ("CERTIFICATE_VERIFY_FAILED", "SSLError", "SSLCertVerificationError")
_DISK = ("No space left on device", "Errno 28", "Disk quota exceeded", "Errno 122", "WinError 112")
_DENIED = ("Permission denied", "Read-only file system", "Errno 13", "Errno 30", "WinError 5]")
_HASH = ("DO NOT MATCH THE HASHES",)
_NO_WHEEL = ("No matching distribution found", "Could not find a version that satisfies")


class Problem(Exception):
    """An expected failure: what happened, and what to do next."""

    def __init__(self, text: str, next_step: str, code: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.next_step = next_step
        self.code = code


def disk_full(folder: str) -> Problem:
    """The disk of ``folder`` is full."""
    return Problem(
        f"There is not enough free space on the disk of {folder}; Twinrig needs about 500 MB.",
        "Free some space and start again; what was downloaded is kept.",
    )


def not_writable(folder: str) -> Problem:
    """``folder`` cannot be written."""
    return Problem(
        f"Twinrig sets itself up in its own folder, but {folder} cannot be written.",
        "Copy the project to a folder that you own, for example in your home, and start it there.",
    )


def no_network(log: str) -> Problem:
    """The package index cannot be reached."""
    return Problem(
        "The package index cannot be reached, so the packages that Twinrig needs"
        " could not be downloaded.",
        "Check the network (behind a proxy, set HTTPS_PROXY) and start again."
        f" The full log is {log}.",
    )


def from_os_error(error: OSError, folder: str) -> Problem:
    """An error of the operating system while our own files were written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(folder)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return not_writable(folder)
    where = f" ({error.filename})" if error.filename else ""
    return Problem(
        f"Setting up failed: {error.strerror or error}{where}.",
        "Start again; if it stays so, delete the folder .venv first.",
    )


def from_output(lines: Iterable[str], folder: str, log: str) -> Problem:
    """What pip or venv printed, read for its cause. The first cause that fits wins."""
    text = "\n".join(lines)
    if _any(_DISK, text):
        return disk_full(folder)
    if _any(_CERTIFICATE, text):
        return Problem(
            "The package index answered with a certificate that this machine does not trust.",
            "Check the clock; behind a company proxy, set PIP_CERT to its certificate file."
            f" The full log is {log}.",
        )
    if _any(_NETWORK, text):
        return no_network(log)
    if _any(_HASH, text):
        return Problem(
            "A downloaded package is not the one that Twinrig was tested with; it was not used.",
            f"Start again; if it stays so, report it with the log {log}.",
        )
    if _any(_NO_WHEEL, text):
        return Problem(
            "The package index offers no build of a package for this machine: "
            + _line_with(_NO_WHEEL, text).removeprefix("ERROR: "),
            "Check the network, and PIP_INDEX_URL if you set it. Twinrig needs 64-bit"
            " Windows 10 or newer, or 64-bit Linux with glibc 2.34 or newer"
            f" (Debian 12, Ubuntu 22.04). The full log is {log}.",
        )
    if _any(_DENIED, text):
        return not_writable(folder)
    return Problem(
        "Setting up failed: " + (_last_error(text) or "the package installer gave no reason"),
        f"The full log is {log}. Start again; if it stays so, delete the folder .venv first.",
    )


def _any(needles: Iterable[str], text: str) -> bool:
    return any(needle in text for needle in needles)


def _line_with(needles: tuple[str, ...], text: str) -> str:
    return next(line.strip() for line in text.splitlines() if _any(needles, line))


def _last_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [""])[-1]
