"""Imports of the portal go down its folders, no feature knows another, and nothing names a private registry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.places import ROOT

_SOURCE: Final = ROOT / "portal" / "src"
_MAY: Final = {
    "app": ("app", "features", "ui", "api", "locales"),
    "features": ("ui", "api"),
    "ui": ("ui", "api"),
    "api": ("api",),
}
_IMPORT: Final = re.compile(r"""(?:from|import)\s*\(?\s*["']((?:@/|\.)[^"']+)["']""")
_FILES: Final = sorted(
    path for path in _SOURCE.rglob("*.ts*") if path.parent != _SOURCE and "locales" not in path.parts
)


def _target(path: Path, module: str) -> Path:
    found = _SOURCE / module.removeprefix("@/") if module.startswith("@/") else (path.parent / module).resolve()
    return found.relative_to(_SOURCE)


@pytest.mark.parametrize("path", _FILES, ids=lambda path: str(path.relative_to(_SOURCE)))
def test_an_import_goes_down(path: Path) -> None:
    own = path.relative_to(_SOURCE).parts
    for module in _IMPORT.findall(path.read_text("utf-8")):
        parts = _target(path, module).parts
        is_own_feature = own[0] == "features" and parts[:2] == own[:2]
        assert is_own_feature or parts[0] in _MAY[own[0]], f"{path.name} imports {module}"


def test_no_file_of_the_portal_grows_too_long() -> None:
    lengths = {path.name: len(path.read_text("utf-8").splitlines()) for path in _FILES if path.name != "schema.d.ts"}
    assert {name: length for name, length in lengths.items() if length > 300} == {}


def test_the_lock_file_names_no_registry() -> None:
    text = (ROOT / "portal" / "package-lock.json").read_text("utf-8")
    assert '"resolved"' not in text
