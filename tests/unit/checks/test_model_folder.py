from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.standard_machine import (
    MODEL,
    MODEL_ANSWER,
    PROFILE,
    answer,
    facts,
    missing_program,
    timed_out,
)
from twinrig.checks.model_folder import CHECK, near_match
from twinrig.domain.checks import CheckResult, Status
from twinrig.domain.profile import ModelRef


def judge(text: str, path: str = MODEL) -> CheckResult:
    profile = replace(PROFILE, model=ModelRef(path))
    return CHECK.judge(facts(answer("model", text), profile=profile))


def finding_id(text: str) -> str:
    result = judge(text)
    return "" if result.finding is None else result.finding.id


def test_complete_model_passes_with_count_and_size() -> None:
    result = judge(MODEL_ANSWER)

    assert result.status is Status.PASS
    assert str(result.summary) == "Qwen3-32B-AWQ: files 2, 9.0 GiB"


def test_missing_folder_offers_the_near_match() -> None:
    text = "exists=no\nnear /home/u/models/Qwen3-32B-AWQ-v2\nnear /home/u/models/Llama\n"
    result = judge(text)

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert result.finding.id == "model-path-missing"
    assert result.finding.fixes == ("cfg-model-path",)
    assert result.finding.param("near") == "/home/u/models/Qwen3-32B-AWQ-v2"
    assert "Qwen3-32B-AWQ-v2" in str(result.next_step)


@pytest.mark.parametrize(
    ("path", "linux"),
    [
        (r"\\wsl.localhost\Ubuntu\home\u\models\Qwen", "/home/u/models/Qwen"),
        (r"\\wsl$\Ubuntu-24.04\home\u", "/home/u"),
        (r"D:\models\Qwen", "/mnt/d/models/Qwen"),
    ],
)
def test_a_path_of_windows_leads_to_the_one_of_linux(path: str, linux: str) -> None:
    result = judge("exists=no\n", path)

    assert result.status is Status.FAIL
    assert result.finding is not None
    assert (result.finding.id, result.finding.param("near")) == ("model-path-missing", linux)
    assert result.finding.fixes == ("cfg-model-path",)
    assert linux in str(result.next_step)


def test_nothing_alike_means_no_suggestion() -> None:
    assert near_match("/m/qwen", ("/m/llama", "/m/mistral")) == ""
    assert near_match("/m/Qwen3-8B/", ("/m/qwen3-8b",)) == "/m/qwen3-8b"


@pytest.mark.parametrize("text", ["exists=file\n", "exists=yes\nfile 10 README.md\n"])
def test_no_model_folder(text: str) -> None:
    assert finding_id(text) == "model-path-missing"


def test_empty_path_in_the_profile() -> None:
    result = judge(MODEL_ANSWER, path="")

    assert result.status is Status.FAIL
    assert str(result.summary) == "The profile names no model."


@pytest.mark.parametrize("text", ["exists=unreadable\n", MODEL_ANSWER + "unreadable config.json\n"])
def test_unreadable_folder_or_file(text: str) -> None:
    result = judge(text)

    assert finding_id(text) == "model-unreadable"
    assert result.next_step is not None


def test_shard_of_the_index_that_is_missing() -> None:
    text = MODEL_ANSWER.replace("file 4800000136 model-00002-of-00002.safetensors\n", "")
    result = judge(text.replace("header 128 4800000000 model-00002-of-00002.safetensors\n", ""))

    assert result.finding is not None
    assert result.finding.id == "weights-missing"
    assert result.finding.param("first") == "model-00002-of-00002.safetensors"
    assert result.finding.fixes == ("model-redownload",)


def test_link_that_leads_nowhere_is_a_missing_file() -> None:
    assert finding_id(MODEL_ANSWER + "broken model-00003.safetensors\n") == "weights-missing"
    assert finding_id(MODEL_ANSWER + "broken notes.txt\n") == ""


def test_folder_without_weights() -> None:
    assert finding_id("exists=yes\nfile 1200 config.json\n") == "weights-missing"


@pytest.mark.parametrize(
    "line",
    [
        "header 128 4800000001 model-00002-of-00002.safetensors",  # cut by one byte
        "header - - model-00002-of-00002.safetensors",  # shorter than eight bytes
        "header 7310868735955510642 - model-00002-of-00002.safetensors",  # "version " of LFS
        "header 0 - model-00002-of-00002.safetensors",
        "header 100000001 - model-00002-of-00002.safetensors",
        "header 99999999 4800000000 model-00002-of-00002.safetensors",
    ],
)
def test_damaged_weights_are_told_by_header_and_size(line: str) -> None:
    text = MODEL_ANSWER.replace("header 128 4800000000 model-00002-of-00002.safetensors", line)
    result = judge(text)

    assert result.finding is not None
    assert result.finding.id == "safetensors-corrupt"
    assert result.finding.param("first") == "model-00002-of-00002.safetensors"


def test_placeholder_of_git_lfs_is_damage() -> None:
    text = (
        "exists=yes\nfile 10 config.json\nfile 135 model.safetensors\n"
        "header 2336927755350992246 - model.safetensors\n"
    )
    assert finding_id(text) == "safetensors-corrupt"


def test_wrong_total_of_the_index_alone_is_no_fault() -> None:
    text = MODEL_ANSWER.replace("index_bytes=9700000000", "index_bytes=65000000000")

    assert judge(text).status is Status.PASS


@pytest.mark.parametrize(
    "text",
    [
        "exists=yes\nfile 10 config.json\nfile 900 pytorch_model.bin\n",
        "exists=yes\nfile 9000 model-Q4_K_M.gguf\n",
    ],
)
def test_other_weight_formats_are_weights(text: str) -> None:
    assert judge(text).status is Status.PASS


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/mnt/d/models/Qwen", MODEL_ANSWER),
        (MODEL, MODEL_ANSWER.replace("ext2/ext3", "v9fs")),
        (MODEL, MODEL_ANSWER.replace(f"real={MODEL}", "real=/mnt/c/models/x")),
    ],
)
def test_model_on_a_windows_drive_is_a_warning(path: str, text: str) -> None:
    result = judge(text, path)

    assert result.status is Status.WARN
    assert result.finding is not None
    assert result.finding.id == "slow-mnt-drive"
    assert result.finding.fixes == ("model-move-ext4",)


@pytest.mark.parametrize("path", ["/mnt/models/Qwen", "/mnt/data/x", "/home/u/mnt/c/x"])
def test_other_mounts_are_no_windows_drives(path: str) -> None:
    assert judge(MODEL_ANSWER, path).status is Status.PASS


def test_damage_matters_more_than_slowness() -> None:
    text = MODEL_ANSWER.replace("ext2/ext3", "v9fs") + "broken model-00009.safetensors\n"

    assert finding_id(text) == "weights-missing"


def test_no_profile_is_a_skip() -> None:
    assert CHECK.judge(facts(profile=None)).status is Status.SKIP
    assert CHECK.needs_profile


@pytest.mark.parametrize("make", [timed_out, missing_program])
def test_no_answer_is_an_error(make: object) -> None:
    result = CHECK.judge(facts(make("model")))  # type: ignore[operator]

    assert (result.status, result.finding) == (Status.ERROR, None)


@pytest.mark.parametrize("text", ["", "exists=vielleicht\n", "存在します\n", "file x y\n"])
def test_garbage_is_an_error(text: str) -> None:
    result = judge(text)

    assert (result.status, result.finding) == (Status.ERROR, None)
