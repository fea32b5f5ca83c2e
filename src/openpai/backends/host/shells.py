"""The entrance to commands in tasks, which is the same for every backend with a register of attempts."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from openpai.backends.host.register import Attempt, AttemptRegister
from openpai.lifecycle.model import AttemptKey
from openpai.ports.shells import Shell, ShellCommand, Stream, not_running

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
