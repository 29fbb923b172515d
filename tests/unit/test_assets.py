"""Resources are found in the package first, then in the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinrig import assets


def test_the_checkout_has_them() -> None:
    assert assets.resource_path("i18n/ja.mo").is_file()
    assert "<svg" in assets.read_text("icons/twinrig.svg")


def test_the_package_wins_over_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("package", "checkout"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text(name + " é", "utf-8")
    (tmp_path / "checkout" / "y.txt").write_text("only here")
    monkeypatch.setattr(assets, "_ROOTS", (tmp_path / "package", tmp_path / "checkout"))
    assert assets.read_text("x.txt") == "package é"
    assert assets.read_bytes("y.txt") == b"only here"


def test_a_missing_resource_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"'rules/none\.yaml' is missing from this install"):
        assets.resource_path("rules/none.yaml")
