"""Those who vouch for people: single sign-on and directories. What they say about somebody, and how they are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from openpai.ports.store import Sealed


@dataclass(frozen=True, slots=True)
class Vouched:
    """Somebody whom an identity provider vouches for, as it describes them now."""

    source: str
    """oidc or ldap."""
    subject: str = field(repr=False)
    """What the provider calls them, unchanging, with the provider's own name where there may be several."""
    name: str
    """The user name for a new account; ignored after the first login."""
    email: str = ""
    groups: frozenset[str] = frozenset()
    """The provider's names of the groups they are in; those that a group of ours names as `externalName` count."""


@dataclass(frozen=True, slots=True)
class Started:
    """A login on its way: where to send the browser, and what it must bring back."""

    url: str
    keepsake: str = field(repr=False)
    """Sealed; binds the answer to the browser that asked."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A login that the provider answered."""

    person: Vouched
    back: Mapping[str, str]
    """What was given to `start`, to go on where the login began."""


class SignOnFailed(Exception):
    """The provider did not let somebody in, or its answer cannot be trusted; the sentence is for that person."""

    def __init__(self, message: str, back: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.back = back or {}


class SingleSignOn(Protocol):
    """Lets a provider's web page log people in."""

    @property
    def label(self) -> str:
        """Return what the button says, such as the name of the organisation."""
        ...

    async def start(self, redirect_uri: str, back: Mapping[str, str]) -> Started:
        """Begin a login whose answer comes to `redirect_uri`. Raises Unavailable when the provider is down."""
        ...

    async def finish(self, redirect_uri: str, answer: Mapping[str, str], keepsake: str) -> Finished:
        """Return who logged in. Raises SignOnFailed, also when the provider is down."""
        ...

    async def logout_url(self, back: str) -> str | None:
        """Return the provider's page that ends its own session, None if it has none."""
        ...


class PasswordDirectory(Protocol):
    """Knows people by a name and a password."""

    async def check(self, name: str, password: str) -> Vouched | None:
        """Return who that is, None for a wrong name or password. Raises Unavailable when it does not answer."""
        ...


class Sealer(Protocol):
    """Makes values unreadable and unchangeable to those who carry them."""

    def seal(self, secrets: Mapping[str, Any]) -> Sealed | None:
        """Return values encrypted, None when there are none."""
        ...

    def open(self, sealed: Sealed | None) -> dict[str, Any]:
        """Return what was sealed; raise Refused for what was not sealed by us."""
        ...
