"""Stand-ins for ports, as strict as the real ones, shared by the tests of services and cli."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from twinrig.domain.errors import ConflictError, FieldError, HostError
from twinrig.domain.install import InstallLayout
from twinrig.domain.metrics import EngineMetrics, ServerSetup
from twinrig.domain.options import Option, OptionGroup, OptionKind
from twinrig.domain.ports import CommandResult, FolderEntry, HttpResponse
from twinrig.domain.profile import EngineRef, EnvEntry, ModelRef, Profile
from twinrig.messages import message


def option(id: str, kind: OptionKind, **rest: object) -> Option:
    return Option(id, id, kind, OptionGroup.CONTEXT, id, "", **rest)  # type: ignore[arg-type]


TABLE = (
    option("context_length", OptionKind.INT, minimum=1, maximum=1_000_000),
    option("share", OptionKind.FLOAT, minimum=0, maximum=1),
    option("eager", OptionKind.BOOL),
    option("cache_mode", OptionKind.TEXT),
    option("dtype", OptionKind.CHOICE, choices=("auto", "half")),
    option("skip", OptionKind.LIST),
    option("speculative", OptionKind.JSON),
)


class FakeEngine:
    """An engine with one row of each kind and one rule across two fields."""

    id = "fake"
    name = "Fake engine"
    layout = InstallLayout("fakellm", "fakellm", usual_place="~/venvs/fakellm")
    simulated = False
    unguarded_paths = ()
    default_port = 8123

    def options(self, version: str = "") -> tuple[Option, ...]:
        return TABLE

    def defaults(self, *, gpu_count: int, on_wsl: bool, version: str) -> Mapping[str, object]:
        return {"context_length": 4096 * gpu_count}

    def default_env(self, *, gpu_count: int, on_wsl: bool, version: str) -> Mapping[str, EnvEntry]:
        return {"NCCL_CUMEM_ENABLE": EnvEntry("0", "WSL")} if on_wsl else {}

    def validate(self, profile: Profile) -> tuple[FieldError, ...]:
        if profile.settings.get("eager") is True and profile.settings.get("share") == 1.0:
            return (FieldError("settings.share", message("must be below 1 with eager")),)
        return ()

    def setup(self, profile: Profile) -> ServerSetup:
        return ServerSetup.from_sizes(profile.settings)

    def reads(self, profile: Profile, install: object) -> tuple[str, ...]:
        return ()

    def render(self, profile: Profile, context: object) -> tuple[object, ...]:
        return ()

    def phase_of(self, line: str) -> None:
        return None

    def parse_metrics(self, text: str) -> EngineMetrics:
        return EngineMetrics()

    def adoption_reads(self, command: object) -> None:
        return None

    def adopt(self, command: object, files: object) -> None:
        return None

    def log_meter(self) -> None:
        return None


ENGINES = {"fake": FakeEngine()}


def profile(id: str = "one", **changes: object) -> Profile:
    values: dict[str, object] = {
        "id": id,
        "name": "One",
        "target": "local",
        "engine": EngineRef("fake"),
        "model": ModelRef("/models/tiny"),
        "settings": {"context_length": 2048},
    }
    return Profile(**{**values, **changes})  # type: ignore[arg-type]


class FolderHost:
    """The files below ``root`` as the file system of a target. ``home`` is ``/home/me``."""

    label = "Test machine"
    demo = False

    def __init__(self, root: Path) -> None:
        self.root = root
        self.reachable = True
        self.listed: list[str] = []

    def real(self, path: str) -> Path:
        assert path.startswith("/"), f"{path} is not absolute"
        return self.root / path.lstrip("/")

    def _reach(self) -> None:
        if not self.reachable:
            raise HostError(message("The machine does not answer."))

    async def glance(self, folders: object, files: object) -> None:
        return None

    async def home(self) -> str:
        self._reach()
        return "/home/me"

    async def list_folder(self, path: str) -> tuple[FolderEntry, ...]:
        self._reach()
        self.listed.append(path)
        real = self.real(path)
        try:
            entries = sorted(real.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise HostError(message("{path} cannot be read.", path=path)) from error
        return tuple(
            FolderEntry(e.name, e.is_dir(), e.stat().st_size if e.is_file() else None)
            for e in entries
        )

    async def read_file(self, path: str, *, limit_bytes: int = 4 * 1024 * 1024) -> bytes | None:
        self._reach()
        try:
            data = self.real(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise HostError(message("{path} cannot be read.", path=path)) from error
        if len(data) > limit_bytes:
            raise HostError(message("{path} is too large.", path=path))
        return data

    async def write_file(
        self,
        path: str,
        data: bytes | None,
        *,
        mode: int = 0o644,
        root: bool = False,
        expected_sha256: str | None = None,
    ) -> None:
        real = self.real(path)
        present = hashlib.sha256(real.read_bytes()).hexdigest() if real.exists() else ""
        if expected_sha256 is not None and present != expected_sha256:
            raise ConflictError(message("{path} changed.", path=path))
        if data is None:
            real.unlink(missing_ok=True)
        else:
            real.parent.mkdir(parents=True, exist_ok=True)
            real.write_bytes(data)

    async def run(self, command: object, **_: object) -> CommandResult:
        raise AssertionError(f"nothing may be run here: {command}")

    async def processes(self) -> tuple[()]:
        return ()


class ManualClock:
    """Time that passes only by sleeping; ``on_sleep`` lets other parties act meanwhile."""

    def __init__(self) -> None:
        self.time_s = 1_000_000.0
        self.on_sleep: Callable[[], None] = lambda: None

    def now(self) -> float:
        return self.time_s

    def monotonic(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0, "a busy loop"
        self.time_s += seconds
        self.on_sleep()


class FakeHttp:
    """Answers by URL; what is not listed is a refused connection."""

    def __init__(self, answers: Mapping[str, int] | None = None) -> None:
        self.answers = dict(answers or {})
        self.asked: list[str] = []

    async def get(self, url: str, *, timeout_s: float, token: str | None = None) -> HttpResponse:
        self.asked.append(url)
        if url not in self.answers:
            raise HostError(message("Nobody answers at {url}.", url=url))
        return HttpResponse(self.answers[url], b"")

    async def close(self) -> None:
        return None
