"""Passwords, hashed with Argon2 in threads of their own so that no other request waits.

The cost follows OWASP's recommendation: 19 MiB and two rounds per hash. At most two hashes are computed at once, which
bounds the load of a flood of logins, and the queue is no longer than can be processed in a few seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final, TypeVar

from pwdlib.hashers.argon2 import Argon2Hasher

from openpai.protocol.errors import Unavailable

T = TypeVar("T")
THREADS: Final = 2
WAITING_MAX: Final = 200
PASSWORD_MIN: Final = 6
# A longer password would only make hashing slow.
PASSWORD_MAX: Final = 1024
_hasher: Final = Argon2Hasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


def hash_password(password: str) -> str:
    """Return the hash of a password. Takes tens of milliseconds."""
    return _hasher.hash(password)


def is_password(password: str, password_hash: str | None) -> bool:
    """Return whether a password is correct; without a hash, take equally long and return False.

    Users of an identity provider have the empty hash, which matches no password.
    """
    is_right = _hasher.verify(password, password_hash or _nobodys_hash())
    return is_right and bool(password_hash)


@cache
def _nobodys_hash() -> str:
    return hash_password("nobody has this password")


class Passwords:
    """Computes and compares hashes off the event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="passwords")
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """Return the hash of a password. Raises Unavailable during a flood."""
        return await self._run(hash_password, password)

    async def matches(self, password: str, password_hash: str | None) -> bool:
        """Return whether a password is correct; takes equally long for a user who does not exist.

        Raises Unavailable during a flood.
        """
        return await self._run(is_password, password, password_hash)

    async def _run(self, work: Callable[..., T], *given: str | None) -> T:
        if self._waiting >= WAITING_MAX:
            raise Unavailable("too many users are logging in at this moment", "try again in a few seconds")
        self._waiting += 1
        running = asyncio.get_running_loop().run_in_executor(self._threads, work, *given)
        running.add_done_callback(self._done)
        return await running

    def _done(self, _: object) -> None:
        self._waiting -= 1
