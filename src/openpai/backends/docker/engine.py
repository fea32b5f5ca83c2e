"""Calls the Engine API: the few calls that this backend needs, with errors sorted by how to handle them.

Docker and Podman both implement it. Nothing here knows what a task is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import aiodocker
import aiohttp
from aiodocker.exceptions import DockerError

from openpai.backends.docker.execs import EngineExec, exec_config

CALL_PATIENCE_S: Final = 60.0
_NOT_A_STATUS: Final = 900
"""The status that aiodocker reports when there was no answer."""
_WILL_NEVER_RUN: Final = re.compile(
    r"executable file not found|no such file or directory|permission denied|exec format error|"
    r"could not select device driver|not a directory|invalid",
    re.IGNORECASE,
)

_IN_USE: Final = re.compile(r"already in use", re.IGNORECASE)
_NO_IMAGE: Final = re.compile(r"no such image|image not known", re.IGNORECASE)
_NO_CONTAINER: Final = re.compile(r"no such container|no container with name", re.IGNORECASE)
_NO_NETWORK: Final = re.compile(r"network \S+ not found|no such network|network not found", re.IGNORECASE)
_OVERLAPS: Final = re.compile(r"pool overlaps|already used on the host", re.IGNORECASE)
_PORT_TAKEN: Final = re.compile(
    r"port is already allocated|address already in use|ports are not available|proxy already running", re.IGNORECASE
)


class EngineError(Exception):
    """The Engine did not carry out a request."""


class EngineSilent(EngineError):
    """The Engine does not answer: whether it carried out the request is unknown."""


class EngineRefused(EngineError):
    """The request cannot be carried out, now or later."""


class NoImage(EngineError):
    """The image is not on this machine."""


class NoNetwork(EngineError):
    """The network that a container joins is not on this machine."""


class SubnetTaken(EngineError):
    """Another network uses the requested addresses."""


class PortTaken(EngineError):
    """Another program uses a port that a container publishes."""


class Conflict(EngineError):
    """A container of that name exists, or the state of the container does not allow the request."""


class NoContainer(EngineError):
    """There is no such container."""


class ContainerState(NamedTuple):
    """A container as the Engine sees it."""

    name: str
    labels: Mapping[str, str]
    status: str
    """created, running, paused, restarting, removing, exited or dead."""
    exit_code: int
    is_oom_killed: bool
    error: str
    started_at_ms: int | None
    ended_at_ms: int | None
    pid: int = 0
    """Its first process on this machine; 0 unless it runs."""

    @property
    def has_ended(self) -> bool:
        """Return whether it ran and no longer runs."""
        return self.status in ("exited", "dead", "stopped")

    @property
    def has_begun(self) -> bool:
        """Return whether it was ever started."""
        return self.status not in ("created", "initialized", "configured")


class Written(NamedTuple):
    """Where a container has written on the machine's disk."""

    layer_bytes: int
    """Changes of the files of its image."""
    volumes: tuple[str, ...]
    """The paths of the volumes that the Engine created for it."""


class Engine:
    """A connection to one Engine."""

    def __init__(self, url: str | None) -> None:
        self._docker = aiodocker.Docker(url=url)
        self._events: Any = self._docker.events

    async def close(self) -> None:
        """Close every connection."""
        with contextlib.suppress(Exception):
            await self._events.stop()
        await self._docker.close()

    async def info(self) -> dict[str, Any]:
        """Return the Engine's description of its machine."""
        async with _called():
            return dict(await self._docker.system.info())

    async def has_image(self, image: str) -> bool:
        """Return whether the image is on this machine."""
        try:
            async with _called():
                await self._docker.images.inspect(image)
        except NoImage:
            return False
        return True

    async def pull(self, image: str, auth: Mapping[str, str] | None) -> AsyncIterator[Mapping[str, Any]]:
        """Pull an image and yield the Engine's progress messages, without a time limit."""
        try:
            async for progress in self._docker.images.pull(image, auth=auth, stream=True):
                yield progress
        except (DockerError, OSError, aiohttp.ClientError) as error:
            raise EngineError(_message_of(error)) from error

    async def create(self, name: str, config: Mapping[str, Any]) -> None:
        """Create a container. Raises NoImage, Conflict, EngineRefused, EngineSilent or EngineError."""
        async with _called():
            await self._docker.containers.create(dict(config), name=name)

    async def start(self, name: str) -> None:
        """Start a container; do nothing if it runs already."""
        async with _called():
            await self._docker.containers.container(name).start()

    async def signal(self, name: str, signal: str) -> None:
        """Send a signal to a container's first process; do nothing if it has ended or is gone."""
        try:
            async with _called():
                await self._docker.containers.container(name).kill(signal=signal)
        except (Conflict, NoContainer):
            return  # the Engine answers 409 for a container that does not run

    async def remove(self, name: str) -> None:
        """Remove a container with its own volumes, running or not; do nothing if it is gone."""
        try:
            async with _called():
                await self._docker.containers.container(name).delete(force=True, v=True)
        except (Conflict, NoContainer):
            return  # gone, or being removed already

    async def inspect(self, name: str) -> ContainerState:
        """Return the state of a container. Raises NoContainer."""
        async with _called():
            container = await self._docker.containers.get(name)
        state = container["State"]
        return ContainerState(
            name=container["Name"].removeprefix("/"),
            labels=container["Config"].get("Labels") or {},
            status=state["Status"],
            exit_code=state.get("ExitCode", 0),
            is_oom_killed=bool(state.get("OOMKilled")),
            error=state.get("Error") or "",
            started_at_ms=_ms(state.get("StartedAt")),
            ended_at_ms=_ms(state.get("FinishedAt")),
            pid=int(state.get("Pid") or 0),
        )

    async def exec(self, name: str, words: tuple[str, ...], *, is_terminal: bool) -> EngineExec:
        """Start a command in a running container. Raises NoContainer, or Conflict if it does not run."""
        config = exec_config(words, is_terminal=is_terminal)
        async with _called():
            made = await self._docker._query_json(f"containers/{name}/exec", method="POST", data=config)  # noqa: SLF001
            run = EngineExec(self._docker, made["Id"], is_terminal=is_terminal)
            await run.start()
        return run

    async def first_process(self, name: str) -> tuple[int, str]:
        """Return the number of a running container's first process on the Engine's machine, and the container's id.

        Raises NoContainer.
        """
        async with _called():
            container = await self._docker.containers.get(name)
        found = int(container["State"].get("Pid") or 0)
        if not found:
            raise NoContainer(f"container {name} does not run")
        return found, container.id

    async def written(self, name: str) -> Written:
        """Return where a container has written. Raises NoContainer."""
        async with _called():
            container = await self._docker.containers.container(name).show(size=1)
        mounts = container.get("Mounts") or ()
        volumes = (str(mount.get("Source") or "") for mount in mounts if mount.get("Type") == "volume")
        return Written(int(container.get("SizeRw") or 0), tuple(volume for volume in volumes if volume))

    async def names(self, label: str) -> dict[str, str]:
        """Return the names and states of all containers with this label."""
        async with _called():
            listed = await self._docker.containers.list(all=True, filters=json.dumps({"label": [label]}))
        return {found["Names"][0].removeprefix("/"): found["State"] for found in listed}

    async def network(self, name: str) -> dict[str, Any]:
        """Return the Engine's description of a network. Raises NoNetwork."""
        async with _called():
            return dict(await (await self._docker.networks.get(name)).show())

    async def networks(self, label: str) -> list[dict[str, Any]]:
        """Return the Engine's descriptions of all networks with this label."""
        async with _called():
            return list(await self._docker.networks.list(filters={"label": [label]}))

    async def create_network(self, config: Mapping[str, Any]) -> None:
        """Create a network. Raises Conflict, SubnetTaken, EngineRefused, EngineSilent or EngineError."""
        async with _called():
            await self._docker.networks.create(dict(config))

    async def remove_network(self, name: str) -> None:
        """Remove a network; do nothing if it is gone. Raises EngineRefused while a container is in it."""
        try:
            async with _called():
                await (await self._docker.networks.get(name)).delete()
        except NoNetwork:
            return

    async def ends(self, label: str, since_s: float) -> AsyncIterator[str]:
        """Yield the names of containers with this label that end or vanish, from `since_s` on, until silence."""
        wanted = {"type": ["container"], "event": ["die", "destroy"], "label": [label]}
        subscriber = self._events.subscribe(since=f"{since_s:.3f}", filters=json.dumps(wanted))
        try:
            while (event := await subscriber.get()) is not None:
                yield event["Actor"]["Attributes"]["name"]
        finally:
            with contextlib.suppress(Exception):
                await self._events.stop()


@contextlib.asynccontextmanager
async def _called() -> AsyncIterator[None]:
    """Bound the time of a call, and turn its errors into this module's."""
    try:
        async with asyncio.timeout(CALL_PATIENCE_S):
            yield
    except TimeoutError as late:
        raise EngineSilent(f"the Engine did not answer within {CALL_PATIENCE_S:g} s") from late
    except DockerError as error:
        raise _sorted(error) from error
    except (OSError, aiohttp.ClientError) as error:
        raise EngineSilent(_message_of(error)) from error


def _sorted(error: DockerError) -> EngineError:
    message = _message_of(error)
    if error.status == _NOT_A_STATUS:
        return EngineSilent(message)
    if _OVERLAPS.search(message):
        return SubnetTaken(message)
    if _PORT_TAKEN.search(message):
        return PortTaken(message)
    if error.status == 409 or _IN_USE.search(message):
        return Conflict(message)
    if _NO_NETWORK.search(message):
        return NoNetwork(message)
    if error.status == 404 and _NO_IMAGE.search(message):
        return NoImage(message)
    if error.status == 404 and _NO_CONTAINER.search(message):
        return NoContainer(message)
    if 400 <= error.status < 500 or _WILL_NEVER_RUN.search(message):
        return EngineRefused(message)
    return EngineError(message)


def _message_of(error: Exception) -> str:
    message = error.message if isinstance(error, DockerError) else str(error)
    return " ".join(message.split()) or type(error).__name__


def _ms(when: str | None) -> int | None:
    """Return the Engine's time in milliseconds since the epoch; None for the year 1, which means never."""
    if not when or when.startswith("0001"):
        return None
    return round(datetime.fromisoformat(when).timestamp() * 1000)
