"""A platform whose tasks are containers, and a look at those containers past the platform's back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.server import Server
from tests.integration.docker_engine import ask, engine


@contextlib.contextmanager
def docker_platform(directory: Path, *options: str) -> Iterator[tuple[Server, Containers]]:
    """Run a platform on the docker backend, or skip where no Engine can be had; leave no container behind."""
    url, why_not = engine()
    if why_not:
        pytest.skip(why_not)
    server = Server.start(directory, 0, "--backend", "docker", "--docker-url", url, *options)
    containers = Containers(url, directory / "data")
    try:
        yield server, containers
        if server.process.poll() is None:
            assert server.end() == 0
    finally:
        server.process.kill()
        containers.remove()


class Containers:
    """The containers of one platform, as its Engine knows them."""

    def __init__(self, url: str, data: Path) -> None:
        self._url = url
        self.tasks = data / "tasks" / "docker"

    def there(self) -> list[str]:
        """Return the containers that are there, running or not."""
        listed: list[dict[str, Any]] = json.loads(ask(self._url, "GET", "/containers/json?all=1"))
        mine = [one for one in listed if any(self._is_ours(mount["Source"]) for mount in one["Mounts"])]
        return [one["Id"] for one in mine]

    def wait(self, container: str, until: str) -> None:
        """Return once the container is `not-running` or `removed`."""
        ask(self._url, "POST", f"/containers/{container}/wait?condition={until}")

    def resume(self) -> None:
        """Let the one task that waits for the file `resume` go on."""
        (directory,) = self.tasks.glob("[!.]*")
        (directory / "resume").touch()

    def remove(self) -> None:
        """Leave nothing behind."""
        for container in self.there():
            ask(self._url, "DELETE", f"/containers/{container}?force=1")

    def _is_ours(self, source: str) -> bool:
        return Path(source).is_relative_to(self.tasks)
