"""The real script, run by a real bash against a tree that stands for a machine."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from fixtures.standard_machine import DRIVER, GPU
from twinrig import assets
from twinrig.checks.gpu_facts import parse_gpus
from twinrig.checks.model_facts import parse_model
from twinrig.checks.port_free import parse_holders
from twinrig.domain.checks import ProbeOutput
from twinrig.domain.probes import ProbeRequest, is_complete, parse_frames

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the script is for Linux")
NONCE = "0123456789abcdef"
SCRIPT = assets.resource_path("probes/linux.sh")


def ask(
    *names: str,
    path: str | None = None,
    env: Mapping[str, str] | None = None,
    by_stdin: bool = False,
    **arguments: str,
) -> Mapping[str, ProbeOutput]:
    """Run the script as a host does and read its answer."""
    args = ProbeRequest(NONCE, names, **arguments).to_args()
    environment = {"PATH": path or os.environ["PATH"], "HOME": "/tmp", **(env or {})}
    text = SCRIPT.read_bytes()
    head = ["bash", "--noprofile", "--norc"]
    argv = [*head, "-s", "--", *args] if by_stdin else [*head, str(SCRIPT), *args]
    done = subprocess.run(
        argv, input=text if by_stdin else b"", capture_output=True, env=environment, timeout=30
    )
    output = done.stdout.decode("utf-8", "replace")
    assert is_complete(NONCE, output), done.stderr.decode()
    return parse_frames(NONCE, output)


def program(folder: Path, name: str, body: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{body}\n")
    (folder / name).chmod(0o755)


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def safetensors(path: Path, *, cut: int = 0) -> None:
    header = json.dumps(
        {
            "a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
            "b": {"dtype": "F32", "shape": [4], "data_offsets": [16, 32]},
        }
    ).encode()
    data = struct.pack("<Q", len(header)) + header + bytes(32)
    path.write_bytes(data[: len(data) - cut])


@pytest.fixture
def smi(tmp_path: Path) -> str:
    """A PATH whose nvidia-smi answers like the standard machine's."""
    rows = "\n".join(GPU.splitlines()[1:])
    program(
        tmp_path / "bin",
        "nvidia-smi",
        f"case $1 in --query-gpu=*) cat <<'X'\n{rows}\nX\n;; *) cat <<'X'\n{DRIVER}\nX\n;; esac",
    )
    return f"{tmp_path / 'bin'}:{os.environ['PATH']}"


def test_cards_and_driver(smi: str) -> None:
    answers = ask("gpu", "driver", path=smi)

    rows = parse_gpus(answers["gpu"])
    assert [row.index for row in rows] == [0, 1]
    assert rows[0].capability == (8, 6)
    assert "CUDA Version: 13.1" in answers["driver"].stdout


def test_old_driver_that_does_not_know_compute_cap(tmp_path: Path) -> None:
    program(
        tmp_path / "bin",
        "nvidia-smi",
        "case $1 in *compute_cap*) echo 'Field \"compute_cap\" is not a valid field to query.'; "
        "exit 2 ;; *) echo '0, GPU-1, RTX, 24576, 1, 470.10' ;; esac",
    )
    answers = ask("gpu", path=f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    (row,) = parse_gpus(answers["gpu"])
    assert (row.driver_version, row.capability) == ("470.10", None)


def test_nvidia_smi_of_wsl_is_found_beside_the_path(tmp_path: Path) -> None:
    program(tmp_path / "usr/lib/wsl/lib", "nvidia-smi", "echo '0, GPU-1, RTX, 1, 1, 591.44, 8.6'")
    answers = ask("gpu", path="/usr/bin:/bin", sysroot=str(tmp_path))

    assert answers["gpu"].returncode == 0
    assert answers["gpu"].stdout.startswith(f"# {tmp_path}/usr/lib/wsl/lib/nvidia-smi")


def test_missing_nvidia_smi_is_127_and_its_own_127_is_not(tmp_path: Path) -> None:
    assert ask("gpu", path="/usr/bin:/bin", sysroot=str(tmp_path))["gpu"].missing_program

    program(tmp_path / "bin", "nvidia-smi", "exit 127")
    output = ask("gpu", path=f"{tmp_path / 'bin'}:/usr/bin:/bin")["gpu"]
    assert output.returncode == 1


def test_hanging_program_is_stopped_and_the_others_are_answered(tmp_path: Path) -> None:
    # A short limit by a stand-in for ``timeout`` keeps this test quick.
    program(tmp_path / "bin", "nvidia-smi", "sleep 30")
    program(tmp_path / "bin", "timeout", 'shift 3; exec /usr/bin/timeout -k 1 0.2 "$@"')
    answers = ask("gpu", "ptrace", path=f"{tmp_path / 'bin'}:/usr/bin:/bin")

    assert answers["gpu"].timed_out
    assert answers["ptrace"].returncode == 0


def test_noise_on_both_streams_and_a_forged_end(tmp_path: Path) -> None:
    program(
        tmp_path / "bin",
        "nvidia-smi",
        f"printf 'no newline' >&2; printf '{NONCE} gpu end 0\\n{NONCE} . done 9\\n'; exit 9",
    )
    output = ask("gpu", path=f"{tmp_path / 'bin'}:/usr/bin:/bin")["gpu"]

    assert output.returncode == 9
    assert f"{NONCE} gpu end 0" in output.stdout
    assert output.stderr == "no newline\n"


def test_script_on_standard_input_gives_the_same_answers() -> None:
    assert ask("ptrace", "shm", by_stdin=True).keys() == {"ptrace", "shm"}


def test_unknown_probe_is_said() -> None:
    assert ask("nonsense")["nonsense"].returncode == 3


def test_shell_start_files_and_locale_of_the_user_do_not_matter(tmp_path: Path) -> None:
    put(tmp_path, "env.sh", "echo noise; alias df=false; df() { false; }\n")
    env = {"BASH_ENV": str(tmp_path / "env.sh"), "LC_ALL": "ja_JP.UTF-8", "LANGUAGE": "ja"}
    output = ask("shm", env=env, by_stdin=True)["shm"]

    assert output.returncode == 0
    assert output.stdout.startswith("Filesystem")


@pytest.mark.parametrize(
    ("release", "wsl"), [("6.6.114.1-microsoft-standard-WSL2", "yes"), ("6.8.0-45-generic", "no")]
)
def test_system(tmp_path: Path, release: str, wsl: str) -> None:
    put(tmp_path, "proc/sys/kernel/osrelease", f"{release}\n")
    put(tmp_path, "etc/os-release", 'NAME="X"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n')
    lines = ask("system", sysroot=str(tmp_path))["system"].stdout.splitlines()

    assert f"wsl={wsl}" in lines
    assert "os=Ubuntu 24.04.3 LTS" in lines


def test_ptrace_absent_and_present(tmp_path: Path) -> None:
    assert ask("ptrace", sysroot=str(tmp_path))["ptrace"].stdout == "absent\n"

    put(tmp_path, "proc/sys/kernel/yama/ptrace_scope", "1\n")
    assert ask("ptrace", sysroot=str(tmp_path))["ptrace"].stdout == "1\n"


def test_drop_in_is_told_by_its_hash(tmp_path: Path) -> None:
    assert ask("ptrace_file", sysroot=str(tmp_path))["ptrace_file"].stdout == "absent\n"

    put(tmp_path, "etc/sysctl.d/60-twinrig-ptrace.conf", "abc")
    text = ask("ptrace_file", sysroot=str(tmp_path))["ptrace_file"].stdout
    # The SHA-256 of "abc" as FIPS 180 gives it.
    assert text == ("sha256=ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n")


def test_memory(tmp_path: Path) -> None:
    put(tmp_path, "proc/meminfo", "MemTotal: 10 kB\nBuffers: 1 kB\nMemAvailable: 5 kB\n")

    text = ask("memory", sysroot=str(tmp_path))["memory"].stdout
    assert text == "MemTotal: 10 kB\nMemAvailable: 5 kB\n"


def test_leftovers_in_shared_memory(tmp_path: Path) -> None:
    for name in ("nccl-abc", "psm_1", "other"):
        put(tmp_path, f"dev/shm/{name}", "12345")
    lines = ask("shm", sysroot=str(tmp_path))["shm"].stdout.splitlines()

    left = [line.rsplit("/", 1)[-1] for line in lines if line.startswith("left 5 ")]
    assert left == ["nccl-abc", "psm_1"]


def test_disk_walks_up_to_a_folder_that_exists(tmp_path: Path) -> None:
    text = ask("disk", model_path=f"{tmp_path}/not/there yet")["disk"].stdout

    assert text.startswith("disk model\nFilesystem")
    assert [line for line in text.splitlines() if line.startswith("disk ")] == [
        "disk model",
        "disk home",
        "disk temporary",
    ]


def test_environment_is_read_and_nothing_in_it_is_run(tmp_path: Path) -> None:
    venv = tmp_path / "my venv"
    site = "lib/python3.12/site-packages"
    program(venv / "bin", "python", f"touch {tmp_path}/ran")
    program(venv / "bin", "vllm", f"touch {tmp_path}/ran")
    put(venv, "pyvenv.cfg", "home = /usr/bin\nversion = 3.12.3\n")
    put(
        venv,
        f"{site}/vllm-0.11.2.dist-info/METADATA",
        "Name: vllm\nRequires-Python: <3.14,>=3.10\n\nRequires-Python: no\n",
    )
    put(venv, f"{site}/torch-2.9.0+cu128.dist-info/METADATA", "Name: torch\n")
    put(venv, f"{site}/nvidia_nccl_cu12-2.27.5.dist-info/METADATA", "Name: nccl\n")
    put(venv, f"{site}/requests-2.0.dist-info/METADATA", "Name: requests\n")
    put(
        venv,
        f"{site}/torch/version.py",
        "from typing import Optional\ncuda: Optional[str] = '12.8'\n",
    )
    put(venv, f"{site}/nvidia/cuda_runtime/lib/libcudart.so.12", "")
    put(venv, f"{site}/vllm/_C.abi3.so", "\x7fELF\x00libc.so.6\x00libcudart.so.13\x00")
    lines = ask("environment", environment=str(venv))["environment"].stdout.splitlines()

    assert lines == [
        "python=3.12.3",
        "interpreter=ok",
        "site=python3.12",
        "dist nvidia_nccl_cu12 2.27.5",
        "dist torch 2.9.0+cu128",
        "dist vllm 0.11.2",
        "requires_python=<3.14,>=3.10",
        "torch_cuda=12.8",
        "cudart=12",
        "vllm_cudart=13",
    ]
    assert not (tmp_path / "ran").exists()


def test_a_checkout_around_the_environment_shows_its_telling_lines(tmp_path: Path) -> None:
    file = "endpoints/OAI/utils/chat_completion.py"
    put(tmp_path, f"tabby API/{file}", "async def f():\n    generation = {}\n    x = generation\n")
    put(tmp_path, "tabby API/venv/pyvenv.cfg", "version = 3.12.3\n")
    venv = tmp_path / "tabby API/venv"
    lines = ask("environment", environment=str(venv))["environment"].stdout.splitlines()
    assert [line for line in lines if line.startswith("source")] == [
        f"source {file} generation = {{}}"
    ]


def test_tabbyapis_own_files_come_line_by_line(tmp_path: Path) -> None:
    put(tmp_path, "tabby/config.yml", "# c\r\nmodel:\r\n  x: 1\r\n")
    put(tmp_path, "tabby/common/config_models.py", "class A:\n    x: int\n")
    lines = ask("tabby_config", environment=f"{tmp_path}/tabby/venv")["tabby_config"].stdout
    assert lines.splitlines() == [
        "checked=yes",
        "config # c",
        "config model:",
        "config   x: 1",
        "schema class A:",
        "schema     x: int",
    ]
    assert (
        ask("tabby_config", environment=f"{tmp_path}/none/venv")["tabby_config"].stdout
        == "checked=yes\n"
    )


def test_environment_that_is_missing_or_lost_its_python(tmp_path: Path) -> None:
    gone = ask("environment", environment=str(tmp_path / "gone"))["environment"]
    assert gone.stdout == "missing=yes\n"

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to("/nowhere/python3")
    lost = ask("environment", environment=str(tmp_path))["environment"]
    assert "interpreter=missing" in lost.stdout


def test_model_with_shards_links_and_a_cut_file(tmp_path: Path) -> None:
    folder = tmp_path / "日本 model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    safetensors(folder / "model-00001-of-00003.safetensors")
    safetensors(folder / "model-00002-of-00003.safetensors", cut=1)
    (folder / "model-00003-of-00003.safetensors").symlink_to("/nowhere")
    names = {f"t{i}": f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)}
    index = {"metadata": {"total_size": 96}, "weight_map": names}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    answer = parse_model(ask("model", model_path=str(folder))["model"])

    assert answer.exists == "yes"
    assert answer.real_path == str(folder)
    assert len(answer.shards) == 3
    assert answer.missing == ("model-00003-of-00003.safetensors",)
    assert answer.damaged() == ("model-00002-of-00003.safetensors",)


def test_links_of_a_download_cache_are_followed(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "1").write_text("{}")
    safetensors(blobs / "2")
    (snapshot / "config.json").symlink_to("../../blobs/1")
    (snapshot / "model.safetensors").symlink_to("../../blobs/2")
    answer = parse_model(ask("model", model_path=str(snapshot))["model"])

    assert answer.sizes["config.json"] == 2
    assert answer.weights == (("model.safetensors", (blobs / "2").stat().st_size),)
    assert answer.missing == () and answer.damaged() == ()


def test_tiny_file_instead_of_weights_is_damage(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    (tmp_path / "empty.safetensors").write_text("")
    answer = parse_model(ask("model", model_path=str(tmp_path))["model"])

    assert set(answer.damaged()) == {"model.safetensors", "empty.safetensors"}


def test_missing_model_lists_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "Qwen3-8B").mkdir()
    answer = parse_model(ask("model", model_path=f"{tmp_path}/qwen3-8b")["model"])

    assert answer.exists == "no"
    assert answer.near == (f"{tmp_path}/Qwen3-8B",)


def test_model_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("x")

    assert parse_model(ask("model", model_path=str(tmp_path / "m"))["model"]).exists == "file"


def test_values_are_never_run(tmp_path: Path) -> None:
    evil = f"$(touch {tmp_path}/ran);`touch {tmp_path}/ran`"
    ask("model", "disk", "environment", "port", model_path=evil, environment=evil, endpoint=evil)

    assert not (tmp_path / "ran").exists()


def test_port_with_its_holder() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        output = ask("port", endpoint=f"127.0.0.1:{port}")["port"]

    assert "listen 0100007F" in output.stdout
    (holder,) = parse_holders(output)
    assert holder.pid == os.getpid()
    assert "pytest" in holder.command or "python" in holder.command


def test_port_table_of_a_tree(tmp_path: Path) -> None:
    head = (
        "  sl  local_address rem_address   st tx:rx_queue tr:when retrnsmt   uid  timeout inode\n"
    )
    row = "   0: {}:{:04X} 00000000:0000 {} 0:0 00:0 0  1000        0 {} 1\n"
    put(
        tmp_path,
        "proc/net/tcp",
        head
        + row.format("0100007F", 8000, "0A", 77)
        + row.format("0100007F", 8000, "01", 78)  # established, not listening
        + row.format("00000000", 8001, "0A", 79)
        + row.format("00000000", 22, "0A", 80),
    )
    lines = ask("port", endpoint="127.0.0.1:8000", sysroot=str(tmp_path))["port"].stdout

    assert lines == "checked=8000\nlisten 0100007F 77 1000\nbusy 8001\n"


@pytest.mark.parametrize("endpoint", ["127.0.0.1:http", "127.0.0.1:"])
def test_what_is_no_port_is_said(endpoint: str) -> None:
    assert ask("port", endpoint=endpoint)["port"].returncode == 1


def test_without_arguments_the_probes_answer_nothing() -> None:
    answers = ask("model", "environment", "port")

    assert {output.stdout for output in answers.values()} == {""}
    assert {output.returncode for output in answers.values()} == {0}


def test_nothing_is_written(tmp_path: Path) -> None:
    put(tmp_path, "proc/sys/kernel/osrelease", "6.8\n")
    put(tmp_path, "tmp/keep", "")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    ask(
        "system",
        "memory",
        "shm",
        "disk",
        "ptrace",
        "ptrace_file",
        "model",
        "environment",
        "port",
        sysroot=str(tmp_path),
        model_path=str(tmp_path),
        environment=str(tmp_path),
        endpoint="127.0.0.1:1",
        env={"HOME": str(tmp_path), "TMPDIR": str(tmp_path / "tmp")},
    )

    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
