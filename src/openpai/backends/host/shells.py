"""The entrance to commands in tasks, which is the same for every backend with a register of attempts."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Final, Generic, Protocol, TypeVar

from openpai.backends.host.register import Attempt, AttemptRegister
from openpai.lifecycle.model import AttemptKey
from openpai.ports.shells import Shell, ShellCommand, Stream, not_running
from openpai.system.supervision import Background

_GRACE_S: Final = 2.0

A = TypeVar("A", bound=Attempt)
A_contra = TypeVar("A_contra", bound=Attempt, contravariant=True)


class Starter(Protocol[A_contra]):
    """What starts commands in the running attempts of one backend, with the promises of `ports.shells`."""

    async def start(self, attempt: A_contra, command: ShellCommand) -> Shell:
        """Start a command."""

    async def connect(self, attempt: A_contra, port: int) -> Stream:
        """Connect to a port."""


class RunsShells(Generic[A]):
    """`ports.shells.Shells` for a backend."""

    _register: AttemptRegister[A]
    _shells: Starter[A]

    async def shell(self, key: AttemptKey, command: ShellCommand) -> Shell:
        """Start a command in a running task attempt."""
        return await self._shells.start(self._running(key), command)

    async def connect(self, key: AttemptKey, port: int) -> Stream:
        """Connect to a port of a running task attempt."""
        return await self._shells.connect(self._running(key), port)

    def _running(self, key: AttemptKey) -> A:
        attempt = self._register.get(key)
        if attempt is None or not attempt.is_running:
            raise not_running(key)
        return attempt


class EndsSessions(ABC):
    """Ends commands that their runtime cannot end, by another command in the same container or pod."""

    def __init__(self) -> None:
        self._ending = Background()

    def end(self, place: str, session: str) -> None:
        """Begin to send SIGHUP to a session, and in a moment SIGKILL."""
        self._ending.start("end a shell", self._end(place, session))

    async def close(self) -> None:
        """Wait a moment for commands that are ended."""
        await self._ending.drain(2 * _GRACE_S)
        await self._ending.close()

    async def _end(self, place: str, session: str) -> None:
        await self._signal(place, session, "HUP")
        await asyncio.sleep(_GRACE_S)
        await self._signal(place, session, "KILL")

    @abstractmethod
    async def _signal(self, place: str, session: str, signal: str) -> None:
        """Send a signal to a session; do nothing if that cannot be done."""
