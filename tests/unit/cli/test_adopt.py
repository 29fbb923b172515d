"""Taking over what runs already, and starting from a recipe, on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from twinrig.cli.main import main
from twinrig.composition.targets import open_workbench
from twinrig.hosts.paths import find_paths

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def run(twinrig_home: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    environ = {"TWINRIG_HOME": str(twinrig_home), "PATH": "/usr/bin:/bin", "HOME": str(home)}
    paths = find_paths(environ)

    def call(*argv: str) -> tuple[int, str]:
        code = main(
            ["--target", "local", *argv],
            lambda wanted: open_workbench(wanted, paths, environ),
            environ=environ,
        )
        return code, "".join(capsys.readouterr())

    return call


def test_nothing_to_adopt(run: Run) -> None:
    code, text = run("profiles", "adopt")
    assert code == 1 and "No server of a known engine" in text
    assert run("profiles", "adopt", "--pid", "4194303")[0] == 2


def test_a_unit_is_adopted_when_asked(run: Run, home: Path) -> None:
    unit = home / ".config" / "systemd" / "user" / "big.service"
    unit.parent.mkdir(parents=True)
    text = "[Service]\nExecStart=/opt/vllm/bin/vllm serve /m/Big --host 127.0.0.1 --odd 1\n"
    unit.write_text(text)
    code, out = run("profiles", "adopt")
    assert code == 0 and "Not taken over: odd" in out
    assert "no profiles yet" in run("profiles")[1]
    code, out = run("profiles", "adopt", "--save")
    assert code == 0 and "disable --now big.service" in " ".join(out.split())
    code, out = run("profiles", "show", "big", "--json")
    assert code == 0 and json.loads(out)["model"]["path"] == "/m/Big"
    assert unit.read_text() == text


def test_a_server_that_cannot_be_read_is_told(run: Run, home: Path) -> None:
    unit = home / ".config" / "systemd" / "user" / "tabby.service"
    unit.parent.mkdir(parents=True)
    unit.write_text(f"[Service]\nWorkingDirectory={home}/tabby\nExecStart=python main.py\n")
    (home / "tabby" / "common").mkdir(parents=True)
    (home / "tabby" / "common" / "config_models.py").write_text("x = 1\n")
    (home / "tabby" / "config.yml").write_text("model: [1\n")
    code, out = run("profiles", "adopt")
    assert code == 1 and "tabby.service" in out and "not valid YAML" in out
    assert "No server" not in out


def test_a_recipe_brings_its_settings_and_nothing_else(run: Run, tmp_path: Path) -> None:
    code, out = run(
        "profiles", "new", "Coder", "--recipe", "exl3-two-cards-wsl", "--model", "/m/Coder",
        "--json",
    )  # fmt: skip
    assert code == 0
    made = json.loads(out)
    assert made["engine"]["id"] == "tabbyapi" and made["model"]["path"] == "/m/Coder"
    assert made["settings"]["cache_mode"] == "2,2" and len(made["settings"]) == 13
    assert set(made["env"]) == {
        "PYTORCH_CUDA_ALLOC_CONF",
        "NCCL_SOCKET_IFNAME",
        "NCCL_P2P_DISABLE",
        "NCCL_SHM_DISABLE",
        "MAX_JOBS",
    }
