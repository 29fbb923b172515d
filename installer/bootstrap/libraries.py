"""System libraries that Qt loads on Linux, and the Debian packages that hold them.

Qt's own message blames libxcb-cursor0 whichever of its X11 libraries is missing, so all of them
are tried here first. A platform without a window (tests) needs the first group only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping

DRAWING: Mapping[str, str] = {
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libdbus-1.so.3": "libdbus-1-3",
    "libglib-2.0.so.0": "libglib2.0-0",
}
WINDOW: Mapping[str, str] = {
    "libX11.so.6": "libx11-6",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xinerama.so.0": "libxcb-xinerama0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}


def loads(soname: str) -> bool:
    """Whether the dynamic linker finds and loads this library."""
    try:
        ctypes.CDLL(soname)
    except OSError:
        return False
    return True


def missing(window: bool, load: Callable[[str], bool] = loads) -> tuple[str, ...]:
    """Debian packages whose library does not load; ``window`` asks for those of X11 too."""
    wanted = {**DRAWING, **(WINDOW if window else {})}
    return tuple(package for soname, package in wanted.items() if not load(soname))
