"""The Windows release without Windows: what goes in, what is refused, and the same bytes twice."""

from __future__ import annotations

import hashlib
import io
import struct
import time
import zipfile
from pathlib import Path

import pytest

from bootstrap.problems import Problem
from windows import embed, icon, images, lists, pack, selection, stage, wheels
from windows.main import run

ROOT = Path(__file__).resolve().parents[3]


def pe_image(machine: int = images.MACHINE_X64, signed: bool = True) -> bytes:
    """The smallest head of a 64-bit program file, with or without a signature behind it."""
    head = bytearray(0x200)
    head[:2] = b"MZ"
    struct.pack_into("<I", head, 0x3C, 0x80)
    head[0x80:0x84] = b"PE\0\0"
    struct.pack_into("<H", head, 0x84, machine)
    struct.pack_into("<H", head, 0x80 + 24, 0x20B)
    if signed:
        struct.pack_into("<II", head, 0x80 + 24 + 112 + 32, 0x200, 64)
    return bytes(head) + (b"\1" * 64 if signed else b"")


PYTHON_FILES = {
    "python.exe": pe_image(),
    "pythonw.exe": pe_image(),
    "python313.dll": pe_image(),
    "python3.dll": pe_image(),
    "python313.zip": b"PK",
    "python313._pth": b"python313.zip\r\n.\r\n",
    "LICENSE.txt": b"PSF",
}


def zipped(path: Path, files: dict[str, bytes], prefix: str = "") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(prefix + name, data)
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def embed_zip(tmp_path: Path) -> Path:
    return zipped(tmp_path / "embed.zip", PYTHON_FILES, "cp313/")


@pytest.fixture
def wheel_files(tmp_path: Path) -> list[Path]:
    """Wheels with everything that is shipped of Qt, and much that is not."""
    qt = {
        name: pe_image() if name.endswith(images.SUFFIXES) else b"x" for name in selection.QT_FILES
    }
    qt |= {"PySide6/Qt6Quick.dll": pe_image(), "PySide6/QtCore.pyi": b"", "PySide6/uic.exe": b"MZ"}
    yaml = {
        "yaml/__init__.py": b"y",
        "yaml/_yaml.cp313-win_amd64.pyd": pe_image(signed=False),
        "pyyaml-6.dist-info/licenses/LICENSE": b"MIT",
        "pyyaml-6.dist-info/RECORD": b"",
    }
    other = {"other-1.data/purelib/other.py": b"o", "other-1.data/scripts/other.exe": b"MZ"}
    found = []
    for name, files in {"qt": qt, "yaml": yaml, "other": other}.items():
        found.append(zipped(tmp_path / f"{name}.whl", files))
    return found


# -- CPython -----------------------------------------------------------------------------------


def test_an_unknown_python_is_refused_until_its_hash_is_told(embed_zip: Path) -> None:
    with pytest.raises(Problem, match="not a known CPython") as caught:
        embed.read_embed(embed_zip)
    assert "--python-sha256" in caught.value.next_step
    with pytest.raises(Problem, match="has the SHA-256"):
        embed.read_embed(embed_zip, "0" * 64)
    files = embed.read_embed(embed_zip, sha256(embed_zip).upper())
    assert files["python313._pth"].decode().splitlines() == list(embed.SEARCH_PATH)
    assert set(files) == set(PYTHON_FILES), "the folder inside the zip is left out"


def test_a_pinned_python_needs_no_hash(embed_zip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "PINNED", {sha256(embed_zip): "test"})
    assert embed.read_embed(embed_zip)["LICENSE.txt"] == b"PSF"
    with pytest.raises(Problem, match="has the SHA-256"):
        embed.read_embed(embed_zip, "0" * 64)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({**PYTHON_FILES, "python313.dll": pe_image(0x14C)}, "64-bit"),
        ({**PYTHON_FILES, "python313.dll": b"not a program"}, "64-bit"),
        ({n: d for n, d in PYTHON_FILES.items() if n != "pythonw.exe"}, "pythonw.exe not in it"),
        ({"python312.dll": pe_image()}, "not an embeddable CPython 3.13"),
    ],
)
def test_another_python_is_refused(tmp_path: Path, files: dict[str, bytes], says: str) -> None:
    path = zipped(tmp_path / "x.zip", files)
    with pytest.raises(Problem, match=says):
        embed.read_embed(path, sha256(path))


def test_files_that_are_no_python_at_all(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    page = tmp_path / "page.zip"
    page.write_text("<html>404</html>")
    with pytest.raises(Problem, match="not a zip file"):
        embed.read_embed(page, sha256(page))
    assert run(["--python-embed", str(tmp_path / "absent.zip")]) == 1
    told = capsys.readouterr().err
    assert "cannot be read" in told and "--python-embed" in told


# -- wheels ------------------------------------------------------------------------------------


def test_pins_for_windows_are_chosen_for_windows() -> None:
    text = (ROOT / "installer" / "requirements" / "windows.txt").read_text("utf-8")
    chosen = wheels.requirements_for_windows(text).splitlines()
    names = {line.partition("==")[0] for line in chosen}
    assert {"pywin32-ctypes", "pyside6-essentials", "shiboken6", "keyring"} <= names
    assert not {"backports-tarfile", "importlib-metadata"} & names, "needed before Python 3.12 only"
    assert all("--hash=sha256:" in line and ";" not in line for line in chosen)
    assert text.count("--hash=") > len(chosen)


def test_files_of_a_wheel_land_where_they_are_imported(wheel_files: list[Path]) -> None:
    other = next(path for path in wheel_files if path.name == "other.whl")
    assert dict(wheels.files_of(other)) == {"other.py": b"o"}


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("PySide6/QtWidgets.pyd", True),
        ("PySide6/Qt6Network.dll", True),
        ("PySide6/plugins/platforms/qwindows.dll", True),
        ("PySide6/translations/qtbase_ja.qm", True),
        ("PySide6/translations/qtbase_de.qm", False),
        ("PySide6/opengl32sw.dll", False),
        ("PySide6/Qt6Quick.dll", False),
        ("PySide6/designer.exe", False),
        ("shiboken6/include/shiboken.h", False),
        ("keyring-25.7.0.dist-info/entry_points.txt", True),
        ("keyring-25.7.0.dist-info/RECORD", False),
        ("keyring/testing/backend.py", False),
        ("win32ctypes/tests/test_win32api.py", False),
        ("yaml/_yaml.cp313-win_amd64.pyd", False),
        ("certifi/cacert.pem", True),
    ],
)
def test_what_of_the_wheels_is_shipped(name: str, kept: bool) -> None:
    assert selection.wanted(name) is kept


def test_every_qt_module_that_the_panel_imports_is_shipped() -> None:
    used = set()
    for path in (ROOT / "app" / "twinrig" / "qt").rglob("*.py"):
        for line in path.read_text("utf-8").splitlines():
            if line.strip().startswith("from PySide6."):
                used.add(line.split()[1].removeprefix("PySide6.Qt"))
    assert len(used) >= 4
    for module in used:
        assert {f"PySide6/Qt{module}.pyd", f"PySide6/Qt6{module}.dll"} <= selection.QT_FILES


# -- staging -----------------------------------------------------------------------------------


def staged(embed_zip: Path, wheel_files: list[Path]) -> dict[str, bytes]:
    python = embed.read_embed(embed_zip, sha256(embed_zip))
    return stage.release_files(ROOT, python, wheel_files, b"icon")


def test_the_release_holds_the_program_its_resources_and_licences(
    embed_zip: Path, wheel_files: list[Path]
) -> None:
    files = staged(embed_zip, wheel_files)
    assert {
        "python/pythonw.exe",
        "python/Lib/site-packages/PySide6/QtCore.pyd",
        "python/Lib/site-packages/other.py",
        "app/twinrig/__main__.py",
        "app/twinrig/_resources/i18n/ja.mo",
        "app/twinrig/_resources/licences/LICENSE",
        "licences/LICENSE.txt",
        "licences/LGPL-3.0.txt",
        "licences/GPL-3.0.txt",
        "licences/THIRD-PARTY-NOTICES.md",
        "twinrig.ico",
    } <= set(files)
    odd = (".pyc", ".po", ".pyi", ".whl")
    assert not [name for name in files if name.endswith(odd) or "__pycache__" in name]
    assert not [name for name in files if "Quick" in name or "scripts/" in name]
    assert b"pythonw.exe" in files["Start Twinrig.cmd"] and b"\r\n" in files["twinrig.cmd"]


def test_a_wheel_without_a_listed_file_stops_the_build(
    embed_zip: Path, wheel_files: list[Path]
) -> None:
    with pytest.raises(Problem, match=r"QtCore\.pyd"):
        staged(embed_zip, wheel_files[1:])


def test_an_unsigned_program_stops_the_build(
    embed_zip: Path, wheel_files: list[Path], tmp_path: Path
) -> None:
    loose = zipped(tmp_path / "fast.whl", {"fast/_speedups.pyd": pe_image(signed=False)})
    with pytest.raises(Problem, match=r"Not signed.*_speedups\.pyd"):
        staged(embed_zip, [*wheel_files, loose])


@pytest.mark.parametrize("name", ["PYYAML/X.py", "yaml/__INIT__.py", "a:b.py", "x/" + "y" * 150])
def test_names_that_windows_cannot_have_stop_the_build(
    embed_zip: Path, wheel_files: list[Path], tmp_path: Path, name: str
) -> None:
    extra = zipped(tmp_path / "extra.whl", {name: b"", "pyyaml/x.py": b""})
    with pytest.raises(Problem, match="on Windows"):
        staged(embed_zip, [*wheel_files, extra])


def test_a_stage_is_the_same_whenever_it_is_written(
    embed_zip: Path, wheel_files: list[Path], tmp_path: Path
) -> None:
    files = staged(embed_zip, wheel_files)
    hashes = []
    for number, order in enumerate((sorted(files), sorted(files, reverse=True))):
        folder = tmp_path / f"stage-{number}"
        (folder / "python").mkdir(parents=True)
        (folder / "python" / "left-over.dll").write_text("of an earlier build")
        stage.write_stage({name: files[name] for name in order}, folder)
        times = {path.stat().st_mtime for path in folder.rglob("*")}
        assert times == {stage.STAMP_S}
        assert not (folder / "python" / "left-over.dll").exists()
        pack.make_zip(folder, order, "Twinrig-1", tmp_path / f"{number}.zip")
        hashes.append(sha256(tmp_path / f"{number}.zip"))
        time.sleep(0.01)
    assert hashes[0] == hashes[1]


def test_signatures_are_told_apart() -> None:
    assert images.is_signed(pe_image())
    assert not images.is_signed(pe_image(signed=False))
    assert not images.is_signed(pe_image()[:-1]), "cut off within its signature"
    assert not images.is_signed(b"MZ") and not images.is_signed(b"")
    assert images.unsigned({"a.dll": pe_image(), "b.PYD": b"", "c.txt": b""}) == ["b.PYD"]


# -- packing -----------------------------------------------------------------------------------


def test_the_uninstaller_removes_what_was_installed_and_nothing_else() -> None:
    names = ["a.txt", "python/x.py", "python/Lib/y.dll", "app/$odd.txt"]
    text = lists.file_lists(names, "/stage", 4097)
    install, _, remove = text.partition("!macro REMOVE_FILES")
    assert "!define SIZE_KIB 5" in install
    assert install.count("  File ") == len(names)
    assert 'SetOutPath "$INSTDIR\\python\\Lib"\n  File "/stage/python/Lib/y.dll"' in install
    assert 'SetOutPath "$INSTDIR"\n  File "/stage/a.txt"' in install
    assert '  Delete "$INSTDIR\\app\\$$odd.txt"' in remove
    assert '  RMDir /r "$INSTDIR\\python\\__pycache__"' in remove
    assert remove.count("/r") == 1, "only byte code goes as a whole folder"
    folders = [line for line in remove.splitlines() if line.startswith('  RMDir "')]
    assert folders == [
        '  RMDir "$INSTDIR\\python\\Lib"',
        '  RMDir "$INSTDIR\\app"',
        '  RMDir "$INSTDIR\\python"',
    ]


def test_every_text_of_the_installer_exists_in_both_languages() -> None:
    texts = (ROOT / "installer" / "windows" / "texts.nsh").read_text("utf-8")
    script = (ROOT / "installer" / "windows" / "installer.nsi").read_text("utf-8")
    found: dict[str, set[str]] = {}
    for line in texts.splitlines():
        if line.startswith("LangString"):
            _, name, language, text = line.split(" ", 3)
            assert text.startswith('"') and text.endswith('"') and len(text) > 4
            found.setdefault(name, set()).add(language)
    assert len(found) > 8
    assert {frozenset(languages) for languages in found.values()} == {
        frozenset({"${LANG_ENGLISH}", "${LANG_JAPANESE}"})
    }
    assert {name for name in found if f"$({name})" not in script} == set()


def test_hashes_are_written_as_sha256sum_reads_them(tmp_path: Path) -> None:
    (tmp_path / "a.exe").write_bytes(b"a")
    (tmp_path / "b.zip").write_bytes(b"b")
    pack.write_hashes([tmp_path / "a.exe", tmp_path / "b.zip"], tmp_path / "sums.txt")
    first, second = (tmp_path / "sums.txt").read_text().splitlines()
    assert first == f"{hashlib.sha256(b'a').hexdigest()}  a.exe"
    assert second.endswith("  b.zip")


def test_a_machine_without_makensis_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Problem, match="makensis is not installed") as caught:
        pack.make_installer(tmp_path, [], {}, tmp_path / "x.exe")
    assert "apt-get install nsis" in caught.value.next_step


def test_the_icon_has_all_sizes(tmp_path: Path) -> None:
    data = icon.draw_icon(ROOT / "resources" / "icons" / "twinrig.svg")
    assert data == icon.draw_icon(ROOT / "resources" / "icons" / "twinrig.svg")
    reserved, kind, count = struct.unpack_from("<HHH", data)
    assert (reserved, kind, count) == (0, 1, len(icon.SIZES_PX))
    for number, size in enumerate(icon.SIZES_PX):
        width, height, *_, length, offset = struct.unpack_from("<BBBBHHII", data, 6 + 16 * number)
        assert (width, height) == (size % 256, size % 256)
        png = data[offset : offset + length]
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack_from(">II", png, 16) == (size, size)
        assert len(set(io.BytesIO(png).read())) > 20, "an empty picture"
    assert offset + length == len(data)
