"""The public SSH keys in the profiles of users, with which they log in at the SSH gateway."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Request
from pydantic import Field

from openpai.access.accounts import User, check_extension
from openpai.access.model import Thing
from openpai.access.ssh_keys import PROFILE_KEY, TEXT_MAX, TITLE_MAX, keys_in, read_key, title_of, with_key, without_key
from openpai.api.accounts import find_user
from openpai.api.answers import Accepted, Reply, accepted, reply
from openpai.api.bodies import Body, read_body
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import ssh_keys as shapes
from openpai.wire.ssh_keys import SshKey, SshKeyList

_KEYS: Final = "/api/v2/users/{username}/ssh-keys"
_EXAMPLE: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHWm3eEJr1bG5GLtMmEd6WYqnFyFLYHBQ1vQh7pQ3x9d ann@laptop"
router = Router("users")
Changing = Annotated[Caller, needs("user.change_own")]


class NewSshKey(Body, example={"key": _EXAMPLE}):
    """A public SSH key, as one line of a `.pub` file, and a title instead of its comment."""

    key: str = Field(max_length=4 * TEXT_MAX)
    title: str = Field("", max_length=TITLE_MAX)


@router.serves(f"GET {_KEYS}", "List the SSH keys of a user")
async def list_ssh_keys(
    request: Request, caller: Annotated[Caller, needs("user.details")], username: str
) -> Reply[SshKeyList]:
    """Return the public keys with which a user logs in at the SSH gateway, without those that it does not accept."""
    caller.check(Thing(owner=username, label=username))
    user = await find_user(context_of(request), username)
    return reply(SshKeyList(sshKeys=[shapes.ssh_key(key) for key in keys_in(user.extension)]))


@router.serves(f"POST {_KEYS}", "Add an SSH key to a user", "ConflictSshKeyError", status=201, takes=NewSshKey)
async def add_ssh_key(request: Request, caller: Changing, username: str) -> Reply[SshKey]:
    """Add a public key: Ed25519, ECDSA, or RSA with 2048 bits or more, without options; a user has at most 32."""
    caller.check(Thing(owner=username, label=username))
    body = await read_body(request, NewSshKey)
    context = context_of(request)
    await find_user(context, username)
    key = replace(read_key(body.key), added_at_ms=context.services.clock.now_ms())
    key = replace(key, title=title_of(body.title) or key.title or key.type)
    await context.services.users.change_user(username, lambda user: _with_keys(user, with_key(user.extension, key)))
    return reply(shapes.ssh_key(key), 201)


@router.serves(f"DELETE {_KEYS}/{{key}}", "Remove an SSH key from a user", "NoSshKeyError")
async def remove_ssh_key(request: Request, caller: Changing, username: str, key: str) -> Accepted:
    """Remove a public key, named by its id. Its open SSH connections end within seconds."""
    caller.check(Thing(owner=username, label=username))
    context = context_of(request)
    await find_user(context, username)
    await context.services.users.change_user(username, lambda user: _with_keys(user, without_key(user.extension, key)))
    return accepted(f"the SSH key {key[:12]} of {username} is removed")


def _with_keys(user: User, keys: list[Any]) -> User:
    extension = {**user.extension, PROFILE_KEY: keys}
    check_extension(extension)
    return replace(user, extension=extension)
