"""What an OpenID provider publishes about itself: its addresses and its keys, read when needed and kept for a while."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, KeySet

from openpai.ports.clock import Clock
from openpai.protocol.errors import Unavailable

FRESH_MS: Final = 3_600_000
RELOAD_MIN_MS: Final = 30_000
TIMEOUT_S: Final = 10.0
ANSWER_S: Final = 20.0
"""How long a whole answer may take, however steadily it trickles."""
ANSWER_BYTES_MAX: Final = 2 * 1024 * 1024


class Provider:
    """One OpenID provider, found by its issuer address."""

    def __init__(self, issuer: str, clock: Clock, http: httpx.AsyncClient | None = None) -> None:
        self.issuer = issuer.rstrip("/")
        self._clock = clock
        self.http = http or httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)
        self._about: Mapping[str, Any] = {}
        self._about_at_ms = 0
        self._keys: KeySet | None = None
        self._keys_at_ms = 0

    async def close(self) -> None:
        """Let go of the connections."""
        await self.http.aclose()

    async def about(self) -> Mapping[str, Any]:
        """Return the provider's own description. Raises Unavailable when it cannot be had or names another issuer."""
        now_ms = self._clock.now_ms()
        if not self._about or _apart(now_ms, self._about_at_ms, FRESH_MS):
            found = await self.json("GET", f"{self.issuer}/.well-known/openid-configuration")
            if str(found.get("issuer", "")).rstrip("/") != self.issuer:
                message = f"{self.issuer} describes itself as {found.get('issuer')!r}"
                raise Unavailable(message, "the issuer in the identity file must be exactly the provider's own")
            self._about, self._about_at_ms = found, now_ms
        return self._about

    async def place(self, name: str) -> str:
        """Return one of the provider's addresses. Raises Unavailable if it has none of that name."""
        found = (await self.about()).get(name)
        if not isinstance(found, str):
            raise Unavailable(f"the identity provider {self.issuer} publishes no {name}", "ask who runs it")
        return found

    async def keys(self, key_id: str | None) -> KeySet:
        """Return the keys it signs with, read again when one is asked for that is not among them."""
        now_ms = self._clock.now_ms()
        is_old = _apart(now_ms, self._keys_at_ms, FRESH_MS)
        is_missing = self._keys is None or (key_id is not None and key_id not in {key.kid for key in self._keys.keys})
        # Made-up key names must not make us ask the provider each time.
        if self._keys is None or is_old or (is_missing and _apart(now_ms, self._keys_at_ms, RELOAD_MIN_MS)):
            found = _readable(await self.json("GET", await self.place("jwks_uri")))
            if not found.keys:
                raise Unavailable(f"the keys of {self.issuer} cannot be read", "ask who runs it")
            self._keys, self._keys_at_ms = found, now_ms
        return self._keys

    async def json(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        """Return a JSON answer of the provider. Raises Unavailable for anything else."""
        status, document = await self.ask(method, url, **more)
        if status != 200:
            message = f"the identity provider {self.issuer} answers {status}"
            raise Unavailable(message, "try again in a moment, or log in with a local account")
        if not isinstance(document, dict):
            raise Unavailable(f"the identity provider {self.issuer} answers with no JSON object", "ask who runs it")
        return document

    async def ask(self, method: str, url: str, **more: Any) -> tuple[int, Any]:
        """Return the status of an answer and its JSON, None if it is none; bounded in time and size.

        Raises Unavailable where there is no answer.
        """
        content = bytearray()
        try:
            async with asyncio.timeout(ANSWER_S), self.http.stream(method, url, **more) as answer:
                async for piece in answer.aiter_bytes():
                    content += piece
                    if len(content) > ANSWER_BYTES_MAX:
                        message = f"the identity provider {self.issuer} answers with more than {ANSWER_BYTES_MAX} bytes"
                        raise Unavailable(message, "ask who runs it")
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            message = f"the identity provider {self.issuer} does not answer as it should ({type(error).__name__})"
            raise Unavailable(message, "try again in a moment, or log in with a local account") from error
        try:
            return answer.status_code, json.loads(content)
        except (ValueError, RecursionError):
            return answer.status_code, None


def _apart(now_ms: int, then_ms: int, least_ms: int) -> bool:
    """Return whether two times are this far apart; a clock that was set back must not keep old things fresh."""
    return abs(now_ms - then_ms) >= least_ms


def _readable(document: Mapping[str, Any]) -> KeySet:
    """Return those keys of a set that we understand: one of a newer kind must not hide the others (RFC 7517, 5)."""
    listed = document.get("keys")
    keys = []
    for each in listed if isinstance(listed, list) else ():
        try:
            keys.append(JWKRegistry.import_key(each))
        except (JoseError, AttributeError, KeyError, TypeError, ValueError):
            continue
    return KeySet(keys)
