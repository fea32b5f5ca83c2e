"""A client of the platform for each user, with the token in the user's file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from openpai.client import AsyncClient
from openpai.protocol.errors import BadConfiguration, Refused


class Accounts:
    """The users as which jobs are submitted."""

    def __init__(self, files: Mapping[str, Path], connect: Callable[[str, str], AsyncClient]) -> None:
        self._files = files
        self._connect = connect
        self._clients: dict[str, AsyncClient] = {}
        self._retired: list[AsyncClient] = []
        self._locks: dict[str, asyncio.Lock] = {}

    async def client(self, user: str) -> AsyncClient:
        """Return the client of a user; raise Refused if the token in the file is another user's."""
        async with self._locks.setdefault(user, asyncio.Lock()):
            if user not in self._clients:
                self._clients[user] = await self._verified(user)
            return self._clients[user]

    def forget(self, user: str) -> None:
        """Read the user's token again at the next call."""
        client = self._clients.pop(user, None)
        if client is not None:
            # Other calls may still use it.
            self._retired.append(client)

    async def aclose(self) -> None:
        """Close all connections."""
        for client in (*self._clients.values(), *self._retired):
            await client.close()

    async def _verified(self, user: str) -> AsyncClient:
        file = self._files[user]
        try:
            token = (await asyncio.to_thread(file.read_text, "utf-8")).strip()
        except (OSError, ValueError) as error:
            raise BadConfiguration(f"cannot read the token of user {user}: {error}", "check the file") from error
        client = self._connect(user, token)
        try:
            owner = await client.whoami()
            if owner != user:
                message = f"the token for user {user} belongs to {owner}"
                raise Refused("ForbiddenUserError", message, f"write a token of {user} to {file}")
        except BaseException:
            await client.close()
            raise
        return client
