"""``models``, ``setup``, ``switch`` and ``restart`` as the command line runs them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.hub_double import HubDouble, Repo, tiny
from twinrig.cli.main import main
from twinrig.composition.targets import open_workbench
from twinrig.hosts.paths import find_paths
from twinrig.services.last_good import LastGood

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def double() -> Iterator[HubDouble]:
    hub = HubDouble()
    hub.repos["org/awq"] = Repo(tiny(), 1200, tags=("safetensors", "awq"))
    with hub.serving():
        yield hub


@pytest.fixture
def run(
    twinrig_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    double: HubDouble,
) -> Run:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    environ = {
        "TWINRIG_HOME": str(twinrig_home),
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "HF_ENDPOINT": double.url,
    }
    paths = find_paths(environ)

    def call(*argv: str, target: str = "local") -> tuple[int, str]:
        code = main(
            ["--target", target, *argv],
            lambda wanted: open_workbench(wanted, paths, environ),
            environ=environ,
        )
        return code, "".join(capsys.readouterr())

    return call


def test_search_download_and_list(run: Run, double: HubDouble, tmp_path: Path) -> None:
    code, text = run("models", "list", "--json")
    assert (code, json.loads(text)["models"]) == (1, [])
    assert '"twinrig models search"' in run("models")[1]

    code, text = run("models", "search", "--engine", "vllm", "--json")
    (found,) = json.loads(text)["models"]
    assert (code, found["name"], found["downloads"]) == (0, "org/awq", 1200)
    assert found["size_bytes"] > 300_000
    assert run("models", "search", "no such thing")[0] == 1

    code, text = run("models", "download", "org/awq")
    assert code == 1, "nobody is there to say yes"
    assert "--yes" in text
    code, text = run("models", "download", "org/awq", "--yes")
    assert code == 0
    assert "Downloaded and verified" in text
    code, text = run("models", "list", "--json")
    (model,) = json.loads(text)["models"]
    assert (code, model["complete"], model["path"]) == (
        0,
        True,
        str(tmp_path / "home" / "models" / "org" / "awq"),
    )


def test_a_folder_of_ones_own_is_found_afterwards(run: Run, tmp_path: Path) -> None:
    code, _text = run("models", "download", "org/awq", "--yes", "--folder", str(tmp_path / "big"))
    assert code == 0
    (model,) = json.loads(run("models", "--json")[1])["models"]
    assert model["path"] == str(tmp_path / "big" / "org" / "awq")


def test_wrong_names_and_missing_models(run: Run) -> None:
    assert run("models", "download", "nonsense", "--yes")[0] == 2
    code, text = run("models", "download", "org/none", "--yes")
    assert code == 2
    assert "signed in, or it does not exist" in text


def test_the_token_is_stored_and_used_but_never_shown(
    run: Run, double: HubDouble, monkeypatch: pytest.MonkeyPatch, twinrig_home: Path
) -> None:
    double.repos["org/awq"].gated = True
    code, text = run("models", "download", "org/awq", "--yes")
    assert (code, "models token" in text) == (2, True)
    monkeypatch.setattr("sys.stdin", io.StringIO(double.token + "\n"))
    code, text = run("models", "token", "--in-file")
    assert code == 0
    assert double.token not in text
    code, text = run("models", "download", "org/awq", "--yes")
    assert code == 0, text
    assert double.token not in text
    assert run("models", "token", "--clear")[0] == 0
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run("models", "token")[0] == 2


def test_the_demo_rig_has_its_models_and_no_network(run: Run) -> None:
    code, text = run("models", target="demo")
    assert (code, "Demo-24B-AWQ" in text) == (0, True)
    assert run("models", "search", target="demo")[0] == 2
    code, text = run("setup", "vllm", target="demo")
    assert (code, "comes with Twinrig" in text) == (2, True)
    assert "--target local setup vllm" in text
    code, text = run("setup", "nonsense", target="demo")
    assert (code, "vllm, tabbyapi" in text) == (2, True)


def test_setup_asks_first_and_says_what_it_needs(run: Run, tmp_path: Path) -> None:
    code, text = run("setup", "vllm")
    assert (code, "No NVIDIA driver" in text) == (2, True)
    assert run("setup", "nonsense", "--cuda", "12")[0] == 2
    code, text = run("setup", "vllm", "--cuda", "12", "--json")
    if code == 1:  # a Python and a disk that would do
        assert json.loads(text)["result"] is None
    else:
        assert code == 2
    assert not (tmp_path / "home" / ".local").exists(), "nothing was done"


def test_going_back_to_what_worked(run: Run, twinrig_home: Path) -> None:
    assert run("profiles", "new", "Demo", target="demo")[0] == 0
    code, text = run("profiles", "restore", "demo", "--worked", target="demo")
    assert (code, "no other settings" in text) == (2, True)
    bench = open_workbench("demo", find_paths({"TWINRIG_HOME": str(twinrig_home)}), {})
    LastGood(bench.layout, bench.profiles).remember(bench.profiles.load("demo"))
    run("profiles", "edit", "demo", "set", "settings.context_length=4096", target="demo")
    code, text = run("profiles", "restore", "demo", "--worked", target="demo")
    assert (code, "that worked are back" in text) == (0, True)


def test_switch_names_a_profile_that_exists(run: Run) -> None:
    assert run("switch", "nobody", target="demo")[0] == 2
    assert run("switch")[0] == 2


def test_a_recipe_travels(run: Run, tmp_path: Path) -> None:
    run("profiles", "new", "Demo", target="demo")
    path = tmp_path / "recipe.yaml"
    code, _text = run("profiles", "export", "demo", str(path), "--recipe", target="demo")
    assert code == 0
    assert "/home/you/models/" in path.read_text()
    assert run("profiles", "export", "demo", str(path), "--recipe", target="demo")[0] == 1
    code, _text = run("profiles", "new", "Again", "--recipe", str(path), target="demo")
    assert code == 0
    assert run("profiles", "new", "No", "--recipe", "nowhere.yaml", target="demo")[0] == 2


def test_a_profile_is_copied_under_another_name(run: Run) -> None:
    run("profiles", "new", "Demo", target="demo")
    code, text = run("profiles", "copy", "demo", "Second try", "--json", target="demo")
    assert (code, json.loads(text)["id"]) == (0, "second-try")
    first = json.loads(run("profiles", "show", "demo", "--json", target="demo")[1])
    second = json.loads(run("profiles", "show", "second-try", "--json", target="demo")[1])
    assert {k for k in first if first[k] != second[k]} == {"id", "name"}
    assert run("profiles", "copy", "nobody", "x", target="demo")[0] == 2
