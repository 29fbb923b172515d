"""Which files of the wheels a user needs; everything else stays out of the release."""

from __future__ import annotations

from fnmatch import fnmatchcase

_RUNTIME = (
    "msvcp140.dll",
    "msvcp140_1.dll",
    "msvcp140_2.dll",
    "msvcp140_codecvt_ids.dll",
    "vcruntime140.dll",
    "vcruntime140_1.dll",
)
_MODULES = ("Core", "Gui", "Widgets", "Svg", "Network")
QT_FILES = frozenset(
    {
        *(f"PySide6/{name}.py" for name in ("__init__", "_config", "_git_pyside_version")),
        *(f"PySide6/support/{name}.py" for name in ("__init__", "deprecated")),
        *(f"PySide6/Qt{name}.pyd" for name in _MODULES),
        *(f"PySide6/Qt6{name}.dll" for name in _MODULES),
        *(f"PySide6/{name}" for name in ("pyside6.abi3.dll", *_RUNTIME)),
        "PySide6/plugins/platforms/qwindows.dll",
        "PySide6/plugins/platforms/qoffscreen.dll",
        "PySide6/plugins/styles/qmodernwindowsstyle.dll",
        "PySide6/plugins/iconengines/qsvgicon.dll",
        "PySide6/plugins/imageformats/qico.dll",
        "PySide6/plugins/imageformats/qsvg.dll",
        "PySide6/translations/qtbase_ja.qm",
        *(f"shiboken6/{name}.py" for name in ("__init__", "_config")),
        "shiboken6/_git_shiboken_module_version.py",
        *(f"shiboken6/{name}" for name in ("Shiboken.pyd", "shiboken6.abi3.dll", *_RUNTIME)),
    }
)
"""Every file of Qt that is shipped. The list is complete: a build without one of them stops."""

_LEFT_OUT = (
    "*.pyc",
    "*.pyi",
    "*.lib",
    "*/tests/*",
    "*/testing/*",
    "*.dist-info/RECORD",
    "*.dist-info/WHEEL",
    "*.dist-info/top_level.txt",
    "yaml/_yaml*.pyd",  # not signed; PyYAML works without it
    "_yaml/*",
)


def wanted(name: str) -> bool:
    """Whether a file of a wheel, named from ``site-packages``, belongs in the release."""
    if name.startswith(("PySide6/", "shiboken6/")):
        return name in QT_FILES
    return not any(fnmatchcase(name, pattern) for pattern in _LEFT_OUT)
