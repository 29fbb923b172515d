"""The Task Scheduler behind ``schtasks.exe``: a folder of definitions, and real processes.

``state.json`` may hold, under "scheduler": ``end`` (what /End kills: "tree", "root", "nothing", or
"slow": the tree, after ``close_s``),
``service`` (false: stopped), ``denied`` (true: policy), ``folder_denied``, ``logon_denied``,
``signed_in``, ``battery``, ``start_s``, ``sid``, ``environment`` (the user's own, not that of the
caller). Times of a definition are divided by ``clock``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree

NAMESPACE = "http://schemas.microsoft.com/windows/2004/02/mit/task"
NS = f"{{{NAMESPACE}}}"
NEVER_RAN, RUNNING, ENDED = 0x41303, 0x41301, 0x41306
DEFAULTS = {
    "AllowStartOnDemand": "true",
    "MultipleInstancesPolicy": "IgnoreNew",
    "AllowHardTerminate": "true",
    "RunOnlyIfNetworkAvailable": "false",
    "RunOnlyIfIdle": "false",
    "WakeToRun": "false",
    "Hidden": "false",
    "Enabled": "true",
}
SETTINGS = {
    *DEFAULTS,
    *("DisallowStartIfOnBatteries", "StopIfGoingOnBatteries", "StartWhenAvailable"),
    *("IdleSettings", "ExecutionTimeLimit", "Priority", "RestartOnFailure"),
    *("DeleteExpiredTaskAfter", "NetworkSettings", "UseUnifiedSchedulingEngine"),
}
TOP = ("RegistrationInfo", "Triggers", "Principals", "Settings", "Data", "Actions")
BOOLEANS = {n for n in SETTINGS if n.startswith(("Allow", "Disallow", "Stop", "RunOnly"))}
BOOLEANS |= {"StartWhenAvailable", "WakeToRun", "Hidden", "Enabled"}
DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
SID = "S-1-5-21-1111-2222-3333-1001"


class Refused(Exception):
    """``key`` of a text, and what stands behind it."""

    def __init__(self, key: str, detail: str = "") -> None:
        super().__init__(key)
        self.key, self.detail = key, detail


def full_name(name: str) -> str:
    """Always from the root folder."""
    return name if name.startswith("\\") else "\\" + name


def undeclared(line: str) -> str:
    """A line without the XML declaration."""
    return re.sub(r"<\?xml[^>]*\?>", "", line)


def seconds(text: str) -> float:
    """Of a duration such as PT1M; Refused when it is none."""
    found = DURATION.fullmatch(text)
    if not found or text in ("P", "PT"):
        raise Refused("bad value 0x80041318", f" {text}")
    days, hours, minutes, secs = (int(g or 0) for g in found.groups())
    return days * 86400.0 + hours * 3600 + minutes * 60 + secs


class Tasks:
    """All registered tasks of one computer."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.folder: Path = store.home / "tasks"
        self.folder.mkdir(exist_ok=True)

    @property
    def setting(self) -> dict[str, Any]:
        """Of the scheduler, with what a normal computer has."""
        return {
            "end": "tree",
            "close_s": 1.0,
            "service": True,
            "denied": False,
            "folder_denied": False,
            "logon_denied": False,
            "signed_in": True,
            "battery": False,
            "start_s": 0.05,
            "sid": SID,
            "environment": {},
            **self.store.state().get("scheduler", {}),
        }

    def service(self) -> None:
        """Refused while the service is stopped."""
        if not self.setting["service"]:
            raise Refused("service")

    def path(self, name: str) -> Path:
        """File of a definition; names do not differ by case."""
        return self.folder / (quote(full_name(name).lower(), safe="") + ".xml")

    def exists(self, name: str) -> bool:
        return self.path(name).exists()

    def need(self, name: str) -> str:
        """Full name. Refused when there is none, or nobody may read it."""
        if not name or not self.exists(name):
            raise Refused("not_found")
        return full_name(name)

    def names(self) -> list[str]:
        return [unquote(path.stem) for path in sorted(self.folder.glob("*.xml"))]

    def text(self, name: str, readable: bool = True) -> str:
        """The definition; it says UTF-16 and is written in the code page all the same."""
        data = self.path(name).read_bytes()
        if not data.startswith(b"\xff\xfe"):
            if readable:
                raise Refused("0x80041321")
            return ""
        return data[2:].decode("utf-16-le")

    def register(self, name: str, data: bytes) -> None:
        root = _checked(data)
        self._allowed(name, root)
        _normalise(root, full_name(name))
        ElementTree.register_namespace("", NAMESPACE)
        body = ElementTree.tostring(root, encoding="unicode")
        text = '<?xml version="1.0" encoding="UTF-16"?>\r\n' + body
        self.path(name).write_bytes(b"\xff\xfe" + text.encode("utf-16-le"))
        if not self._status_path(name).exists():
            self.note(name, result=NEVER_RAN, instances=[])

    def delete(self, name: str) -> None:
        """A running instance goes on."""
        if self.setting["denied"]:
            raise Refused("denied")
        self.path(name).unlink()
        self._status_path(name).unlink(missing_ok=True)

    def enable(self, name: str, enabled: bool) -> None:
        root = self.root(name)
        settings = root.find(f"{NS}Settings")
        assert settings is not None
        element = settings.find(f"{NS}Enabled")
        if element is None:
            element = ElementTree.SubElement(settings, f"{NS}Enabled")
        element.text = "true" if enabled else "false"
        ElementTree.register_namespace("", NAMESPACE)
        text = '<?xml version="1.0" encoding="UTF-16"?>\r\n'
        text += ElementTree.tostring(root, encoding="unicode")
        self.path(name).write_bytes(b"\xff\xfe" + text.encode("utf-16-le"))

    def root(self, name: str) -> ElementTree.Element:
        return ElementTree.fromstring(undeclared(self.text(name)).strip())

    def value(self, name: str, path: str, missing: str = "") -> str:
        """Text of one element of the definition."""
        found = self.root(name).find("/".join(NS + step for step in path.split("/")))
        return missing if found is None else (found.text or "").strip()

    # ------------------------------------------------------------------ running

    def run(self, name: str) -> None:
        """Starts it soon; the caller is back before the process exists."""
        setting = self.setting
        if self.value(name, "Settings/Enabled", "true") != "true":
            raise Refused("0x80041326")
        if not setting["signed_in"]:
            raise Refused("0x80041320")
        if self.value(name, "Settings/AllowStartOnDemand", "true") != "true":
            raise Refused("0x8004130F")
        self.start(name)

    def start(self, name: str) -> None:
        """What a trigger does as well; conditions that do not hold are told to nobody."""
        on_battery = self.value(name, "Settings/DisallowStartIfOnBatteries", "true") == "true"
        if self.setting["battery"] and on_battery:
            return
        policy = self.value(name, "Settings/MultipleInstancesPolicy", "IgnoreNew")
        if self.instances(name) and policy in ("IgnoreNew", "Queue"):
            return
        if self.instances(name) and policy == "StopExisting":
            self.end(name)
        engine = str(Path(__file__).with_name("task_engine.py"))
        with subprocess.Popen(
            [sys.executable, "-I", "-S", engine, str(self.store.home), name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as starter:
            starter.wait()

    def end(self, name: str) -> None:
        """No warning, no clean-up. Whether children end too is not documented: ``end`` says."""
        mode = self.setting["end"]
        if self.value(name, "Settings/Hidden", "false") == "true" or mode == "nothing":
            return
        if mode == "slow":  # its windows are asked to close, then it is ended
            if os.fork():
                return
            time.sleep(self.setting["close_s"])
        for instance in self.instances(name):
            kill(instance["pid"], tree=mode in ("tree", "slow"))
        self.note(name, result=ENDED, instances=[])
        if mode == "slow":
            os._exit(0)

    def battery(self) -> None:
        """Mains power is gone."""
        self.store.set(scheduler={**self.store.state().get("scheduler", {}), "battery": True})
        for name in self.names():
            if self.value(name, "Settings/StopIfGoingOnBatteries", "true") == "true":
                for instance in self.instances(name):
                    kill(instance["pid"], tree=True)

    def logon(self, sid: str = SID) -> None:
        """The user signs in: what has a trigger for it starts after its delay."""
        self.store.set(scheduler={**self.store.state().get("scheduler", {}), "signed_in": True})
        for name in self.names():
            for trigger in self.root(name).findall(f"{NS}Triggers/{NS}LogonTrigger"):
                enabled = trigger.findtext(f"{NS}Enabled", "true") == "true"
                wanted = trigger.findtext(f"{NS}UserId", sid)
                switched_on = self.value(name, "Settings/Enabled", "true") == "true"
                if enabled and switched_on and wanted == sid:
                    delay = seconds(trigger.findtext(f"{NS}Delay", "PT0S"))
                    time.sleep(delay / self.store.state()["clock"])
                    self.start(name)

    def instances(self, name: str) -> list[dict[str, Any]]:
        """Those that live."""
        return [i for i in self.status(name).get("instances", []) if alive(i["pid"])]

    def state(self, name: str) -> str:
        if self.value(name, "Settings/Enabled", "true") != "true":
            return "disabled"
        return "running" if self.instances(name) else "ready"

    def status(self, name: str) -> dict[str, Any]:
        try:
            return dict(json.loads(self._status_path(name).read_text()))
        except (OSError, ValueError):
            return {}

    def note(self, name: str, **changes: Any) -> None:
        """Last result, instances."""
        path = self._status_path(name)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({**self.status(name), **changes}))
        new.replace(path)

    def _status_path(self, name: str) -> Path:
        return self.path(name).with_suffix(".json")

    def _allowed(self, name: str, root: ElementTree.Element) -> None:
        setting = self.setting
        if setting["denied"]:
            raise Refused("denied")
        if setting["folder_denied"] and full_name(name).count("\\") > 1:
            raise Refused("denied")
        logon = root.findall(f"{NS}Triggers/{NS}LogonTrigger")
        if setting["logon_denied"] and logon:
            raise Refused("denied")
        if self.store.state().get("caller", "limited") == "admin":
            return
        users = [e.text for e in root.iter(f"{NS}UserId")]
        if (
            root.find(f"{NS}Triggers/{NS}BootTrigger") is not None
            or root.find(f".//{NS}GroupId") is not None
            or any(e.text == "HighestAvailable" for e in root.iter(f"{NS}RunLevel"))
            or any(user != setting["sid"] for user in users)
            or any(trigger.find(f"{NS}UserId") is None for trigger in logon)
        ):
            raise Refused("denied")


def _checked(data: bytes) -> ElementTree.Element:
    """The definition, when Windows would take it."""
    if data.startswith(b"\xff\xfe"):
        text = data[2:].decode("utf-16-le")
    elif b"UTF-16" in data[:120].upper():
        raise Refused("(1,40)::", "unable to switch the encoding")
    else:
        text = data.decode("utf-8")
    try:
        root = ElementTree.fromstring(undeclared(text).strip())
    except ElementTree.ParseError as error:
        raise Refused("0x8004131A", f" {error}") from error
    if root.tag != f"{NS}Task" or any(e.tag.removeprefix(NS) not in TOP for e in root):
        raise Refused("0x80041316")
    if root.find(f"{NS}Actions/{NS}Exec/{NS}Command") is None:
        raise Refused("0x80041319", " Command")
    settings = root.find(f"{NS}Settings")
    for element in () if settings is None else settings:
        _check_setting(element)
    for trigger in root.findall(f"{NS}Triggers/{NS}LogonTrigger"):
        order = [e.tag.removeprefix(NS) for e in trigger]
        if [w for w in ("Enabled", "UserId", "Delay") if w in order] != order:
            raise Refused("0x80041316", " LogonTrigger")
        seconds(trigger.findtext(f"{NS}Delay", "PT0S"))
    return root


def _check_setting(element: ElementTree.Element) -> None:
    name, value = element.tag.removeprefix(NS), (element.text or "").strip()
    if name not in SETTINGS:
        raise Refused("0x80041316", f" {name}")
    if name in BOOLEANS and value not in ("true", "false"):
        raise Refused("0x80041318", f" {name}:{value}")
    if name == "Priority" and not (value.isdigit() and int(value) <= 10):
        raise Refused("0x80041318", f" {name}:{value}")
    if name == "ExecutionTimeLimit":
        seconds(value)
    if name == "RestartOnFailure":
        interval = seconds(element.findtext(f"{NS}Interval", ""))
        count = element.findtext(f"{NS}Count", "0")
        if not 60 <= interval <= 31 * 86400 or not 1 <= int(count) <= 255:
            raise Refused("0x80041318", f" {name}")


def _normalise(root: ElementTree.Element, name: str) -> None:
    """Windows keeps what differs from its defaults, in its own order, under its own name."""
    info = root.find(f"{NS}RegistrationInfo")
    if info is None:
        info = ElementTree.Element(f"{NS}RegistrationInfo")
        root.insert(0, info)
    uri = info.find(f"{NS}URI")
    if uri is None:
        uri = ElementTree.SubElement(info, f"{NS}URI")
    uri.text = name
    settings = root.find(f"{NS}Settings")
    if settings is not None:
        for element in list(settings):
            if DEFAULTS.get(element.tag.removeprefix(NS)) == (element.text or "").strip():
                settings.remove(element)
        settings[:] = sorted(settings, key=lambda e: str(e.tag))


def alive(pid: int) -> bool:
    """A zombie is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def kill(pid: int, *, tree: bool) -> None:
    """As TerminateProcess does: at once."""
    from store import descendants

    doomed = [*(descendants(pid) if tree else ()), pid]
    for each in doomed:
        with contextlib.suppress(OSError):
            os.kill(each, signal.SIGKILL)
    until = time.monotonic() + 5
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.005)
