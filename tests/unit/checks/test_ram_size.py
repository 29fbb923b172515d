from __future__ import annotations

import pytest

from fixtures.standard_machine import (
    GIB_KIB,
    answer,
    facts,
    missing_program,
    on_linux,
    profile_with,
    timed_out,
)
from twinrig.checks.ram_size import CHECK
from twinrig.domain.checks import ProbeOutput, Status


def memory(total: float, free: float, swap: float = 0.0) -> ProbeOutput:
    """Sizes in GiB."""
    values = {"MemTotal": total, "MemAvailable": free, "SwapTotal": swap, "SwapFree": swap}
    return answer("memory", "".join(f"{k}: {int(v * GIB_KIB)} kB\n" for k, v in values.items()))


def test_half_of_a_64_gib_computer_passes() -> None:
    result = CHECK.judge(facts())

    assert result.status is Status.PASS
    assert str(result.summary) == "RAM: 31.2 GiB, free 28.6 GiB; the model has 9.0 GiB"


# The model's largest file has 4.56 GiB; base 2 and two ranks of 3: 12.56 GiB are needed.
@pytest.mark.parametrize(
    ("output", "status"),
    [
        (memory(12.5, 12.5), Status.FAIL),
        (memory(8, 8, swap=5), Status.PASS),
        (memory(16, 12.5), Status.WARN),
        (memory(16, 12.6), Status.PASS),
        (memory(7.6, 7), Status.FAIL),
    ],
)
def test_ram_and_swap_against_what_loading_needs(output: ProbeOutput, status: Status) -> None:
    result = CHECK.judge(facts(output))

    assert result.status is status
    if status in (Status.FAIL, Status.WARN):
        assert result.finding is not None
        assert result.finding.id == "ram-oom-killed"
        assert result.finding.param("needed_gib") == "12.6"
        assert result.finding.fixes == ("wslconfig-memory", "wsl-restart")


def test_a_model_larger_than_the_ram_is_no_fault() -> None:
    shards = "".join(f"file 4000000000 model-{i:05}-of-00012.safetensors\n" for i in range(12))
    model = answer("model", f"exists=yes\nfile 10 config.json\n{shards}")

    assert CHECK.judge(facts(model, memory(31, 28))).status is Status.PASS


def test_one_rank_needs_less() -> None:
    profile = profile_with(tensor_parallel_size=1)

    assert CHECK.judge(facts(memory(10, 10), profile=profile)).status is Status.PASS


def test_linux_is_not_told_to_configure_wsl() -> None:
    finding = CHECK.judge(on_linux(memory(4, 4))).finding

    assert finding is not None
    assert finding.fixes == ()


def test_needs_a_complete_model_first() -> None:
    assert CHECK.requires == ("model-folder",)


@pytest.mark.parametrize(
    "output", [timed_out("memory"), timed_out("model"), missing_program("memory")]
)
def test_no_answer_is_an_error(output: ProbeOutput) -> None:
    assert CHECK.judge(facts(output)).status is Status.ERROR


@pytest.mark.parametrize(
    "text", ["", "メモリ合計: 1 kB\n", "MemTotal: viel kB\n", "MemTotal: 10 kB\n"]
)
def test_garbage_is_an_error(text: str) -> None:
    result = CHECK.judge(facts(answer("memory", text)))

    assert (result.status, result.finding) == (Status.ERROR, None)
