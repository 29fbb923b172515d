"""What ``wsl.exe`` does, as Twinrig relies on it. Holds for the double and for a real Windows."""

from __future__ import annotations

import random
import re
import time

import pytest

from contract.conftest import Machine
from twinrig.hosts.wsl.decoding import decode_own, error_symbol
from twinrig.hosts.wsl.listing import parse_names, parse_verbose

FAILED = 0xFFFFFFFF
ALPHABET = ['"', "\\", "$", "'", "`", ";", "&", "|", "%", "^", "!", " ", "\t", "\n", "a", "漢", "é"]


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ('echo -n "$HOME" | grep -c /', "1\n"),
        ("echo -n '\"$HOME\"'", '"$HOME"'),
        ('echo -n "a""b"', "ab"),
        ("-- echo -n '$x'", "$x"),
        ("--shell-type none echo -n $HOME", "$HOME"),
        ("--exec echo -n $USER", "$USER"),
        ('--exec echo -n \\"a\\"', '"a"'),
        ('--exec echo -n "a""b"', 'a"b'),
        ('--exec echo -n "a b"  c', "a b c"),
        ('--exec echo ""', "\n"),
        ("--cd / --exec pwd", "/\n"),
        ('--cd "/usr" --exec pwd', "/usr\n"),
        ("-u root --exec id -un", "root\n"),
        ("~ --exec echo -n ok", "ok"),
    ],
)
def test_how_the_command_line_is_taken_apart(machine: Machine, line: str, printed: str) -> None:
    """``$`` and quotes mean something to the shell of the raw form, nothing to ``--exec``."""
    if line.startswith("-u root") and not machine.real:
        line, printed = '-u root --exec sh -c "echo -n $USER"', "root"
    if line.startswith("~"):
        line = line.removeprefix("~ ")
    assert machine.raw(line).out.decode() == printed


def test_random_words_survive_exec(machine: Machine) -> None:
    chance = random.Random(11)
    for _ in range(200 if machine.real else 25):
        words = ["".join(chance.choices(ALPHABET, k=chance.randrange(20))) for _ in range(6)]
        done = machine.launch("/usr/bin/printf", "%s\\0", *words)
        assert done.out.decode().split("\0")[:-1] == words


def test_bytes_go_through_unchanged(machine: Machine) -> None:
    data = random.Random(12).randbytes(1024 * 1024)
    assert machine.launch("/bin/cat", stdin=data).out == data


def test_a_carriage_return_breaks_a_script(machine: Machine) -> None:
    done = machine.launch("/bin/bash", "--noprofile", "--norc", "-s", stdin=b"true\r\n")
    assert done.code == 127


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 255])
def test_exit_codes(machine: Machine, code: int) -> None:
    assert machine.sh(f"exit {code}").code == code


@pytest.mark.parametrize("code", [67, 87])
def test_two_codes_are_never_seen(machine: Machine, code: int) -> None:
    """Twinrig's own codes travel in the frame for this reason."""
    assert machine.sh(f"exit {code}").code == FAILED


@pytest.mark.parametrize("number", [9, 15])
def test_a_signal_is_its_bare_number(machine: Machine, number: int) -> None:
    assert machine.sh(f"kill -{number} $$").code == number


def test_a_missing_program_is_1_with_a_line_on_stderr(machine: Machine) -> None:
    done = machine.launch("/no/such/program")
    assert done.code == 1
    assert b"execvpe(/no/such/program) failed" in done.err


def test_the_list_is_read(machine: Machine) -> None:
    machine.sh("true")
    done = machine.run("--list", "--verbose")
    running = parse_names(decode_own(machine.run("--list", "--running", "--quiet").out))
    found = {d.name: d for d in parse_verbose(decode_own(done.out), running)}
    assert machine.distro in running
    assert found[machine.distro].state == "running"
    assert found[machine.distro].version == 2
    assert sum(d.default for d in found.values()) == 1
    assert set(found) == set(parse_names(decode_own(machine.run("--list", "--quiet").out)))


def test_own_text_is_utf16_unless_asked(machine: Machine) -> None:
    wide = {k: v for k, v in machine.environ.items() if k != "WSL_UTF8"}
    narrow = machine.run("--list", "--verbose").out
    assert b"\0" not in narrow
    assert b"\r\n" in narrow
    raw = machine.run("--list", "--verbose", env=wide).out
    assert raw.decode("utf-16-le") == narrow.decode()
    assert decode_own(raw) == decode_own(narrow)


def test_errors_stand_on_stdout_with_a_path(machine: Machine) -> None:
    missing = machine.run("-d", "no-such-distro-here", "--exec", "true")
    assert missing.code == FAILED
    assert error_symbol(decode_own(missing.out)) == "WSL_E_DISTRO_NOT_FOUND"
    nobody = machine.run("-d", machine.distro, "-u", "no-such-user", "--exec", "true")
    assert nobody.code == FAILED
    assert error_symbol(decode_own(nobody.out)) == "WSL_E_USER_NOT_FOUND"


def test_the_environment_is_not_handed_on(machine: Machine) -> None:
    env = {
        **machine.environ,
        "WSLENV": "GIVEN/u",
        "GIVEN": "yes",
        "KEPT": "secret",
        "WSL_UTF8": "1",
    }
    done = machine.run("-d", machine.distro, "--cd", "/", "--exec", "env", env=env)
    assert b"GIVEN=yes" in done.out
    assert b"secret" not in done.out
    plain = machine.launch("env").out.decode()
    assert "/usr/lib/wsl/lib" in plain
    assert f"WSL_DISTRO_NAME={machine.distro}" in plain


def test_a_missing_folder_does_not_keep_it_from_running(machine: Machine) -> None:
    done = machine.run("-d", machine.distro, "--cd", "/no/such", "--exec", "echo", "ran")
    assert (done.code, done.out) == (0, b"ran\n")


def test_standard_input_ends(machine: Machine) -> None:
    assert machine.launch("/bin/cat").out == b""
    done = machine.launch("/bin/true", stdin=b"x" * 300_000)
    assert done.code == 0


def test_a_terminal_is_always_there(machine: Machine) -> None:
    """So a hang-up reaches the command when ``wsl.exe`` is gone."""
    assert machine.sh("test -c /dev/tty && : < /dev/tty && echo yes").out == b"yes\n"


def seen(machine: Machine, marker: str, limit_s: float = 10.0) -> bool:
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        if machine.sh(f"test -e {marker}").code == 0:
            return True
        time.sleep(0.1)
    return False


def test_killing_the_client_hangs_up_and_never_terminates(machine: Machine, marker: str) -> None:
    text = (
        f"trap 'touch {marker}.hup; exit' HUP; trap 'touch {marker}.term; exit' TERM; "
        f"touch {marker}; while :; do sleep 0.1; done"
    )
    process = machine.popen("-d", machine.distro, "--cd", "/", "--exec", "/bin/bash", "-c", text)
    assert seen(machine, marker)
    process.kill()
    process.communicate()
    assert seen(machine, f"{marker}.hup")
    assert not seen(machine, f"{marker}.term", 0.5)
    machine.sh(f"rm -f {marker}*")


@pytest.mark.parametrize(
    ("start", "lives"),
    [
        ("{cmd} &", False),
        ("nohup {cmd} >/dev/null 2>&1 & sleep 1", True),
        ("setsid -f {cmd}; sleep 1", True),
    ],
)
def test_what_lives_on_when_the_main_program_ends(
    machine: Machine, marker: str, start: str, lives: bool
) -> None:
    tag = marker.rpartition("-")[2]
    command = f"bash -c 'exec -a w{tag} sleep 60'"
    machine.sh(start.format(cmd=command))
    time.sleep(0.5)
    alive = machine.sh(f"pgrep -f '[w]{tag}'").code == 0
    machine.sh(f"pkill -f '[w]{tag}'")
    assert alive is lives


@pytest.mark.parametrize("shell", ["trap '' HUP; {cmd}", "setsid -w {cmd}"])
def test_what_lives_on_when_the_client_is_killed(machine: Machine, marker: str, shell: str) -> None:
    """An orphan that still holds the cards: this is why the server runs in the foreground."""
    tag = marker.rpartition("-")[2]
    text = f"touch {marker}; " + shell.format(cmd=f"bash -c 'exec -a w{tag} sleep 60'")
    process = machine.popen("-d", machine.distro, "--cd", "/", "--exec", "/bin/bash", "-c", text)
    assert seen(machine, marker)
    process.kill()
    process.communicate()
    time.sleep(0.5)
    found = machine.sh(f"pgrep -f '[w]{tag}'").out
    machine.sh(f"pkill -f '[w]{tag}'; rm -f {marker}")
    assert found


def test_terminating_ends_a_call_with_1_and_no_more(machine: Machine, marker: str) -> None:
    process = machine.popen(
        "-d", machine.distro, "--cd", "/", "--exec", "/bin/sh", "-c", f"touch {marker}; sleep 60"
    )
    assert seen(machine, marker)
    assert machine.run("--terminate", machine.distro).code == 0
    process.communicate(timeout=60)
    assert machine.code(process) == 1
    assert machine.run("--terminate", machine.distro).code == 0


def running(machine: Machine) -> bool:
    return machine.distro in parse_names(decode_own(machine.run("-l", "--running", "-q").out))


def test_looking_starts_nothing(machine: Machine) -> None:
    machine.run("--terminate", machine.distro)
    for words in (["-l", "-v"], ["-l", "-q"], ["--status"], ["--version"], ["-l", "--running"]):
        machine.run(*words)
    assert not running(machine)


def test_an_unused_distribution_stops_after_a_while(machine: Machine) -> None:
    """15 s after the last ``wsl.exe``; what only Linux started does not count."""
    machine.sh("true")
    assert running(machine)
    time.sleep(15 * machine.second_s + 5 * max(machine.second_s, 0.2))
    assert not running(machine)


def test_a_client_keeps_it_up(machine: Machine) -> None:
    process = machine.popen("-d", machine.distro, "--cd", "/", "--exec", "/bin/sleep", "600")
    time.sleep(25 * machine.second_s + 0.5)
    assert running(machine)
    process.kill()
    process.communicate()
    time.sleep(15 * machine.second_s + 5 * max(machine.second_s, 0.2))
    assert not running(machine)


def test_the_version_is_told_line_by_line(machine: Machine) -> None:
    lines = decode_own(machine.run("--version").out).splitlines()
    assert len(lines) >= 6
    assert re.fullmatch(r"\d+(\.\d+)+", re.split(r"[:：]\s*", lines[0])[-1])
