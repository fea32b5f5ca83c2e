"""Fixtures that several integration tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

if TYPE_CHECKING:
    from tests.contracts.docker_harness import DockerHarness
    from tests.contracts.process_harness import ProcessHarness
    from tests.integration.api_world import World
    from tests.integration.sign_on import Liar
    from tests.integration.terminal import Terminal


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[DockerHarness]:
    """A docker backend over a directory of its own, and a real Engine; nothing is left of its containers."""
    from tests.contracts.docker_harness import DockerHarness

    if why_not := DockerHarness.why_not():
        pytest.skip(why_not)
    async with DockerHarness(tmp_path) as made:
        yield made


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """The real API over a database of its own, with people who have passwords."""
    from tests.integration.api_world import open_world

    async with open_world(tmp_path) as opened:
        yield opened


@pytest.fixture
def pai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Terminals in front of such an API, which runs in a thread."""
    from tests.integration.terminal import open_terminal

    with open_terminal(tmp_path, monkeypatch) as terminal:
        yield terminal


@pytest.fixture
def liar(world: World) -> Liar:
    """An identity provider for logins in the world; it is honest until a test makes it lie."""
    from tests.integration.sign_on import Liar, sign_on_with

    made = Liar(world)
    sign_on_with(world, made.provider())
    return made


@pytest_asyncio.fixture
async def host(tmp_path: Path) -> AsyncIterator[ProcessHarness]:
    """A process backend over a directory of its own; nothing is left of its processes."""
    from tests.contracts.process_harness import ProcessHarness

    if why_not := ProcessHarness.why_not():
        pytest.skip(why_not)
    async with ProcessHarness(tmp_path) as made:
        yield made
