"""Starts Twinrig from a checkout: sets it up in .venv when needed, then runs it.

    python3 installer/start.py [ARGS]      ARGS go to twinrig
    python3 installer/start.py test        runs the tests instead

This file alone is written for any Python since 2.7, so that an unsupported one can say so in a
sentence. Everything else is in the folder bootstrap beside it (Python 3.11 to 3.13).
"""

import os
import subprocess
import sys

SUPPORTED = ((3, 13), (3, 12), (3, 11))
CHOSEN = "TWINRIG_START_CHOSEN"
HERE = os.path.dirname(os.path.abspath(__file__))


def candidates():
    """Commands that may be a supported Python, newest first."""
    if os.name == "nt":
        return [["py", "-%d.%d" % version] for version in SUPPORTED]
    return [["python%d.%d" % version] for version in SUPPORTED]


def works(command):
    """Whether this command is a supported Python; a shim that leads nowhere is not."""
    code = "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"
    try:
        child = subprocess.Popen(
            command + ["-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        output = child.communicate()[0].decode("ascii", "replace").strip()
    except OSError:
        return False
    return child.returncode == 0 and output in ["%d.%d" % version for version in SUPPORTED]


def other_python(argv):
    """Go on with a supported Python of this machine, or say what is needed."""
    if not os.environ.get(CHOSEN):
        for command in candidates():
            if works(command):
                environ = dict(os.environ)
                environ[CHOSEN] = "1"
                return subprocess.call(command + [os.path.abspath(__file__)] + argv, env=environ)
    sys.stderr.write(
        "Twinrig needs Python 3.11, 3.12 or 3.13; this is Python %d.%d (%s).\n"
        "Install one of them, then run: python3.13 installer/start.py\n"
        % (sys.version_info[0], sys.version_info[1], sys.executable)
    )
    return 1


def main(argv):
    """Set up and run; the exit code is Twinrig's own."""
    if sys.version_info[:2] not in SUPPORTED:
        return other_python(argv)
    sys.dont_write_bytecode = not os.access(HERE, os.W_OK)
    from bootstrap.main import run

    return run(os.path.dirname(HERE), argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
