"""Identity providers: single sign-on and directories, and what they report about a user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from openpai.ports.store import Sealed


@dataclass(frozen=True, slots=True)
class Vouched:
    """A user as an identity provider describes them."""

    source: str
    """oidc or ldap."""
    subject: str = field(repr=False)
    """The provider's permanent identifier of the user, with the issuer where there may be several."""
    name: str
    """The user name for a new account; ignored after the first login."""
    email: str = ""
    groups: frozenset[str] = frozenset()
    """The provider's names of their groups; only those that one of our groups has as `externalName` count."""


@dataclass(frozen=True, slots=True)
class Started:
    """A login that has started: where to send the browser, and what it must bring back."""

    url: str
    keepsake: str = field(repr=False)
    """Sealed; binds the answer to the browser that asked."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A login that the provider answered."""

    person: Vouched
    back: Mapping[str, str]
    """The value given to `start`: where to continue after the login."""


class SignOnFailed(Exception):
    """The provider refused the login, or its answer cannot be trusted; the message is for the user."""

    def __init__(self, message: str, back: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.back = back or {}


class SingleSignOn(Protocol):
    """Logs users in at the web page of a provider."""

    @property
    def label(self) -> str:
        """Return the label of the login button, such as the name of the organisation."""

    async def start(self, redirect_uri: str, back: Mapping[str, str]) -> Started:
        """Begin a login whose answer comes to `redirect_uri`. Raises Unavailable when the provider is down."""

    async def finish(self, redirect_uri: str, answer: Mapping[str, str], keepsake: str) -> Finished:
        """Return who logged in. Raises SignOnFailed, also when the provider is down."""

    async def logout_url(self, back: str) -> str | None:
        """Return the provider's page that ends its own session, None if it has none."""


class PasswordDirectory(Protocol):
    """Checks names and passwords."""

    async def check(self, name: str, password: str) -> Vouched | None:
        """Return the user, None for a wrong name or password. Raises Unavailable when it does not answer."""


class Sealer(Protocol):
    """Encrypts and signs values that others carry."""

    def seal(self, secrets: Mapping[str, Any]) -> Sealed | None:
        """Return values encrypted, None when there are none."""

    def open(self, sealed: Sealed | None) -> dict[str, Any]:
        """Return what was sealed; raise Refused for anything that this platform did not seal."""
