"""Sessions: tokens are issued, recognised and revoked.

A token has 256 random bits. Only its SHA-256 is stored, so a stolen database grants no access; the digest is also the
name by which a token is listed and revoked. A recognised token is cached for a few seconds.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from openpai.access.accounts import Token
from openpai.access.deciding import check, refusal
from openpai.access.memberships import principal_of
from openpai.access.model import Principal, Role, Thing
from openpai.api.token_format import digest_in, new_token
from openpai.ports.accounts import AccountStore
from openpai.ports.clock import Clock
from openpai.protocol.errors import Refused

CACHED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated user."""

    principal: Principal
    token: Token = field(repr=False)
    action: str = ""
    """The action of `access.table` that the route needs."""

    @property
    def user(self) -> str:
        """Return their name."""
        return self.principal.name

    @property
    def is_admin(self) -> bool:
        """Return whether they are an administrator."""
        return self.principal.role is Role.ADMIN

    def check(self, thing: Thing, action: str | None = None) -> None:
        """Raise ForbiddenUserError if they may not do the action of the route, or another one, to a resource."""
        check(self.principal, action or self.action, thing)

    def may(self, thing: Thing, action: str | None = None) -> bool:
        """Return whether they may do the action of the route, or another one, to a resource."""
        return refusal(self.principal, action or self.action, thing) is None


@dataclass(frozen=True, slots=True)
class _Cached:
    caller: Caller
    since_ms: int


def digest_of(token: str) -> str:
    """Return the digest by which a token is stored."""
    return sha256(token.encode("utf-8", "replace")).hexdigest()


def _unauthorized(message: str = "this needs a login") -> Refused:
    return Refused("UnauthorizedUserError", message, "log in and send `Authorization: Bearer TOKEN`")


class Sessions:
    """Issues tokens and recognises them."""

    def __init__(self, users: AccountStore, clock: Clock, cache_ms: int) -> None:
        self._users = users
        self._clock = clock
        self._cache_ms = cache_ms
        self._cached: dict[str, _Cached] = {}
        self._revocations = 0

    async def caller(self, authorization: str | None) -> Caller:
        """Return who sent an Authorization header; raise UnauthorizedUserError for an unknown token."""
        named, token = _read(authorization)
        if digest_in(token) is not None:
            raise _unauthorized("this is the id of a token; the token itself is shown once, when it is created")
        caller = await self.holder(digest_of(token))
        if named is not None and not (caller.token.is_application and caller.user == named):
            raise _unauthorized("a user name goes with an application token of that user")
        return caller

    async def holder(self, digest: str) -> Caller:
        """Return whose token has a digest; raise UnauthorizedUserError for one that is no longer valid."""
        now_ms = self._clock.now_ms()
        cached = self._cached.get(digest)
        # Also after the clock was set back.
        is_fresh = cached is not None and 0 <= now_ms - cached.since_ms < self._cache_ms
        caller = cached.caller if cached and is_fresh else await self._recognise(digest, now_ms)
        expires_at_ms = caller.token.expires_at_ms
        if expires_at_ms is not None and now_ms >= expires_at_ms:
            self._cached.pop(digest, None)
            raise _unauthorized("this token has expired")
        return caller

    def client(self, authorization: str) -> str | None:
        """Return a name for the user of a header if the token is in the cache."""
        try:
            cached = self._cached.get(digest_of(_read(authorization)[1]))
        except Refused:
            return None
        # A user may be called like an address.
        return f"user {cached.caller.user}" if cached else None

    async def _recognise(self, digest: str, now_ms: int) -> Caller:
        revocations = self._revocations
        found = await self._users.token(digest)
        if found is None:
            self._cached.pop(digest, None)
            raise _unauthorized("this token is unknown or was revoked")
        token, user = found
        caller = Caller(principal_of(user, token), token)
        if revocations != self._revocations:
            # A token was revoked during the lookup; the answer may be older than that.
            return caller
        if len(self._cached) >= CACHED_MAX:
            del self._cached[next(iter(self._cached))]
        self._cached[digest] = _Cached(caller, now_ms)
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

        `token` is one that was generated before; raises ConflictTokenError if it is in use already, also if
        it was revoked since.
        """
        now_ms = self._clock.now_ms()
        until_ms = None if lifetime_s is None else now_ms + lifetime_s * 1000
        is_predetermined = bool(token)
        token = token or new_token(user, is_application=is_application, created_at_ms=now_ms, expires_at_ms=until_ms)
        remembered = Token(digest_of(token), user, is_application, now_ms, until_ms, scope, name)
        await self._users.add_token(remembered, is_predetermined=is_predetermined)
        return token

    async def revoke(self, digest: str) -> bool:
        """Forget a token; return whether there was one."""
        was_there = await self._users.revoke(digest)
        self._revocations += 1
        self._cached.pop(digest, None)
        return was_there

    async def live(self, user: str) -> tuple[Token, ...]:
        """Return a user's valid tokens; expired ones are removed."""
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
        """Empty the cache: rights have changed."""
        self._revocations += 1
        self._cached.clear()

    def forget(self, user: str) -> None:
        """Remove a user's tokens from the cache."""
        self._revocations += 1
        for digest in [digest for digest, known in self._cached.items() if known.caller.user == user]:
            del self._cached[digest]


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
            raise _unauthorized("the Authorization header cannot be read") from None
        return named, token
    raise _unauthorized()
