"""Start a server that was just installed, ask for one sampled reply, and stop it again.

Sent by ``engine.sh`` to the engine's own Python (3.10 or later); standard library only.

    python -I -c TEXT NONCE REQUEST

REQUEST is JSON: argv, env, unset, cwd, files (path, text, mode), port, ready_path, reply_path,
body, token, start_s, reply_s, stop_s. What the server says goes to stdout as it comes; the last
line of a good end is "NONCE tokens N". Files that were not there before are gone afterwards.
"""

import contextlib
import ctypes
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time

PAUSE_S = 0.5
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG: the server does not outlive this program


class Failed(Exception):
    """Why there was no reply."""


def write(files):
    """Write all files; names of those that are new."""
    new = []
    for path, text, mode in files:
        if not os.path.lexists(path):
            new.append(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as file:
            os.chmod(path, mode)
            file.write(text)
    return new


def launch(request):
    """The server in a session of its own; its output is passed on line by line."""
    libc = ctypes.CDLL(None)
    env = {k: v for k, v in os.environ.items() if k not in request["unset"]}
    server = subprocess.Popen(
        request["argv"],
        cwd=request["cwd"],
        env={**env, **request["env"]},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=lambda: libc.prctl(DEATH_SIGNAL, signal.SIGTERM),
    )

    def follow():
        for line in server.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    threading.Thread(target=follow, daemon=True).start()
    return server


def ask(request, method, path, body=None, timeout=10.0):
    """Status and text; None while nobody listens."""
    head = {"Content-Type": "application/json"}
    if request["token"]:
        head["Authorization"] = "Bearer " + request["token"]
    line = http.client.HTTPConnection("127.0.0.1", request["port"], timeout=timeout)
    try:
        line.request(method, path, None if body is None else json.dumps(body), head)
        answer = line.getresponse()
        return answer.status, answer.read(1 << 20).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        line.close()


def wait_until_ready(server, request):
    """Returns when the readiness path answers 200."""
    end = time.monotonic() + request["start_s"]
    while time.monotonic() < end:
        code = server.poll()
        if code is not None:
            raise Failed(f"the server ended with {code}")
        answer = ask(request, "GET", request["ready_path"])
        if answer is not None and answer[0] == 200:
            return
        time.sleep(PAUSE_S)
    raise Failed(f"the server was not ready in {request['start_s']:.0f} seconds")


def first_tokens(request):
    """How many tokens the reply has; at least one."""
    answer = ask(request, "POST", request["reply_path"], request["body"], request["reply_s"])
    if answer is None:
        raise Failed("the server did not answer the request")
    status, text = answer
    try:
        count = json.loads(text)["usage"]["completion_tokens"]
    except (ValueError, KeyError, TypeError):
        count = None
    if status != 200 or not isinstance(count, int) or count < 1:
        raise Failed(f"the answer to the request was {status}: {text[:300]}")
    return count


def stop(server, grace_s):
    """TERM, then KILL for all of its session; nothing is left when this returns."""
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        with contextlib.suppress(ProcessLookupError):
            if number is signal.SIGTERM:
                server.send_signal(number)
            else:
                os.killpg(server.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(wait_s)


def say(text):
    """On a line of its own, whatever the server wrote before."""
    sys.stdout.write(f"\n{text}\n")
    sys.stdout.flush()


def main():
    """Exit code 0 after a reply, 1 without one."""
    nonce, request = sys.argv[1], json.loads(sys.argv[2])
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(1))
    new = write(request["files"])
    server = None
    try:
        server = launch(request)
        wait_until_ready(server, request)
        tokens = first_tokens(request)
    except (Failed, OSError) as error:
        say(f"no first reply: {error}")
        return 1
    finally:
        if server is not None:
            stop(server, request["stop_s"])
        for path in new:
            with contextlib.suppress(OSError):
                os.unlink(path)
    say(f"{nonce} tokens {tokens}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
