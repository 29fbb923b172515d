"""Runs one instance of a task and stays with it: ``task_engine.py HOME NAME``.

The process gets the user's own environment, no console and no input. It starts later than /Run
returns. Only a program that cannot be started is tried again; its exit code is nobody's business.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cmdline import command_line_to_argv
from scheduler import ENDED, RUNNING, Tasks, kill, seconds
from store import Store

NOT_FOUND, BAD_FOLDER = 0x80070002, 0x8007010B
_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]")


def main(home: str, name: str) -> None:
    if os.fork():  # whoever asked must not wait
        os._exit(0)
    tasks = Tasks(Store(home))
    clock = float(tasks.store.state()["clock"])
    tries = int(tasks.value(name, "Settings/RestartOnFailure/Count", "0") or 0)
    pause_s = seconds(tasks.value(name, "Settings/RestartOnFailure/Interval", "PT0S")) / clock
    limit_s = seconds(tasks.value(name, "Settings/ExecutionTimeLimit", "PT72H")) / clock
    time.sleep(tasks.setting["start_s"])
    process = start(tasks, name)
    while process is None and tries > 0:
        tries -= 1
        time.sleep(pause_s)
        process = start(tasks, name)
    if process is not None:
        keep(tasks, name, process, limit_s)


def start(tasks: Tasks, name: str) -> subprocess.Popen[bytes] | None:
    command = os.path.expandvars(tasks.value(name, "Actions/Exec/Command")).strip('"')
    words = command_line_to_argv("x " + tasks.value(name, "Actions/Exec/Arguments"))[1:]
    folder = tasks.value(name, "Actions/Exec/WorkingDirectory")
    environment = {"PATH": os.environ["PATH"], **tasks.setting["environment"]}
    if _WINDOWS_PATH.match(command):  # under Wine: it makes the user's environment itself
        environment = {**os.environ, **tasks.setting["environment"]}
        words, command = [command, *words], os.environ.get("TWINRIG_DOUBLE_WINE", "wine")
        folder = ""
    if folder and not Path(folder).is_dir():
        tasks.note(name, result=BAD_FOLDER)
        return None
    try:
        process = subprocess.Popen(
            [command, *words],
            env=environment,
            cwd=folder or "/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        tasks.note(name, result=NOT_FOUND)
        return None
    instances = tasks.instances(name)
    tasks.note(name, result=RUNNING, instances=[*instances, {"pid": process.pid}])
    session = tasks.store.home / "session"
    session.mkdir(exist_ok=True)
    (session / str(process.pid)).write_text("task")
    return process


def keep(tasks: Tasks, name: str, process: subprocess.Popen[bytes], limit_s: float) -> None:
    result = RUNNING
    try:
        process.wait(limit_s or None)
    except subprocess.TimeoutExpired:
        kill(process.pid, tree=True)
        process.wait()
        result = ENDED
    (tasks.store.home / "session" / str(process.pid)).unlink(missing_ok=True)
    if tasks.exists(name):
        was_ended = tasks.status(name).get("result") == ENDED or result == ENDED
        code = ENDED if was_ended else process.returncode & 0xFFFFFFFF
        tasks.note(name, result=code, instances=tasks.instances(name))


if __name__ == "__main__":
    main(*sys.argv[1:])
