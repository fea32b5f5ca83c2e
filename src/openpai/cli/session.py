"""The server that a command uses: that of the latest login, unless `--url` or PAI_URL names another."""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import TYPE_CHECKING

from openpai.protocol.errors import Refused

if TYPE_CHECKING:
    from openpai.client import Client

_URL: ContextVar[str | None] = ContextVar("url", default=None)


def use(url: str | None) -> None:
    """Use this server for the rest of the command."""
    _URL.set(url)


def chosen_url() -> str | None:
    """Return the server named on the command line, if any."""
    return _URL.get()


def how_to_log_in() -> str:
    """Return the advice for a token that is missing, unknown or expired."""
    from openpai.client.credentials import load

    if os.environ.get("PAI_TOKEN"):
        return "give the variable PAI_TOKEN another token, or unset it and use `pai login`"
    return f"pai login --url {load(chosen_url()).url}"


def connect() -> Client:
    """Return a client for the chosen server with the saved token; raise Refused if there is none."""
    # The HTTP library takes longest to import, and commands like `job check` do not need it.
    from openpai.client import Client
    from openpai.client.credentials import load

    found = load(chosen_url())
    if found.token is None:
        raise Refused("UnauthorizedUserError", f"not logged in at {found.url}", how_to_log_in())
    return Client(found.url, found.token, user=found.user)
