"""Gives each contract test one backend, or one database, after another, each in a world of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from openpai.store.database import Database
from tests.contracts.harness import HARNESSES, Harness, harness_for

# A pod of a real node takes a second to start and another one to go.
_SLOW = {"kubernetes on a node": pytest.mark.full}


@pytest_asyncio.fixture(params=[pytest.param(name, marks=_SLOW.get(name, ())) for name in sorted(HARNESSES)])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    """Give one backend and its empty world, and leave nothing of it behind."""
    cls, why_not = harness_for(request.param)
    if cls is None or why_not:
        pytest.skip(why_not)
    cls.prepare(request)
    async with cls(tmp_path) as made:
        yield made


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """Give a store to what asks for it, of one kind after another."""
    opened = Database(database_url)
    yield opened
    opened.close()
