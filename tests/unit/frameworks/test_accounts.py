"""Clients of users: the token must be the user's own, and is read again after it was refused."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from openpai.client import AsyncClient
from openpai.frameworks.accounts import Accounts
from openpai.protocol.errors import BadConfiguration, Refused

OWNERS = {"t-ann": "ann", "t-ann-2": "ann", "t-bob": "bob"}


def connect(user: str, token: str) -> AsyncClient:
    def answer(request: httpx.Request) -> httpx.Response:
        owner = OWNERS.get(request.headers["Authorization"].removeprefix("Bearer "))
        if owner is None:
            return httpx.Response(401, json={"code": "UnauthorizedUserError", "message": "the token is not valid"})
        return httpx.Response(200, json={"username": owner})

    return AsyncClient("http://platform", token, user=user, transport=httpx.MockTransport(answer))


async def test_only_a_users_own_token_is_used_and_a_new_one_is_read(tmp_path: Path) -> None:
    file = tmp_path / "token"
    accounts = Accounts({"ann": file}, connect)
    with pytest.raises(BadConfiguration, match="cannot read the token of user ann"):
        await accounts.client("ann")
    file.write_text("t-bob")
    with pytest.raises(Refused, match="belongs to bob"):
        await accounts.client("ann")
    file.write_text("t-old")
    with pytest.raises(Refused, match="not valid"):
        await accounts.client("ann")
    file.write_text("t-ann\n")
    first = await accounts.client("ann")
    assert await accounts.client("ann") is first
    file.write_text("t-ann-2\n")
    accounts.forget("ann")
    second = await accounts.client("ann")
    assert second is not first
    assert await first.whoami() == "ann", "calls that began before must be able to end"
    await accounts.aclose()
