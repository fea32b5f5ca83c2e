"""The schemas that this program knows, and the one that a database has.

Read without Alembic, whose import costs a start 0.15 s and 11 MB: it is needed only where a schema is changed.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

import sqlalchemy as sa

_NAMED: Final = re.compile(r"""^(revision|down_revision) = ["'](\w+)["']$""", re.MULTILINE)
_VERSION: Final = sa.table("alembic_version", sa.column("version_num"))


def migrations() -> Path:
    """Return the directory of the migrations."""
    return Path(str(files("openpai.store"))) / "migrations"


def schemas() -> frozenset[str]:
    """Return every schema that this program knows."""
    return frozenset(name for what, name in _named(migrations()) if what == "revision")


def newest_schema() -> str:
    """Return the schema that this program works with."""
    (newest,) = schemas() - {name for what, name in _named(migrations()) if what == "down_revision"}
    return newest


def schema_of(connection: sa.Connection) -> str | None:
    """Return the schema of a database; None for one without."""
    if not sa.inspect(connection).has_table(_VERSION.name):
        return None
    found: str | None = connection.execute(sa.select(_VERSION.c.version_num)).scalar()
    return found


@cache
def _named(directory: Path) -> frozenset[tuple[str, str]]:
    scripts = (directory / "versions").glob("*.py")
    return frozenset(pair for script in scripts for pair in _NAMED.findall(script.read_text(encoding="utf-8")))
