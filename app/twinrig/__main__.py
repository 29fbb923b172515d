"""``python -m twinrig``: decides between panel and terminal; everything heavy comes later."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from twinrig import __version__

_PANEL_OPTIONS = ("--target", "--distro", "--language", "--replay", "--smoke")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 fine, 1 findings or failed, 2 wrong usage, 3 could not tell."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_missing_streams()
    if words in (["--version"], ["-V"]):
        sys.stdout.write(f"twinrig {__version__}\n")
        return 0
    _tolerate_narrow_encodings()
    panel = _panel_options(words)
    if panel is not None and "--smoke" in panel:
        from twinrig.composition.smoke import run_smoke

        target = panel.get("--target", "auto")
        return run_smoke(panel["--smoke"], target, panel.get("--language"), os.environ)
    if panel is not None:
        from twinrig.composition.panel import display_present, open_panel

        if display_present(os.environ):
            try:
                return open_panel(
                    _target(panel),
                    panel.get("--language"),
                    hidden="--hidden" in panel,
                    replay=panel.get("--replay", ""),
                )
            except ImportError as error:
                sys.stderr.write(f"twinrig: Qt cannot be loaded ({error}); terminal view.\n")
        words = _without_window(panel)
    from twinrig.composition.terminal import run_terminal

    return run_terminal(words)


def _panel_options(words: Sequence[str]) -> dict[str, str] | None:
    """Options of a call without a verb; None when the command line has to parse it."""
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name == "--hidden" and not equals:
            found[name] = ""
        elif name in _PANEL_OPTIONS and (equals or rest):
            found[name] = value if equals else rest.pop(0)
        else:
            return None
    return found


def _target(panel: Mapping[str, str]) -> str:
    """A distribution means the target wsl, which is then named ``wsl:NAME``."""
    target, distro = panel.get("--target", "auto"), panel.get("--distro", "")
    return f"wsl:{distro}" if distro and target in ("auto", "wsl") else target


def _without_window(panel: Mapping[str, str]) -> list[str]:
    """The command that shows in the terminal what the panel would have shown."""
    kept = [name for name in ("--target", "--distro", "--language") if name in panel]
    common = [word for name in kept for word in (name, panel[name])]
    if "--replay" in panel:
        return [*common, "watch", "--replay", panel["--replay"]]
    return [*common, "up"]


def _open_missing_streams() -> None:
    """Without a console (pythonw.exe, ``>&-``) Python has no streams; nobody reads them then."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _tolerate_narrow_encodings() -> None:
    """A console of an old code page shows a question mark instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
