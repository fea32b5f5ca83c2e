"""A platform for the tests of the command line, and people at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.server import PASSWORD, Person, Server, job_text, logged_in, person


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a platform that all tests share."""
    running = Server.start(tmp_path_factory.mktemp("platform"))
    yield running
    assert running.end() == 0


@pytest.fixture
def password() -> str:
    """Return the administrator's password on every platform here."""
    return PASSWORD


@pytest.fixture
def stranger(server: Server, tmp_path: Path) -> Person:
    """Return a person who has not logged in, with `tmp_path` as the place for their credentials."""
    return person(tmp_path, server.url)


@pytest.fixture(scope="session")
def pai(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Person:
    """Return the administrator, logged in."""
    return logged_in(tmp_path_factory.mktemp("home"), server.url)


@pytest.fixture
def new_pai(new_server: Server, tmp_path: Path) -> Person:
    """Return the administrator of the test's own platform."""
    return logged_in(tmp_path / "home", new_server.url)


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Server]:
    """Return a platform of this test's own, which it may kill and start again."""
    running = Server.start(tmp_path / "platform")
    yield running
    if running.process.poll() is None:
        running.end()


@pytest.fixture
def job_file(tmp_path: Path) -> Callable[..., str]:
    """Return a maker of job files: one task role that runs the given commands."""

    def write(name: str, *commands: str, **more: Any) -> str:
        path = tmp_path / f"{name}.yaml"
        path.write_text(job_text(name, *commands, **more))
        return str(path)

    return write
