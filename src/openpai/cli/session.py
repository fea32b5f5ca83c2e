"""Whom a command talks to: the server of the latest login unless `--url` or PAI_URL say otherwise."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from openpai.protocol.errors import Refused

if TYPE_CHECKING:
    from openpai.client import Client

_URL: ContextVar[str | None] = ContextVar("url", default=None)


def use(url: str | None) -> None:
    """Talk to this server for the rest of the command."""
    _URL.set(url)


def chosen_url() -> str | None:
    """Return the server named on the command line, if any."""
    return _URL.get()


def connect() -> Client:
    """Return a client for the chosen server with our token there; raise Refused when there is none."""
    # The HTTP library takes longer to load than everything else, and commands like `job check` need none.
    from openpai.client import Client
    from openpai.client.credentials import load

    found = load(chosen_url())
    if found.token is None:
        raise Refused("UnauthorizedUserError", f"not logged in at {found.url}", f"pai login --url {found.url}")
    return Client(found.url, found.token, user=found.user)
