"""Double-click start on Windows: sets Twinrig up with a small window, then opens the panel.

No console is involved; faults are shown in a message box.
"""

import os
import sys

SUPPORTED = ((3, 11), (3, 12), (3, 13))
HERE = os.path.dirname(os.path.abspath(__file__))


def show(text):
    """A message box; on other systems, standard error."""
    if os.name == "nt":
        import ctypes

        ctypes.windll.user32.MessageBoxW(None, text, "Twinrig", 0x10)
    else:
        sys.stderr.write(text + "\n")


def main(argv):
    """Set up and open the panel; every fault ends in a message box."""
    if sys.version_info[:2] not in SUPPORTED:
        show(
            "Twinrig needs Python 3.11, 3.12 or 3.13; this is Python %d.%d.\n\n"
            "Install Python 3.13 from the Microsoft Store or from python.org,"
            " then open this file again." % sys.version_info[:2]
        )
        return 1
    sys.path.insert(0, HERE)
    try:
        from bootstrap.window import run

        return run(os.path.dirname(HERE), argv, show)
    except Exception as error:  # nothing else would ever be seen
        show("Starting Twinrig failed: %s: %s" % (type(error).__name__, error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
