"""Real server programs behind one interface, driven by the product's own command line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from integration.test_tabby_journey import Tabby
from real.rig import Rig as VllmHome
from real.rig import free_port
from real.tiny_model import write_model
from twinrig.domain.metrics import EngineMetrics
from twinrig.domain.profile import ModelRef
from twinrig.engines.vllm_metrics import parse_vllm_metrics

KEY = "contract-key-4Tg7Wn2Rv9"
MISSING = "/nonexistent/model"


class EngineRig:
    """One engine, one profile ``main``, one home below ``folder``."""

    log_form = ""
    default_env: dict[str, str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "twinrig"
        self.environ = {
            **os.environ,
            "HOME": str(folder),
            "TWINRIG_HOME": str(self.home),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }
        self.prepare()

    def prepare(self) -> None:
        """Engine and model on disk."""
        raise NotImplementedError

    def write_profile(self, *, missing_model: bool = False) -> None:
        """``main``, on a port of its own."""
        raise NotImplementedError

    def store_key(self) -> None:
        """The way a user gives this engine a key."""
        raise NotImplementedError

    def make_ill(self) -> None:
        """The failure after which this engine's process lives and serves nobody."""
        raise NotImplementedError

    def metrics(self) -> EngineMetrics:
        """The counters as the product reads them."""
        raise NotImplementedError

    @property
    def port(self) -> int:
        raise NotImplementedError

    def twinrig(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "twinrig", "--target", "local", *words],
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=600,
        )

    def record(self) -> dict[str, Any]:
        path = self.home / "state" / "local" / "servers" / "main" / "state.json"
        return json.loads(path.read_text()) if path.exists() else {}

    @property
    def log(self) -> str:
        return (self.home / "state/local/servers/main/server.log").read_text("utf-8", "replace")

    def complete(self, key: str = "", prompt: str = "Hello") -> tuple[int, int]:
        """Status and generated tokens of one completion."""
        body = {"model": self.record()["model_id"], "prompt": prompt, "max_tokens": 16}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/completions",
            json.dumps({**body, "temperature": 1.0, "ignore_eos": True}).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                usage = json.loads(answer.read())["usage"]
                return answer.status, usage["completion_tokens"]
        except urllib.error.HTTPError as error:
            return error.code, 0

    def processes(self) -> dict[int, str]:
        """Live processes that belong to this folder, zombies left out."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                text = words + (entry / "environ").read_bytes().decode("utf-8", "replace")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if str(self.folder) in text and state != "Z" and int(entry.name) != os.getpid():
                    found[int(entry.name)] = words
        return found

    def close(self) -> None:
        self.twinrig("stop", "main")
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class TabbyRig(EngineRig):
    """tabbyAPI's stand-in, which replays the log of one of its versions."""

    def prepare(self) -> None:
        self.tabby = Tabby(self.folder)
        self.tabby.fake(form=self.log_form)

    def write_profile(self, *, missing_model: bool = False) -> None:
        self.tabby.profile(**({"model": ModelRef(MISSING)} if missing_model else {}))

    def store_key(self) -> None:
        path = self.tabby.checkout / "api_tokens.yml"
        path.write_text(f"api_key: {KEY}\nadmin_key: owner-{KEY}\n")

    def make_ill(self) -> None:
        assert self.complete(KEY, "FATAL")[0] == 503

    def metrics(self) -> EngineMetrics:
        return EngineMetrics.from_counters(self.record().get("log_counters", {}))

    @property
    def port(self) -> int:
        return self.tabby.port


class OldTabbyRig(TabbyRig):
    log_form = "2024-03"


class FormerTabbyRig(TabbyRig):
    log_form = "2024-08"


class NewTabbyRig(TabbyRig):
    log_form = "2026-08"


class VllmRig(EngineRig):
    """The real vLLM of TWINRIG_REAL_VLLM, on the CPU."""

    def prepare(self) -> None:
        engine = Path(os.environ["TWINRIG_REAL_VLLM"])
        model = write_model(self.folder / "tiny-llama")
        self._home = VllmHome(self.home, engine, model, self.environ)
        self._port = free_port()

    def write_profile(self, *, missing_model: bool = False) -> None:
        changes = {"model": ModelRef(MISSING, "tiny")} if missing_model else {}
        self._home.add_profile("main", self._port, **changes)

    def store_key(self) -> None:
        done = self.twinrig("profiles", "key", "main", "--in-file", stdin=f"{KEY}\n")
        assert done.returncode == 0, done.stderr

    def make_ill(self) -> None:
        cores = [p for (p, _), w in self._home.processes_of("main").items() if "EngineCore" in w]
        assert cores
        for pid in cores:
            os.kill(pid, signal.SIGKILL)

    def metrics(self) -> EngineMetrics:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=30) as page:
            return parse_vllm_metrics(page.read().decode())

    @property
    def port(self) -> int:
        return self._port
