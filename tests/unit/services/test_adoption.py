"""Foreign servers become profiles: the first report's own unit with its drop-in, and others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from service_fakes import FolderHost
from twinrig import assets
from twinrig.engines.registry import load_engines
from twinrig.hosts.local.host import LocalHost
from twinrig.services.adoption import Adoption, AdoptionFinder
from twinrig.services.profile_rules import profile_faults
from twinrig.services.unit_files import command_of, environment_files

ENGINES = load_engines(assets.read_text)
UNIT = """\
[Unit]
Description=tabbyAPI
[Service]
WorkingDirectory=%h/tabbyAPI
ExecStart=%h/tabbyAPI/venv/bin/python main.py
Restart=always
[Install]
WantedBy=default.target
"""
DROP_IN = """\
[Service]
Environment=PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
Environment=NCCL_SOCKET_IFNAME=lo
Environment=NCCL_P2P_DISABLE=1
Environment=NCCL_SHM_DISABLE=0
Environment=MAX_JOBS=4
"""
CONFIG = """\
# mine
network:
  port: 5005
model:
  model_name: Qwopus3.6-27B-Coder-exl3-4.15bpw
  tensor_parallel: true
  tensor_parallel_backend: nccl
  gpu_split: []          # automatic
  cache_mode: 2,2
  cache_size: 131072
  max_seq_len: 80000
  max_batch_size: 8
  chunk_size: 2048
  vison: true
draft_model:
  draft_mode: disabled
"""


@pytest.fixture
def host(tmp_path: Path) -> FolderHost:
    made = FolderHost(tmp_path)
    for path, text in {
        "/home/me/.config/systemd/user/tabbyapi.service": UNIT,
        "/home/me/.config/systemd/user/tabbyapi.service.d/nccl-tp.conf": DROP_IN,
        "/home/me/.config/systemd/user/other.service": UNIT.replace("tabbyAPI", "other"),
        "/home/me/tabbyAPI/config.yml": CONFIG,
        "/home/me/tabbyAPI/common/config_models.py": "x = 1\n",
    }.items():
        made.real(path).parent.mkdir(parents=True, exist_ok=True)
        made.real(path).write_text(text)
    return made


def finder(host: object) -> AdoptionFinder:
    return AdoptionFinder(host, ENGINES, "local", lambda name: name.lower())  # type: ignore[arg-type]


async def only(host: FolderHost) -> Adoption:
    (found,) = await finder(host).units()
    return found


async def test_the_first_reports_unit_is_taken_over_whole(host: FolderHost) -> None:
    before = {p: p.read_bytes() for p in host.root.rglob("*") if p.is_file()}
    found = await only(host)
    profile = found.profile
    assert (profile.id, profile.engine.id, profile.network.port) == ("tabbyapi", "tabbyapi", 5005)
    assert profile.engine.environment == "/home/me/tabbyAPI"
    assert profile.model.path == "/home/me/tabbyAPI/models/Qwopus3.6-27B-Coder-exl3-4.15bpw"
    assert dict(profile.settings) == {
        "tensor_parallel": True,
        "tensor_parallel_backend": "nccl",
        "gpu_split": (),
        "cache_mode": "2,2",
        "cache_tokens": 131072,
        "context_length": 80000,
        "max_batch_size": 8,
        "chunk_size": 2048,
        "draft_mode": "disabled",
        "cuda_malloc_async": False,
    }
    assert {name: entry.value for name, entry in profile.env.items()} == {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "0",
        "MAX_JOBS": "4",
    }
    assert found.left_out == ("model.vison",)
    assert "systemctl --user disable --now tabbyapi.service" in str(found.next_step)
    assert profile_faults(profile, ENGINES) == ()
    assert {p: p.read_bytes() for p in host.root.rglob("*") if p.is_file()} == before


async def test_a_vllm_unit(host: FolderHost) -> None:
    host.real("/home/me/.config/systemd/user/tabbyapi.service").unlink()
    unit = host.real("/home/me/.config/systemd/user/big.service")
    unit.write_text(
        "[Service]\n"
        'Environment="NCCL_CUMEM_ENABLE=0" VLLM_API_KEY=hidden-key\n'
        "ExecStart=/bin/bash -c 'cd /srv && exec /opt/vllm/bin/vllm serve /models/Big-AWQ -tp 2 "
        "--port=8020 --host 127.0.0.1 --max-model-len 32768 --disable-custom-all-reduce "
        "--gpu-memory-utilization 0.9 --no-enable-prefix-caching --config run.yaml --odd 1'\n"
    )
    host.real("/srv").mkdir()
    host.real("/srv/run.yaml").write_text("max-num-seqs: 4\nport: 1\ntool-call-parser: hermes\n")
    found = await only(host)
    profile = found.profile
    assert (profile.engine.environment, profile.model.path) == ("/opt/vllm", "/models/Big-AWQ")
    assert (profile.network.host, profile.network.port) == ("127.0.0.1", 8020)
    assert dict(profile.settings) == {
        "max_num_seqs": 4,
        "tool_call_parser": "hermes",
        "tensor_parallel_size": 2,
        "context_length": 32768,
        "disable_custom_all_reduce": True,
        "gpu_memory_utilization": 0.9,
        "enable_prefix_caching": False,
    }
    assert found.left_out == ("odd", "VLLM_API_KEY")
    assert "hidden-key" not in repr(found)


async def test_a_broken_configuration_hides_nothing_else(host: FolderHost) -> None:
    host.real("/home/me/tabbyAPI/config.yml").write_text("model:\n\tx: 1\n")
    look = finder(host)
    assert await look.units() == ()
    (refused,) = look.refused
    assert refused.source.endswith("tabbyapi.service") and "line 2" in str(refused.text)
    host.real("/home/me/tabbyAPI/config.yml").unlink()
    found = await only(host)
    assert found.profile.model.path == "" and found.profile.network.port == 5000


async def test_a_server_for_all_devices_is_taken_over_for_this_computer(host: FolderHost) -> None:
    """An address without a key is refused in a profile, but no reason to take over nothing."""
    unit = host.real("/home/me/.config/systemd/user/tabbyapi.service")
    unit.write_text("[Service]\nExecStart=/opt/vllm/bin/vllm serve /models/Big\n")
    found = await only(host)
    assert found.profile.network.host == "127.0.0.1"
    (note,) = found.notes
    assert "0.0.0.0" in str(note) and f"profiles key {found.profile.id}" in str(note)
    assert profile_faults(found.profile, ENGINES) == ()


async def test_files_of_variables_win_over_the_unit(host: FolderHost) -> None:
    unit = host.real("/home/me/.config/systemd/user/tabbyapi.service")
    unit.write_text(UNIT.replace("Restart=", "EnvironmentFile=-%h/.nccl\nRestart="))
    host.real("/home/me/.nccl").write_text(
        "# mine\nNCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME='eth0'\nHF_TOKEN=hf_hidden\nnonsense\n"
    )
    found = await only(host)
    env = {name: entry.value for name, entry in found.profile.env.items()}
    assert (env["NCCL_DEBUG"], env["NCCL_SOCKET_IFNAME"]) == ("INFO", "eth0")
    assert env["NCCL_P2P_DISABLE"] == "1"
    assert "HF_TOKEN" in found.left_out and "hf_hidden" not in repr(found)
    host.real("/home/me/.nccl").unlink()
    assert "NCCL_DEBUG" not in (await only(host)).profile.env


async def test_a_second_file_of_tabbyapi_lies_on_top_and_silences_the_other_words(
    host: FolderHost,
) -> None:
    """As tabbyAPI merges: config.yml, variables, then the named file instead of options."""
    unit = host.real("/home/me/.config/systemd/user/tabbyapi.service")
    started = "ExecStart=%h/tabbyAPI/venv/bin/python main.py --config o.yml --port 7000\n"
    variables = "Environment=TABBY_MODEL_CACHE_MODE=Q8 TABBY_MODEL_CHUNK_SIZE=1024\n"
    unit.write_text(f"[Service]\nWorkingDirectory=%h/tabbyAPI\n{started}{variables}")
    host.real("/home/me/tabbyAPI/o.yml").write_text(
        "model:\n  chunk_size: 4096\n  max_batch_size:\n  vision: true\n"
    )
    profile = (await only(host)).profile
    settings = profile.settings
    assert (settings["cache_mode"], settings["chunk_size"], settings["vision"]) == (
        "Q8",
        4096,
        True,
    )
    assert settings["max_batch_size"] == 8, "a blank key changes nothing"
    assert profile.network.port == 5005, "options beside --config are ignored"


@pytest.mark.parametrize(
    ("texts", "files"),
    [
        (["[Service]\nEnvironmentFile=/a\n", "[Service]\nEnvironmentFile=-%h/b\n"], ("/a", "/h/b")),
        (["[Service]\nEnvironmentFile=/a\nEnvironmentFile=\n"], ()),
        (["[Service]\nExecStart=x\n"], ()),
    ],
)
def test_the_files_of_variables(texts: list[str], files: tuple[str, ...]) -> None:
    assert environment_files(texts, "/h") == files


@pytest.mark.parametrize(
    ("texts", "argv", "cwd", "env"),
    [
        (["[Service]\nExecStart=a\n", "[Service]\nExecStart=\nExecStart=b c\n"], "b c", "/h", {}),
        (["[Unit]\nExecStart=no\n[Service]\n# ExecStart=n\nExecStart=-/x \\\n y\n"],
         "/x y", "/h", {}),
        (["[Service]\nExecStart=x\nWorkingDirectory=~/t\n"], "x", "/h/t", {}),
        (["[Service]\nExecStart=env A=1 B='2 3' x\nEnvironment=A=0 C=4\n"], "x", "/h",
         {"A": "1", "B": "2 3", "C": "4"}),
        (["[Service]\nExecStart=x\nEnvironment=A=1\nEnvironment=\n"], "x", "/h", {}),
        (["[Service]\nExecStart=/bin/sh -lc 'cd t && ./start.sh'\n"], "./start.sh", "/h/t", {}),
    ],
)  # fmt: skip
def test_what_a_unit_would_start(texts: list[str], argv: str, cwd: str, env: dict) -> None:
    command = command_of(texts, "/h")
    assert command is not None
    assert (" ".join(command.argv), command.cwd, dict(command.env)) == (argv, cwd, env)


@pytest.mark.parametrize("text", ["", "[Service]\n", "[Service]\nExecStart='open\n"])
def test_a_unit_that_starts_nothing(text: str) -> None:
    assert command_of([text], "/h") is None


async def test_a_running_process(tmp_path: Path) -> None:
    checkout = tmp_path / "tabby"
    (checkout / "common").mkdir(parents=True)
    (checkout / "common" / "config_models.py").write_text("x = 1\n")
    (checkout / "config.yml").write_text(CONFIG)
    (checkout / "main.py").write_text("print('up', flush=True)\ninput()\n")
    with subprocess.Popen(
        [sys.executable, "main.py", "--cache-mode", "Q8"],
        cwd=checkout,
        env={"PATH": os.environ["PATH"], "NCCL_P2P_DISABLE": "1", "HF_TOKEN": "hidden"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        look = finder(LocalHost(os.environ))
        found = await look.process(process.pid)
        assert await look.process(os.getpid()) is None
        process.stdin.close()
    assert found is not None
    assert found.profile.settings["cache_mode"] == "Q8"
    assert found.profile.engine.environment == str(checkout)
    assert list(found.profile.env) == ["NCCL_P2P_DISABLE"]
    assert set(found.left_out) == {"model.vison", "HF_TOKEN"}
    assert await look.process(2**22 - 1) is None
