"""The launcher's own judgement, without a process: what it asks, refuses and believes."""

from __future__ import annotations

import asyncio

import pytest

from fixtures.supervision import make_spec
from twinrig.domain.errors import HostAwayError, HostError
from twinrig.domain.launch import FileSpec, StopSignal
from twinrig.domain.ports import CommandResult, ExitStatus
from twinrig.domain.wsl import DistroState, WslDistro
from twinrig.hosts.wsl import launcher as launcher_module
from twinrig.hosts.wsl.launcher import WslServerLauncher
from twinrig.hosts.wsl.server import WslConnection, WslServer, exit_status
from twinrig.messages import message

NONCE = "0123456789abcdef0123456789abcdef"


class Distros:
    def __init__(self):
        self.awake = {"ubuntu"}
        self.chosen = 0

    async def running(self):
        return frozenset(self.awake)

    async def choose(self, wanted=""):
        self.chosen += 1
        return WslDistro("Ubuntu", DistroState.RUNNING)


class Host:
    def __init__(self):
        self.asked = []
        self.output = b""
        self.code: int | None = 0
        self.error: HostError | None = None

    async def run(self, script, *, timeout_s=30.0):
        self.asked.append((script.name, *script.args))
        if self.error is not None:
            raise self.error
        return CommandResult((), self.code, self.output, b"", 0.1, self.code is None)


@pytest.fixture
def distros():
    return Distros()


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def launcher(distros, host):
    return WslServerLauncher(lambda: "/nowhere/wsl.exe", {}, host, distros)


async def test_survivors_are_read_in_the_order_of_their_start(launcher, host):
    host.output = b"30 1 900 python -m  x\n20 1 100 \n10 30 500 a b\nnoise\n"
    found = await launcher.survivors("run1")
    assert [(p.pid, p.parent_pid, p.title) for p in found] == [
        (20, 1, ""),
        (10, 30, "a b"),
        (30, 1, "python -m  x"),
    ]
    assert host.asked == [("survivors", "run1", "drop")]


async def test_a_distribution_that_sleeps_is_not_asked(launcher, host, distros):
    distros.awake = {"debian"}
    assert await launcher.survivors("run1") == ()
    assert await launcher.shared_memory_of([1]) == ()
    await launcher.remove_shared_memory(["/dev/shm/x"])
    assert host.asked == []
    assert distros.chosen == 1


@pytest.mark.parametrize("run_id", ["", "../../etc", "a b", "x" * 101])
async def test_what_is_no_run_id_is_not_asked_about(launcher, host, run_id):
    assert await launcher.survivors(run_id) == ()
    assert host.asked == []


async def test_only_processes_that_were_seen_are_signalled(launcher, host):
    await launcher.signal_processes([10], StopSignal.TERM)
    assert host.asked == []
    host.output = b"10 1 500 x\n"
    await launcher.survivors("run1")
    await launcher.signal_processes([10, 11], StopSignal.KILL)
    assert host.asked[-1] == ("signal", "KILL", "10:500")


@pytest.mark.parametrize("code", [None, 1, 127])
async def test_no_answer_is_a_machine_that_is_away(launcher, host, code):
    host.code = code
    with pytest.raises(HostAwayError, match="what is left"):
        await launcher.survivors("run1")


async def test_the_environment_of_a_process(launcher, host):
    host.output = b"A=1=2\0B=\0\0noise\0=x\0C=a\nb\xff\0"
    assert await launcher.environment_of(7) == {"A": "1=2", "B": "", "C": "a\nb\udcff"}
    host.code = 1
    assert await launcher.environment_of(7) is None
    host.error = HostAwayError(message("WSL does not answer."))
    assert await launcher.environment_of(7) is None


async def test_shared_memory_is_listed_and_asked_only_for_somebody(launcher, host):
    host.output = b"/dev/shm/b\n/dev/shm/a\n\n"
    assert await launcher.shared_memory_of([1, 2]) == ("/dev/shm/a", "/dev/shm/b")
    assert host.asked == [("shared-memory", "1", "2")]
    assert await launcher.shared_memory_of([]) == ()
    await launcher.remove_shared_memory([])
    assert len(host.asked) == 1
    await launcher.remove_shared_memory(["/dev/shm/a"])
    assert host.asked[-1] == ("remove-memory", "/dev/shm/a")


def test_a_launch_travels_by_standard_input():
    spec = make_spec(
        argv=("/v/bin/python", "", "x y"),
        env={"A": "1\n2"},
        unset=("B", "C"),
        files=(FileSpec("/f", "text", 0o640), FileSpec("/g", "", keep_previous=True)),
        cwd="/w",
    )
    words = launcher_module._launch_input(spec, "run1").decode().split("\0")
    assert words == [
        *("run1", "/w"),
        *("2", "640", "", "/f", "text", "600", "keep", "/g", ""),
        *("2", "B", "C"),
        *("1", "A=1\n2"),
        *("/v/bin/python", "", "x y", "END", ""),
    ]
    with pytest.raises(HostError, match="cannot be passed"):
        launcher_module._launch_input(make_spec(argv=("a\0b",)), "run1")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("REFUSED\tfile\t/f\tNo space left on device", "/f cannot be written: No space left"),
        ("REFUSED\tfolder\t/w\t", "The folder /w does not exist"),
        ("REFUSED\tprogram\tx\tPermission denied", "/bin/true cannot be started: Permission"),
        ("REFUSED", "/bin/true cannot be started"),
        ("STARTED\tx\t1", "cannot be started"),
        ("STARTED\t1", "cannot be started"),
        ("rubbish", "cannot be started"),
    ],
)
async def test_a_refusal_in_words(launcher, line, words):
    class Connection:
        async def first_line(self, _limit_s):
            return True, line

    with pytest.raises(HostError, match=words):
        await launcher._first_words(Connection(), "Ubuntu", make_spec())


async def test_the_first_line_names_the_process(launcher):
    class Connection:
        async def first_line(self, _limit_s):
            return True, "STARTED\t12\t3456"

    assert await launcher._first_words(Connection(), "Ubuntu", make_spec()) == (12, 3456)


async def test_a_start_that_shows_nothing_asks_whether_wsl_answers(launcher, distros):
    waits: list[float] = []

    class Connection:
        async def first_line(self, limit_s):
            waits.append(limit_s)
            return False, None

    with pytest.raises(HostAwayError, match="did not start within"):
        await launcher._first_words(Connection(), "Ubuntu", make_spec())
    assert waits == [15.0, 105.0]

    async def hang():
        raise HostAwayError(message("WSL does not answer."))

    distros.running = hang
    with pytest.raises(HostAwayError, match="does not answer"):
        await launcher._first_words(Connection(), "Ubuntu", make_spec())


class Client:
    """A ``wsl.exe`` whose streams a test writes."""

    def __init__(self):
        self.stdout = asyncio.StreamReader()
        self.stderr = asyncio.StreamReader()
        self.killed = self.closed = False
        self.fed = b""

    async def feed(self, data):
        self.fed += data

    def kill(self):
        self.killed = True
        for stream in (self.stdout, self.stderr):
            if not stream.at_eof():
                stream.feed_eof()

    def close(self):
        self.closed = True

    async def ended(self):
        return 0


def connect(client, output):
    return WslConnection(client, NONCE, b"request", output.extend)


async def test_the_first_line_is_ours_and_the_rest_the_servers():
    client, output = Client(), bytearray()
    connection = connect(client, output)
    client.stdout.feed_data(f"Welcome!\nBEGIN {NONCE}\nSTART".encode())
    assert await connection.first_line(0.05) == (False, None)
    client.stdout.feed_data(b"ED\t1\t2\nhello\n")
    assert await connection.first_line(1.0) == (True, "STARTED\t1\t2")
    client.stdout.feed_data(f"more\n\x1eEND {NONCE} 3\n".encode())
    await asyncio.wait_for(asyncio.wait([connection.over]), 1.0)
    assert (bytes(output), connection.reader.status) == (b"hello\nmore\n", 3)
    assert client.fed == b"request"
    await connection.close()
    assert client.closed


async def test_an_end_without_a_line():
    client = Client()
    connection = connect(client, bytearray())
    client.stderr.feed_data(b"wsl: trouble" * 10_000)
    client.kill()
    assert await connection.first_line(1.0) == (True, None)
    await connection.close()
    assert 0 < len(connection.errors) <= 131_072


async def served(send=None):
    client, output = Client(), bytearray()
    connection = connect(client, output)
    client.stdout.feed_data(f"BEGIN {NONCE}\nSTARTED\t5\t77\nhello".encode())
    await connection.first_line(1.0)
    ends, sent = [], []

    async def remember(pid, start, signal):
        sent.append((pid, start, signal))
        if send is not None:
            await send(client)

    server = WslServer(connection, 5, 77, remember, lambda: ends.append(1))
    return client, server, output, ends, sent


async def test_an_end_that_is_told():
    client, server, output, ends, _ = await served()
    client.stdout.feed_data(f"\x1eEND {NONCE} 137\n".encode())
    assert await asyncio.wait_for(server.wait(), 5.0) == ExitStatus(None, 9)
    assert await server.wait() == ExitStatus(None, 9)
    assert (bytes(output), ends, server.pid) == (b"hello", [1], 5)


async def test_an_end_that_nobody_tells_is_the_machines():
    client, server, output, _, _ = await served()
    client.stdout.feed_data(b"\nEND of story")
    client.stdout.feed_eof()
    assert await asyncio.wait_for(server.wait(), 5.0) == ExitStatus(None, machine_gone=True)
    assert bytes(output) == b"hello\nEND of story"


async def test_a_signal_goes_to_the_process_of_this_start():
    async def dies(client):
        client.stdout.feed_data(f"\x1eEND {NONCE} 0\n".encode())

    _, server, _, _, sent = await served(dies)
    await server.signal(StopSignal.TERM)
    assert sent == [(5, 77, StopSignal.TERM)]
    assert await asyncio.wait_for(server.wait(), 5.0) == ExitStatus(0)
    await server.signal(StopSignal.KILL)
    assert len(sent) == 1, "it is gone already"


async def test_where_no_signal_arrives_kill_cuts_it_off():
    async def hangs(_client):
        raise HostAwayError(message("WSL does not answer."))

    client, server, _, _, _ = await served(hangs)
    await server.signal(StopSignal.TERM)
    assert not client.killed
    await server.signal(StopSignal.KILL)
    assert client.killed
    assert await asyncio.wait_for(server.wait(), 5.0) == ExitStatus(None, 9)


def test_how_the_shell_tells_an_end():
    assert exit_status(0) == ExitStatus(0)
    assert exit_status(1) == ExitStatus(1)
    assert exit_status(127) == ExitStatus(127)
    assert exit_status(128) == ExitStatus(128)
    assert exit_status(129) == ExitStatus(None, 1)
    assert exit_status(137) == ExitStatus(None, 9)
    assert exit_status(143) == ExitStatus(None, 15)
    assert exit_status(192) == ExitStatus(None, 64)
    assert exit_status(193) == ExitStatus(193)
    assert exit_status(247) == ExitStatus(247), "no signal has this number"
    assert exit_status(None) == ExitStatus(None, machine_gone=True)
    assert exit_status(None, cut=True) == ExitStatus(None, 9)
