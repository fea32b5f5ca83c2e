"""Who is calling: tokens given out, recognised and revoked.

A token holds 256 random bits. Only its SHA-256 is remembered, so a stolen database opens no door; the digest is also
the name by which a token is listed and revoked. A token that was recognised is believed for a few seconds without
asking the store again.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from openpai.access.accounts import Token
from openpai.access.deciding import check, refusal
from openpai.access.model import Principal, Role, Thing
from openpai.access.rights import principal_of
from openpai.api.token_format import digest_in, new_token
from openpai.ports.accounts import AccountStore
from openpai.ports.clock import Clock
from openpai.protocol.errors import Refused

BELIEVED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who proved who they are."""

    principal: Principal
    token: Token = field(repr=False)
    action: str = ""
    """What the route they came to is about: an action of `access.table`."""

    @property
    def user(self) -> str:
        """Return their name."""
        return self.principal.name

    @property
    def is_admin(self) -> bool:
        """Return whether they are an administrator."""
        return self.principal.role is Role.ADMIN

    def check(self, thing: Thing, action: str | None = None) -> None:
        """Raise why they may not do what they came for (or another action) to a thing."""
        check(self.principal, action or self.action, thing)

    def may(self, thing: Thing, action: str | None = None) -> bool:
        """Return whether they may do what they came for (or another action) to a thing."""
        return refusal(self.principal, action or self.action, thing) is None


@dataclass(frozen=True, slots=True)
class _Believed:
    caller: Caller
    since_ms: int


def digest_of(token: str) -> str:
    """Return what is remembered of a token."""
    return sha256(token.encode("utf-8", "replace")).hexdigest()


def _stranger(message: str = "this needs a login") -> Refused:
    return Refused("UnauthorizedUserError", message, "log in and send `Authorization: Bearer TOKEN`")


class Sessions:
    """Gives out tokens and recognises them again."""

    def __init__(self, users: AccountStore, clock: Clock, cache_ms: int) -> None:
        self._users = users
        self._clock = clock
        self._cache_ms = cache_ms
        self._believed: dict[str, _Believed] = {}
        self._doubts = 0

    async def caller(self, authorization: str | None) -> Caller:
        """Return who sent an Authorization header; raise UnauthorizedUserError for nobody we know."""
        named, token = _read(authorization)
        if digest_in(token) is not None:
            raise _stranger("this is the id of a token, and no token: a token itself is shown once, when it is made")
        caller = await self.holder(digest_of(token))
        if named is not None and not (caller.token.is_application and caller.user == named):
            raise _stranger("a user name goes with an application token of that user")
        return caller

    async def holder(self, digest: str) -> Caller:
        """Return whose token has a digest; raise UnauthorizedUserError for one that opens no door any more."""
        now_ms = self._clock.now_ms()
        believed = self._believed.get(digest)
        # Also after the clock was set back.
        is_fresh = believed is not None and 0 <= now_ms - believed.since_ms < self._cache_ms
        caller = believed.caller if believed and is_fresh else await self._recognise(digest, now_ms)
        expires_at_ms = caller.token.expires_at_ms
        if expires_at_ms is not None and now_ms >= expires_at_ms:
            self._believed.pop(digest, None)
            raise _stranger("this token has expired")
        return caller

    def client(self, authorization: str) -> str | None:
        """Return a name for the user behind a header if they were recognised lately; asks nobody."""
        try:
            believed = self._believed.get(digest_of(_read(authorization)[1]))
        except Refused:
            return None
        # A user may be called like an address.
        return f"user {believed.caller.user}" if believed else None

    async def _recognise(self, digest: str, now_ms: int) -> Caller:
        doubts = self._doubts
        found = await self._users.token(digest)
        if found is None:
            self._believed.pop(digest, None)
            raise _stranger("this token is unknown or was revoked")
        token, user = found
        caller = Caller(principal_of(user, token), token)
        if doubts != self._doubts:
            # Something was revoked while we asked; what we heard may be older than that.
            return caller
        if len(self._believed) >= BELIEVED_MAX:
            del self._believed[next(iter(self._believed))]
        self._believed[digest] = _Believed(caller, now_ms)
        return caller

    async def open(
        self,
        user: str,
        *,
        lifetime_s: int | None,
        is_application: bool = False,
        scope: str = "all",
        name: str = "",
        token: str = "",
    ) -> str:
        """Return a new token of a user; None lives until it is revoked.

        `token` is one that was made up before; raises ConflictTokenError for one that was opened already, also if
        it was revoked since.
        """
        now_ms = self._clock.now_ms()
        until_ms = None if lifetime_s is None else now_ms + lifetime_s * 1000
        is_foretold = bool(token)
        token = token or new_token(user, is_application=is_application, created_at_ms=now_ms, expires_at_ms=until_ms)
        remembered = Token(digest_of(token), user, is_application, now_ms, until_ms, scope, name)
        await self._users.add_token(remembered, is_foretold=is_foretold)
        return token

    async def revoke(self, digest: str) -> bool:
        """Forget a token; return whether there was one."""
        was_there = await self._users.revoke(digest)
        self._doubts += 1
        self._believed.pop(digest, None)
        return was_there

    async def live(self, user: str) -> tuple[Token, ...]:
        """Return a user's tokens that still open the door; those that expired are forgotten."""
        now_ms = self._clock.now_ms()
        tokens = await self._users.tokens(user)
        expired = [token for token in tokens if token.expires_at_ms is not None and now_ms >= token.expires_at_ms]
        for token in expired:
            await self.revoke(token.digest)
        return tuple(token for token in tokens if token not in expired)

    async def revoke_all(self, user: str, *, is_application: bool | None = None) -> int:
        """Forget a user's tokens, or only logins, or only those of applications; return how many there were."""
        count = await self._users.revoke_all(user, is_application=is_application)
        self.forget(user)
        return count

    def forget_all(self) -> None:
        """Believe no token without asking the store again: rights have changed."""
        self._doubts += 1
        self._believed.clear()

    def forget(self, user: str) -> None:
        """Believe none of a user's tokens without asking the store again."""
        self._doubts += 1
        for digest in [digest for digest, known in self._believed.items() if known.caller.user == user]:
            del self._believed[digest]


def _read(authorization: str | None) -> tuple[str | None, str]:
    """Return the user an Authorization header names, if it names one, and the token it carries."""
    scheme, _, value = (authorization or "").partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value:
        return None, value
    if scheme.lower() == "basic":
        try:
            named, _, token = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise _stranger("the Authorization header cannot be read") from None
        return named, token
    raise _stranger()
