"""What the script and pip say, as steps, progress and causes."""

from __future__ import annotations

import pytest

from twinrig.domain.errors import ConflictError, HostError
from twinrig.services.setup_script import PythonFound, parse_look
from twinrig.services.setup_wheels import wrong_wheel
from twinrig.services.setup_words import SetupStep, may_help, progress_of, step_fault

FETCH = SetupStep.FETCH


def test_a_look_is_read_and_foreign_lines_are_not() -> None:
    look = parse_look(
        "Welcome to Ubuntu\npython /usr/bin/python3.12 3.12.3 yes\n"
        "python /opt/my python/bin/python3 3.11.9 no\nfree 123456789\ncurrent env-1\n"
        "partial env-2\npartial env-3\nwheels 42\nabout vllm 0.33.0 cuda12 python3.12.3\n"
    )
    assert look.pythons == (
        PythonFound("/usr/bin/python3.12", "3.12.3", True),
        PythonFound("/opt/my python/bin/python3", "3.11.9", False),
    )
    assert (look.free_bytes, look.current, look.partial) == (123456789, "env-1", ("env-2", "env-3"))
    assert (look.wheels_bytes, look.about) == (42, "vllm 0.33.0 cuda12 python3.12.3")
    empty = parse_look("")
    assert (empty.pythons, empty.free_bytes, empty.current) == ((), 0, "")


def test_progress() -> None:
    assert progress_of(FETCH, "Progress 50 of 200").fraction == 0.25
    assert progress_of(FETCH, "Progress 5 of 0").fraction is None
    assert progress_of(FETCH, "Progress 9 of 3").fraction == 1.0
    line = progress_of(FETCH, "Collecting torch")
    assert (line.line, line.fraction) == ("Collecting torch", None)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("ERROR: Could not install: [Errno 28] No space left on device", "The disk is full"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM", "not what its index promised"),
        ("zipfile.BadZipFile: File is not a zip file", "not what its index promised"),
        ("ERROR: No matching distribution found for vllm==9", "no such version"),
        ("urllib.error.HTTPError: HTTP Error 404: Not Found", "no such version"),
        ("The virtual environment was not created: ensurepip is not available", "environments"),
        ("pip._vendor.urllib3.exceptions.ReadTimeoutError: Read timed out.", "connection was lost"),
        (
            "urllib.error.URLError: <urlopen error [Errno -3] name resolution>",
            "connection was lost",
        ),
        ("something nobody knows", "failed: something nobody knows"),
        ("", "failed: -"),
    ],
)
def test_causes(output: str, words: str) -> None:
    error = step_fault(FETCH, 1, f"Collecting x\n{output}\n")
    assert isinstance(error, HostError)
    text = str(error.text)
    assert words in text or (not output and "failed: Collecting x" in text)
    assert error.next_step is not None


REFUSED = (
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError("
    "Connection refused)': /simple/x/\n"
)


def test_an_index_that_cannot_be_reached_is_no_missing_version() -> None:
    """pip 23 to 26 end with the same words in both cases."""
    nothing = "ERROR: Could not find a version that satisfies x (from versions: {})\n"
    final = "ERROR: No matching distribution found for x\n"
    lost = str(step_fault(FETCH, 1, REFUSED + nothing.format("none") + final).text)
    assert "connection was lost" in lost and "Connection refused" in lost
    for other in (nothing.format("none"), REFUSED + nothing.format("0.1, 0.2")):
        assert "no such version" in str(step_fault(FETCH, 1, other + final).text)


def test_another_set_up_at_work() -> None:
    assert isinstance(step_fault(FETCH, 75, ""), ConflictError)


def test_only_what_may_help_is_tried_again() -> None:
    assert may_help("ConnectionError: x") and may_help("DO NOT MATCH THE HASHES")
    assert not may_help("No matching distribution found")
    assert not may_help("Read timed out\nOSError: No space left on device")


@pytest.mark.parametrize(
    ("names", "cuda", "wrong"),
    [
        (["torch-2.14.0+cu129-cp312-cp312-linux_x86_64.whl"], 12, False),
        (["torch-2.14.0+cu130-cp312-cp312-linux_x86_64.whl"], 12, True),
        (
            ["vllm-0.33.0-cp38-abi3-linux_x86_64.whl", "nvidia_cuda_runtime-13.0.96-py3.whl"],
            12,
            True,
        ),
        (["nvidia_cuda_runtime_cu12-12.9.79-py3.whl"], 12, False),
        (["nvidia_cuda_runtime_cu12-12.9.79-py3.whl", "torch-2.11.0+cu130-x.whl"], 13, False),
        (["exllamav3-1.4.2+cu128.torch2.9.0-cp312-cp312-linux_x86_64.whl"], 13, True),
        (["exllamav3-1.4.2+cu132.torch2.11.0-cp312-cp312-linux_x86_64.whl"], 13, False),
        (["small-1.0-py3-none-any.whl", "torch-2.13.0+cpu-x.whl"], 12, False),
    ],
)
def test_wheels_of_another_cuda(names: list[str], cuda: int, wrong: bool) -> None:
    engine = names[0].partition("-")[0]
    assert bool(wrong_wheel(names, cuda, engine)) is wrong
