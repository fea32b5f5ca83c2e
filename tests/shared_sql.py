"""SQL that all databases of this process share: most tests open their own, and each would compile the same again.

SQLAlchemy keeps what it compiled by the dialect of an engine, an object of each engine. Dialects of one class that
speak alike write the same SQL.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
import sqlalchemy as sa
from sqlalchemy.util import LRUCache

from openpai.store import database


class SharedSql(LRUCache[Any, Any]):
    """Compiled statements by what a dialect is, instead of by which one it is."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_by_kind(key), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_by_kind(key), value)


def _by_kind(key: Any) -> Any:
    dialect, *others = key
    return (type(dialect), dialect.server_version_info, *others)


_SHARED: Final = SharedSql(4000)


def share_sql() -> None:
    """Let the engine of every database opened from now on use what others compiled."""
    make = database._engine

    def sharing(*arguments: Any, **named: Any) -> sa.Engine:
        engine = make(*arguments, **named)
        engine.update_execution_options(compiled_cache=_SHARED)
        return engine

    patch = pytest.MonkeyPatch()
    patch.setattr(database, "_engine", sharing)
