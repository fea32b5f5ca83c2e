"""A turnstile in front of a server's ports: each call waits before and after its effect until the driver lets it on.

So the driver chooses, at every line where a server waits for anything, what runs next: another pass of the same
server, another server, a user's request, or death. A server that dies before a call had no effect; one that dies
after it had the effect and never heard of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from openpai.protocol.errors import Unavailable

BEFORE: Final = "before"
AFTER: Final = "after"
# Waiting for news is no call that could be held up; the answer may be.
_ONLY_AFTER: Final = frozenset({"news"})
_FREE: Final = frozenset({"open", "close", "disconnect"})


@dataclass(frozen=True, slots=True)
class Gate:
    """A call that waits to be let on."""

    number: int
    what: str
    side: str
    future: asyncio.Future[None]

    @property
    def may_fail(self) -> bool:
        """Return whether the port may say here that it is not available."""
        return not self.what.startswith(("logs.", "backend.news"))

    def fail(self) -> None:
        """Let the caller hear that nobody answers; on the far side the effect is there all the same."""
        self.future.set_exception(Unavailable(f"{self.what} was not answered"))


class Turnstile:
    """Holds up every call of one server until it is let on."""

    def __init__(self) -> None:
        self._waiting: dict[int, Gate] = {}
        self._count = 0
        self.is_open = False
        """Whether everybody passes at once, as in calm times."""
        self.is_dead = False

    def gates(self) -> list[Gate]:
        """Return the calls that wait, oldest first."""
        return [gate for gate in self._waiting.values() if not gate.future.done()]

    def open(self) -> None:
        """Let everybody on, now and from now on."""
        self.is_open = True
        for gate in self.gates():
            gate.future.set_result(None)

    async def wait(self, what: str, side: str) -> None:
        """Wait to be let on. A dead server's calls end at once and have no effect."""
        if self.is_dead:
            raise asyncio.CancelledError
        if self.is_open:
            return
        self._count += 1
        gate = Gate(self._count, what, side, asyncio.get_running_loop().create_future())
        self._waiting[gate.number] = gate
        try:
            await gate.future
        finally:
            del self._waiting[gate.number]
        if self.is_dead:
            raise asyncio.CancelledError


class Through:
    """A port seen through a turnstile. `look` is called after every effect, before anybody else moves."""

    def __init__(self, name: str, port: Any, turnstile: Turnstile, look: Callable[[str], None]) -> None:
        self._name = name
        self._port = port
        self._turnstile = turnstile
        self._look = look

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._port, method)
        if method in _FREE:
            return call
        what = f"{self._name}.{method}"

        async def through(*arguments: Any, **named: Any) -> Any:
            if method not in _ONLY_AFTER:
                await self._turnstile.wait(what, BEFORE)
            try:
                answer = await call(*arguments, **named)
            finally:
                self._look(what)
            await self._turnstile.wait(what, AFTER)
            return answer

        return through
