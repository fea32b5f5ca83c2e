"""Where things are in a checkout, for the tests that look at the project itself."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "src" / "openpai"
DOCS: Final = ROOT / "docs"
_PYTHON: Final = ("src", "tests", "bench", "examples")
_TEXT: Final = frozenset({".py", ".md", ".toml", ".yaml", ".yml", ".json", ".sh", ".mako", ".cfg", ".txt"})


def python_files() -> list[Path]:
    """Return every Python file of the project."""
    return sorted(path for name in _PYTHON for path in (ROOT / name).rglob("*.py"))


def markdown_files() -> list[Path]:
    """Return every page of the project."""
    return sorted([*ROOT.glob("*.md"), *(path for name in ("docs", *_PYTHON) for path in (ROOT / name).rglob("*.md"))])


def text_files() -> Iterable[Path]:
    """Yield every file of the project that people write."""
    yield from (path for path in ROOT.iterdir() if path.is_file() and (path.suffix in _TEXT or not path.suffix))
    for name in ("docs", "deploy", ".ci", *_PYTHON):
        for path in (ROOT / name).rglob("*"):
            if path.is_file() and (path.suffix in _TEXT or not path.suffix) and "__pycache__" not in path.parts:
                yield path


def named(path: Path) -> str:
    """Return a path as people say it."""
    return str(path.relative_to(ROOT))
