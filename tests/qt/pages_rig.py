"""A demo workbench for tests of the pages: real services over the simulated machine.

Only the controller is a stand-in (no process is started); it refuses like the real one, and its
log is a real file read by the real reader.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QProgressBar,
    QTabBar,
    QTableView,
    QTreeView,
    QWidget,
)

from qt.panel_rig import NOW_S, RigFolders
from twinrig import assets
from twinrig.checks.registry import CHECKS
from twinrig.domain.errors import ConflictError, HostError
from twinrig.domain.gpu import DriverInfo, GpuInfo
from twinrig.domain.install import EngineInstall
from twinrig.domain.ports import HttpResponse, WslDistros
from twinrig.domain.server import ServerState
from twinrig.domain.supervision import ServerRecord, StateLayout
from twinrig.engines.registry import load_engines
from twinrig.engines.setup_table import WheelBuild
from twinrig.fixes.registry import load_fixes
from twinrig.hosts.demo.host import DemoHost
from twinrig.hosts.demo.windows import DemoWindows
from twinrig.hosts.locks import FileLock
from twinrig.messages import message
from twinrig.qt.icons import Icons
from twinrig.qt.live import LiveData
from twinrig.qt.pages.base import PageContext
from twinrig.qt.settings import PanelSettings
from twinrig.qt.text import Texts
from twinrig.qt.theme import Theme
from twinrig.services.bench_store import BenchmarkStore
from twinrig.services.calibration import CalibrationStore
from twinrig.services.controller import ServerStatus
from twinrig.services.engine_setup import SetupPlan, SetupResult
from twinrig.services.estimating import Estimating, calibration_path
from twinrig.services.fixer import Fixer
from twinrig.services.history_store import HistoryStore
from twinrig.services.hub import DownloadProgress, HubLook, HubModel, ModelName
from twinrig.services.installs import EngineFinder
from twinrig.services.journal import Journal
from twinrig.services.lan import LanSharing
from twinrig.services.last_good import LastGood
from twinrig.services.log_reader import LogChunk, LogReader
from twinrig.services.models import ModelLibrary
from twinrig.services.preflight import Preflight
from twinrig.services.profile_store import ProfileStore
from twinrig.services.setup_script import PythonFound
from twinrig.services.setup_words import SetupProgress
from twinrig.services.switching import Switching


class RigClock:
    """Epoch time stands still unless moved; sleeping is real but short."""

    def __init__(self) -> None:
        self.now_s = NOW_S
        self._ticks = itertools.count()

    def now(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return next(self._ticks) * 0.001

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.02))


class RigController:
    """States by profile id; requests are remembered and refused when ``error`` is set."""

    def __init__(self, layout: StateLayout) -> None:
        self._layout = layout
        self._logs = LogReader()
        self.records: dict[str, ServerRecord] = {}
        self.alive: set[str] = set()
        self.problem = None
        self.autostart: dict[str, bool | None] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.status_error: Exception | None = None

    def set(self, record: ServerRecord, *, alive: bool = True) -> None:
        self.records[record.profile_id] = record
        (self.alive.add if alive else self.alive.discard)(record.profile_id)

    async def start(self, profile_id: str, requested_by: str) -> None:
        for other in self.alive - {profile_id}:
            raise ConflictError(
                message("The server of {profile} is running on this target.", profile=other),
                message("Stop it first: one server at a time uses both cards."),
            )
        await self._take("start", profile_id, requested_by)

    async def stop(self, profile_id: str, requested_by: str) -> None:
        await self._take("stop", profile_id, requested_by)

    async def restart(self, profile_id: str, requested_by: str) -> None:
        await self._take("restart", profile_id, requested_by)

    async def _take(self, verb: str, profile_id: str, requested_by: str) -> None:
        self.asked.append((verb, profile_id, requested_by))
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error

    async def status(self, profile_id: str) -> ServerStatus:
        if self.status_error is not None:
            raise self.status_error
        return ServerStatus(
            profile_id,
            self.records.get(profile_id),
            profile_id in self.alive,
            None,
            self.problem,
            self.autostart.get(profile_id),
        )

    async def active(self) -> ServerStatus | None:
        for profile_id in sorted(self.alive):
            return await self.status(profile_id)
        return None

    async def active_record(self) -> ServerRecord | None:
        for profile_id in sorted(self.alive):
            return self.records.get(profile_id)
        return None

    def read_log(
        self, profile_id: str, file_id: str = "", offset: int = -1, limit_bytes: int = 262144
    ) -> LogChunk:
        return self._logs.read(self._layout.log(profile_id), file_id, offset, limit_bytes)

    async def set_autostart(self, profile_id: str, enabled: bool) -> None:
        self.asked.append(("autostart", profile_id, str(enabled)))
        if self.autostart.get(profile_id) is None:
            raise HostError(message("This system cannot start a server at logon."))
        self.autostart[profile_id] = enabled


class RigSetup:
    """Set-ups as a test plays them: ``steps`` are told, then ``error`` or a result."""

    def __init__(self) -> None:
        self.engines: tuple[str, ...] = ()
        self.plan_error: Exception | None = None
        self.error: Exception | None = None
        self.steps: list[SetupProgress] = []
        self.gate: asyncio.Event | None = None
        self.asked: list[tuple[str, str]] = []
        self.cancelled = False
        self.replaces = ""

    async def plan(self, engine_id: str, version: str = "", cuda: int | None = None) -> SetupPlan:
        if self.plan_error is not None:
            raise self.plan_error
        build = WheelBuild(12, 525, (), "", ">=3.10")
        python = PythonFound("/usr/bin/python3", "3.12.3", True)
        root = f"/home/demo/.local/share/twinrig/engines/{engine_id}"
        return SetupPlan(
            engine_id=engine_id,
            name=load_engines(assets.read_text)[engine_id].name,
            version="0.33.0",
            build=build,
            python=python,
            root=root,
            environment=f"{root}/current/venv",
            folder="env-1",
            replaces=self.replaces,
            needs_bytes=18 * 1024**3,
            free_bytes=311 * 1024**3,
            kept_bytes=0,
            cut_off=False,
        )

    async def run(self, plan: SetupPlan, tell, profile_id: str = "") -> SetupResult:
        self.asked.append((plan.engine_id, profile_id))
        for step in self.steps:
            tell(step)
        try:
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self.error is not None:
            raise self.error
        return SetupResult("e1", plan.environment, True, False, message("vLLM is set up."))


class RigHub:
    """Hits and looks by name; a download goes on until ``gate``."""

    def __init__(self) -> None:
        self.hits: tuple[HubModel, ...] = ()
        self.looks: dict[str, HubLook] = {}
        self.error: Exception | None = None
        self.load_error: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.asked: list[tuple[str, str]] = []
        self.cancelled = False

    async def search(self, text: str, engine_id: str = "") -> tuple[HubModel, ...]:
        self.asked.append((text, engine_id))
        if self.error is not None:
            raise self.error
        return self.hits

    async def look(self, names):
        for name in names:
            yield self.looks.get(str(name), HubLook(name))

    async def download(self, name: ModelName, tell, folder: str = "") -> str:
        self.asked.append(("download", str(name)))
        tell(DownloadProgress(10, 100, "x"))
        try:
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self.load_error is not None:
            raise self.load_error
        return f"/home/demo/models/{name.repo}"


class RigOutside:
    """HTTP as another device would ask; ``status`` None: nobody answers."""

    def __init__(self) -> None:
        self.status: int | None = 401

    async def get(self, url: str, *, timeout_s: float, token: str | None = None) -> HttpResponse:
        if self.status is None:
            raise HostError(message("Nobody answers."))
        return HttpResponse(self.status, b"")


class RigSecrets:
    """Kept while the test runs."""

    place = "The system's keyring"
    lasting = True

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def get(self, name: str) -> str | None:
        return self.kept.get(name)

    async def set(self, name: str, value: str) -> None:
        self.kept[name] = value


class NoGpuProbe:
    """Two cards without load; nothing is sampled."""

    def devices(self) -> tuple[GpuInfo, ...]:
        return tuple(GpuInfo(i, f"GPU-{i}", "RTX 5070", None, simulated=True) for i in range(2))

    def driver(self) -> DriverInfo:
        return DriverInfo(None, None)

    def sample(self) -> tuple[()]:
        return ()

    def close(self) -> None:
        return None


@dataclass
class PageWorkbench:
    """As ``services.workbench.Workbench``, of the demo rig."""

    root: Path
    target: str = "demo"
    label: str = "Demo rig"
    demo: bool = True
    on_wsl: bool = True
    distro: str = ""
    distros: WslDistros | None = None
    service_kind: str = "systemd-user"
    clock: RigClock = field(default_factory=RigClock)

    def __post_init__(self) -> None:
        state = self.root / "state" / self.target
        self.layout = StateLayout(state)
        self.host = DemoHost(state)
        self.engines = load_engines(assets.read_text)
        self.profiles = ProfileStore(self.root / "config" / "profiles", self.engines)
        self.models = ModelLibrary(self.host)
        built_in = {"demo": EngineInstall("demo", "/home/demo", "1.0", "/usr/bin/python3")}
        self.installs = EngineFinder(self.host, self.engines, built_in=built_in)
        self.preflight = Preflight(
            self.host, CHECKS, self.installs, self.clock, windows=DemoWindows()
        )
        self.journal = Journal(state / "journal.jsonl")
        self.fixer = Fixer(
            self.host,
            self.profiles,
            self.journal,
            self.preflight,
            load_fixes(assets.read_text("advice/fixes.yaml")),
            self.clock,
            self.target,
        )
        self.controller = RigController(self.layout)
        self.setup = RigSetup()
        self.hub = RigHub()
        self.secrets = RigSecrets()
        self.outside = RigOutside()

    def open_gpu_probe(self) -> NoGpuProbe:
        return NoGpuProbe()

    def open_lock(self) -> FileLock:
        return FileLock(self.layout.root)

    def estimating(self) -> Estimating:
        store = CalibrationStore(calibration_path(self.layout.root))
        return Estimating(
            self.host,
            self.open_gpu_probe,
            self.controller,
            self.clock,
            store,
            self.on_wsl,
            self.engines,
        )

    def lan(self) -> LanSharing:
        return LanSharing(self.preflight, self.outside, self.engines)

    def last_good(self) -> LastGood:
        return LastGood(self.layout, self.profiles)

    def switching(self) -> Switching:
        return Switching(self.controller, self.profiles, self.last_good(), self.target)

    def benchmark_store(self) -> BenchmarkStore:
        return BenchmarkStore(self.layout.root / "benchmarks.json")

    def history_store(self) -> HistoryStore:
        return HistoryStore(self.layout.root / "history.sqlite3")

    def write_log(self, profile_id: str, text: str, *, mode: str = "a") -> None:
        path = self.layout.log(profile_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding="utf-8") as handle:
            handle.write(text)


def make_profile(workbench: PageWorkbench, name: str, model: str = "/models/Qwen3-8B") -> str:
    """Save a profile of the demo engine; its id."""
    draft = workbench.profiles.draft(
        "demo", name=name, target="demo", model_path=model, gpu_count=2, on_wsl=True
    )
    workbench.profiles.save(draft)
    return draft.id


def state_record(
    profile_id: str, state: ServerState = ServerState.READY, **changes
) -> ServerRecord:
    values = {
        "profile_id": profile_id,
        "target": "demo",
        "engine_id": "demo",
        "run_id": "run-1",
        "state": state,
        "updated_at_s": NOW_S,
        "supervisor_pid": 4711,
        "started_at_s": NOW_S - 3700,
        "ready_at_s": NOW_S - 3661 if state is ServerState.READY else None,
        "base_url": "http://127.0.0.1:8000",
        "model_id": "Qwen3-8B",
    }
    values.update(changes)
    return ServerRecord(**values)


class ScriptedDialogs:
    """Answers in order; a question nobody expected fails the test."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, ...]] = []

    def _next(self, *question: str):
        self.asked.append(question)
        assert self.answers, f"unexpected question {question}"
        return self.answers.pop(0)

    def choose(self, parent, title, text, buttons, default):
        return self._next("choose", title, text, *buttons)

    def ask_text(self, parent, title, label, text):
        return self._next("ask_text", title, label, text)

    def open_file(self, parent, title, pattern):
        return self._next("open_file", title)

    def save_file(self, parent, title, name, pattern):
        return self._next("save_file", title, name)

    def open_folder(self, parent, title, start):
        return self._next("open_folder", title, start)

    def show_in_desktop(self, folder):
        return self._next("show_in_desktop", str(folder))


def page_context(qapp, bridge, workbench: PageWorkbench, navigated: list[str]) -> PageContext:
    """A context over ``workbench``; ``navigated`` collects where pages wanted to go."""
    texts = Texts()
    config = workbench.root / "config"
    return PageContext(
        workbench=workbench,
        bridge=bridge,
        texts=texts,
        theme=Theme(qapp, "light"),
        icons=Icons(),
        live=LiveData(workbench, bridge, 1.0),
        settings=PanelSettings(config / "panel.ini"),
        navigate=navigated.append,
        report=_unexpected,
        folders=RigFolders.below(workbench.root),
        apply_language=texts.set_language,
    )


def _unexpected(error: BaseException) -> None:
    raise AssertionError(f"reported: {error!r}")


def named(page: QWidget, kind: type, name: str):
    """The one visible widget of this kind with this accessible name."""
    found = [
        w for w in page.findChildren(kind) if w.accessibleName() == name and w.isVisibleTo(page)
    ]
    assert len(found) == 1, f"{len(found)} widgets named {name!r}"
    return found[0]


def visible_texts(page: QWidget) -> str:
    """All texts of labels that can be seen, a line each."""
    return "\n".join(w.text() for w in page.findChildren(QLabel) if w.isVisibleTo(page))


def unnamed(page: QWidget) -> list[str]:
    """Interactive widgets without an accessible name."""
    kinds = (QAbstractButton, QLineEdit, QComboBox, QPlainTextEdit, QAbstractItemView, QProgressBar)
    inner = ("qt_spinbox_lineedit", "qt_scrollarea_viewport", "ScrollLeftButton")
    return [
        f"{type(w).__name__} {w.objectName()}"
        for kind in kinds
        for w in page.findChildren(kind)
        if w.isVisibleTo(page)
        and not w.accessibleName()
        and not _belongs_to_qt(w)
        and w.objectName() not in inner
    ]


def _belongs_to_qt(widget: QWidget) -> bool:
    """Parts that Qt makes itself: headers, tab scrollers, popup lists, clear buttons."""
    if isinstance(widget, QHeaderView):
        return True
    parent = widget.parent()
    while parent is not None:
        if isinstance(parent, QTabBar | QLineEdit | QTableView | QTreeView):
            return True
        if type(parent).__name__ == "QComboBoxPrivateContainer":
            return True
        parent = parent.parent()
    return False
