"""Causes are read from what pip 23.2 and venv of Python 3.11 really printed."""

from __future__ import annotations

import errno
import os

import pytest

from bootstrap import problems

REFUSED = """Looking in indexes: http://127.0.0.1:9/simple
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after \
connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPConnection object \
at 0x7f4a20bec290>: Failed to establish a new connection: [Errno 111] Connection refused')': \
/simple/six/
ERROR: Could not find a version that satisfies the requirement six==1.16.0 (from versions: none)
ERROR: No matching distribution found for six==1.16.0"""
HASH = """Collecting six==1.16.0 (from -r bad.txt (line 1))
  Downloading six-1.16.0-py2.py3-none-any.whl (11 kB)
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated"""
DISK = """  Downloading certifi-2026.10.19.post1-py3-none-any.whl (134 kB)
ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"""
NO_WHEEL = """ERROR: Could not find a version that satisfies the requirement s==9 (from versions: 1)
ERROR: No matching distribution found for s==9"""


@pytest.mark.parametrize(
    ("output", "says", "advises"),
    [
        (REFUSED, "package index cannot be reached", "HTTPS_PROXY"),
        ("OSError: Temporary failure in name resolution", "cannot be reached", "network"),
        ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]", "certificate", "PIP_CERT"),  # noqa: E501
        (HASH, "not the one that Twinrig was tested with", "Start again"),
        (DISK, "not enough free space", "Free some space"),
        (NO_WHEEL, "no build of a package for this machine: Could not find", "glibc 2.34"),
        ("PermissionError: [Errno 13] Permission denied: '/x'", "cannot be written", "Copy"),
        ("first\nERROR: something odd\nlast", "Setting up failed: ERROR: something odd", ".venv"),
        ("", "gave no reason", ".venv"),
    ],
)  # fmt: skip
def test_the_cause_is_named_with_what_to_do_next(output: str, says: str, advises: str) -> None:
    problem = problems.from_output(output.splitlines(), "/home/me/twinrig", "/log")
    assert says in problem.text
    assert advises in problem.next_step


def test_a_connection_that_is_refused_is_not_called_a_missing_build() -> None:
    assert "no build" not in problems.from_output(REFUSED.splitlines(), "/r", "/l").text


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "not enough free space"),
        (errno.EDQUOT, "not enough free space"),
        (errno.EROFS, "cannot be written"),
        (errno.EACCES, "cannot be written"),
        (errno.EIO, "Input/output error (/r/.venv/x)"),
    ],
)
def test_errors_of_the_system_become_sentences(number: int, says: str) -> None:
    problem = problems.from_os_error(OSError(number, os.strerror(number), "/r/.venv/x"), "/r")
    assert says in problem.text
    assert problem.next_step
