"""The Windows side of the double: what ``wsl.exe`` prints, returns and relays."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import cmdline
import texts
from entry import Call
from linux_view import make_kernel

FAILED = 0xFFFFFFFF
NOTE = ""
_HERE = Path(__file__).parent


def main(call: Call) -> int:
    """Exit code, 32 bits."""
    return Client(call).run()


class Client:
    """One run of ``wsl.exe``."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.state = call.store.state()
        self.flags = set(self.state["flags"])
        self.language = texts.TEXTS[self.state["language"]]
        self.inbox = "inbox" in self.flags

    def run(self) -> int:
        parsed = cmdline.parse(self.call.cmdline)
        if "hang_all" in self.flags and parsed.verb != "shutdown":
            _for_ever()
        if "stub_orphan" in self.flags and "TWINRIG_DOUBLE_INNER" not in os.environ:
            return self._stub()
        self._nag()
        if parsed.error:
            return self._fail(parsed.error, f"Wsl/{parsed.error}")
        if parsed.verb:
            return int(getattr(self, f"_{parsed.verb.replace('-', '_')}", self._accept)(parsed))
        return self._launch(parsed)

    def say(self, text: str) -> None:
        """Own text goes to stdout, errors too."""
        self._write(self.call.stdout, text)

    def _nag(self) -> None:
        """A notice of a new version, on standard output before anything else."""
        if "nagging" in self.flags:
            self._write(self.call.stdout, f"{self.language['nag']}\nhttps://aka.ms/wslinstall\n\n")

    def _write(self, stream: Any, text: str) -> None:
        data = text.replace("\n", "\r\n")
        narrow = self.call.environ.get("WSL_UTF8") == "1" and not self.inbox
        raw = data.encode("utf-8" if narrow else "utf-16-le")
        step = 3 if "split" in self.flags else len(raw) or 1
        for at in range(0, len(raw), step):
            stream.write(raw[at : at + step])
            stream.flush()

    def _fail(self, text: str, path: str) -> int:
        self.say(f"{self.language.get(text, text)}\n{self.language['code']}{path}\n")
        return FAILED

    def _stub(self) -> int:
        """System32's program: a child does the work, and lives on when only this one is killed."""
        inner = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_HERE / "entry.py"), "wsl", *self.call.argv],
            env={
                **os.environ,
                "TWINRIG_DOUBLE_INNER": "1",
                "TWINRIG_DOUBLE_CMDLINE": self.call.cmdline,
            },
        )
        inner.wait()
        return int((self.call.home / "last_rc").read_text())

    # Management verbs: none of them starts a distribution.

    def _list(self, parsed: cmdline.Parsed) -> int:
        words = set(parsed.words)
        quiet, verbose = bool(words & {"-q", "--quiet"}), bool(words & {"-v", "--verbose"})
        distros = sorted(self.state["distros"], key=lambda d: not d["default"])
        if "--running" in words:
            distros = [d for d in distros if d["state"] == "Running"]
            if not distros and not quiet:
                self.say(self.language["none_running"] + "\n")
                return FAILED
        elif not distros and not quiet:
            self.say(self.language["no_distros"] + "\n")
            return FAILED
        if quiet:
            self.say("".join(f"{d['name']}\n" for d in distros))
        elif verbose:
            self.say(self._table(distros))
        else:
            names = (
                d["name"] + (self.language["default"] if d["default"] else "") for d in distros
            )
            self.say("\n".join([self.language["plain_head"], *names]) + "\n")
        return 0

    def _table(self, distros: list[dict[str, Any]]) -> str:
        width = max(4, *(len(d["name"]) for d in distros)) + 4
        head = texts.INBOX_HEAD if self.inbox else self.language["head"]
        lines = [head.format(name="NAME".ljust(width))]
        for distro in distros:
            mark = "* " if distro["default"] else "  "
            word = distro["state"]
            word = texts.INBOX_STATES.get(word, word) if self.inbox else word
            lines.append(f"{mark}{distro['name']:<{width}}{word:<16}{distro['version']}")
        return "\n".join(lines) + "\n"

    def _version(self, _: cmdline.Parsed) -> int:
        if self.inbox:
            return self._help(_)
        self.say(self.language["version"].format(v="2.6.1.0") + "\n")
        return 0

    def _status(self, _: cmdline.Parsed) -> int:
        default = [d["name"] for d in self.state["distros"] if d["default"]]
        self.say(self.language["status"].format(name=default[0] if default else "") + "\n")
        return 0

    def _help(self, _: cmdline.Parsed) -> int:
        self.say(self.language["usage"] + "\n")
        return FAILED

    def _terminate(self, parsed: cmdline.Parsed) -> int:
        distro = self.call.store.distro(parsed.words[0] if parsed.words else "")
        if distro is None:
            return self._fail("DISTRO_NOT_FOUND", "Wsl/Service/WSL_E_DISTRO_NOT_FOUND")
        self.call.store.stop(distro["name"])
        self.say(self.language["done"] + "\n")
        return 0

    def _shutdown(self, _: cmdline.Parsed) -> int:
        if "hang_shutdown" in self.flags:
            _for_ever()
        self.call.store.stop_all()
        cured = ("e_unexpected", "hang_all", "hang_launch", "relay_dead")
        left = [f for f in self.flags if f not in cured]
        self.call.store.flag(*left)
        return 0

    def _update(self, parsed: cmdline.Parsed) -> int:
        self.call.store.stop_all()
        return self._accept(parsed)

    def _unregister(self, parsed: cmdline.Parsed) -> int:
        distro = self.call.store.distro(parsed.words[0] if parsed.words else "")
        if distro is None:
            return self._fail("DISTRO_NOT_FOUND", "Wsl/Service/WSL_E_DISTRO_NOT_FOUND")
        self.call.store.uninstall(distro["name"])
        self.say(self.language["done"] + "\n")
        return 0

    def _accept(self, parsed: cmdline.Parsed) -> int:
        """``answers`` of the computer say what it prints and returns."""
        answer = self.state["answers"].get(parsed.verb, {})
        if answer.get("text"):
            self.say(answer["text"] + "\n")
        return int(answer.get("rc", 0)) & FAILED

    # Launches.

    def _launch(self, parsed: cmdline.Parsed) -> int:
        refusal = self._refusal()
        if refusal is not None:
            return self._fail(*refusal)
        if not self.state["distros"]:
            self.say(self.language["no_distros"] + "\n")
            return FAILED
        distro = self._chosen(parsed.distro)
        if distro is None:
            return self._fail("DISTRO_NOT_FOUND", "Wsl/Service/WSL_E_DISTRO_NOT_FOUND")
        if distro["state"] not in ("Running", "Stopped"):
            return self._fail("ILLEGAL", "Wsl/Service/CreateInstance/E_ILLEGAL_STATE_CHANGE")
        if parsed.user not in ("", "root", distro["user"]):
            return self._fail("USER_NOT_FOUND", "Wsl/Service/CreateInstance/WSL_E_USER_NOT_FOUND")
        if "hang_launch" in self.flags:
            _for_ever()
        link = self._connect(distro)
        if link is None:
            return 1
        self._warn()
        if parsed.folder is None and "lost_folder" in self.flags:
            self._write(self.call.stderr, "wsl: Failed to translate 'Z:\\\\work'\n")
            parsed.folder = "~"
        return self._relay(link, self._request(parsed, distro))

    def _refusal(self) -> tuple[str, str] | None:
        table = {
            "e_unexpected": ("E_UNEXPECTED", "Wsl/Service/CreateInstance/E_UNEXPECTED"),
            "vmp_missing": ("VMP", "Wsl/Service/CreateInstance/CreateVm/HCS/0x80370102"),
            "vm_crashed": ("E_UNEXPECTED", "Wsl/Service/CreateInstance/WSL_E_VM_CRASHED"),
            "sharing": (
                "E_UNEXPECTED",
                "Wsl/Service/CreateInstance/MountDisk/ERROR_SHARING_VIOLATION",
            ),
        }
        return next((table[flag] for flag in table if flag in self.flags), None)

    def _chosen(self, wanted: str) -> dict[str, Any] | None:
        if wanted:
            return self.call.store.distro(wanted)
        return next((d for d in self.state["distros"] if d["default"]), None)

    def _warn(self) -> None:
        """Windows' own warnings on standard error, and those of Linux, each as it encodes."""
        if "mixed" in self.flags:
            if self.call.environ.get("WSL_DISABLE_WARNINGS") != "1" or self.inbox:
                self._write(self.call.stderr, self.language["warning"] + "\n")
            self.call.stderr.write("wsl: Failed to mount D:\\, 詳細は dmesg\n".encode())
            self.call.stderr.flush()
        if "noise" in self.flags:
            self.call.stdout.write(
                b"Welcome! \xe3\x82\x88\xe3\x81\x86\xe3\x81\x93\xe3\x81\x9d\nEND 0\n"
            )
            self.call.stdout.flush()

    def _connect(self, distro: dict[str, Any]) -> socket.socket | None:
        """To the init of the distribution, which is started when it does not run."""
        store = self.call.store
        with store.changing() as state:
            mine = next(d for d in state["distros"] if d["name"] == distro["name"])
            if not mine["init"] or not Path(f"/proc/{mine['init']}").exists():
                store.socket(distro["name"]).unlink(missing_ok=True)
                if store.boot(state):
                    self._boot(state, mine)
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_HERE / "init.py"), store.home, mine["name"]],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=(store.home / "init.log").open("ab"),
                    start_new_session=True,
                    cwd="/",
                )
                mine["init"], mine["state"] = process.pid, "Running"
        link = socket.socket(socket.AF_UNIX)
        until = time.monotonic() + 120
        while time.monotonic() < until:
            try:
                link.connect(str(store.socket(distro["name"])))
                return link
            except OSError:
                found = store.distro(distro["name"])
                if (
                    found is None
                    or not found["init"]
                    or not Path(f"/proc/{found['init']}").exists()
                ):
                    return None
                time.sleep(0.01)
        return None

    def _boot(self, state: dict[str, Any], distro: dict[str, Any]) -> None:
        """The virtual machine: its kernel's settings are those of all distributions."""
        store = self.call.store
        make_kernel(store.home / "kernel", state["kernel"], str(distro["ptrace_scope"]))
        time.sleep(float(state["vm_boot_s"]) / state["clock"])

    def _request(self, parsed: cmdline.Parsed, distro: dict[str, Any]) -> dict[str, Any]:
        user = parsed.user or distro["user"]
        words = list(parsed.words)
        if "old_empty_arguments" in self.flags:
            words = [word for word in words if word]
        login = parsed.shell_type == "login" or parsed.mode == "shell"
        if parsed.mode != "exec":
            words = [distro["shell"], *(["-c", parsed.raw] if parsed.mode == "raw" else [])]
        global NOTE
        NOTE = f"user={user} mode={parsed.mode} distro={distro['name']}"
        return {
            "words": words,
            "argv0": f"-{Path(words[0]).name}" if login else words[0],
            "user": user,
            "folder": parsed.folder,
            "env": self._handed_over(),
        }

    def _handed_over(self) -> dict[str, str]:
        """Only what WSLENV lists crosses."""
        found = {}
        for entry in self.call.environ.get("WSLENV", "").split(":"):
            name, _, flags = entry.partition("/")
            if name in self.call.environ and set(flags) <= set("uwpl"):
                found[name] = self.call.environ[name]
        return found

    def _relay(self, link: socket.socket, request: dict[str, Any]) -> int:
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        data = json.dumps(request).encode()
        socket.send_fds(link, [len(data).to_bytes(4, "big")], [stdin[0], stdout[1], stderr[1]])
        try:
            link.sendall(data)
        except OSError:
            return 1
        for end in (stdin[0], stdout[1], stderr[1]):
            os.close(end)
        threading.Thread(target=self._pump, args=(stdin[1],), daemon=True).start()
        code = self._copy(link, {stdout[0]: self.call.stdout, stderr[0]: self.call.stderr})
        if code is None:
            return 1  # the connection is gone: nothing else tells
        return FAILED if self._rewritten(code) else code

    def _rewritten(self, code: int) -> bool:
        if code == 67:
            self._fail("USER_NOT_FOUND", "Wsl/Service/WSL_E_USER_NOT_FOUND")
        elif code == 87:
            self._fail("E_UNEXPECTED", "Wsl/Service/WSL_E_TTY_LIMIT")
        return code in (67, 87)

    def _pump(self, end: int) -> None:
        source = self.call.stdin.fileno()
        try:
            while chunk := os.read(source, 65536):
                view = memoryview(chunk)
                while view:
                    view = view[os.write(end, view) :]
        except OSError:
            pass
        os.close(end)

    def _copy(self, link: socket.socket, streams: dict[int, Any]) -> int | None:
        """Until the main program ended; then what has arrived already."""
        code, over, heard = None, False, b""
        while streams or not over:
            waiting = [*streams, *([] if over else [link])]
            ready, _, _ = select.select(waiting, [], [], 0.05 if over else None)
            if over and not ready:
                break
            for source in ready:
                if source is link:
                    chunk = link.recv(4096)
                    heard += chunk
                    if not chunk:
                        over = True
                        code = json.loads(heard)["exit"] if heard else None
                    continue
                chunk = os.read(source, 3 if "split" in self.flags else 65536)
                if chunk:
                    streams[source].write(chunk)
                    streams[source].flush()
                else:
                    del streams[source]
        return code


def _for_ever() -> None:
    while True:
        time.sleep(60)
