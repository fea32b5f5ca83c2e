"""The published metadata of an OpenID provider: its endpoints and keys, fetched when needed and cached."""

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
"""How long a whole answer may take, even if data keeps arriving."""
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
        """Close the connections."""
        await self.http.aclose()

    async def about(self) -> Mapping[str, Any]:
        """Return the provider's metadata. Raises Unavailable if it cannot be fetched or names another issuer."""
        now_ms = self._clock.now_ms()
        if not self._about or _apart(now_ms, self._about_at_ms, FRESH_MS):
            found = await self.json("GET", f"{self.issuer}/.well-known/openid-configuration")
            if str(found.get("issuer", "")).rstrip("/") != self.issuer:
                message = f"{self.issuer} describes itself as {found.get('issuer')!r}"
                raise Unavailable(message, "the issuer in the identity file must be exactly the provider's own")
            self._about, self._about_at_ms = found, now_ms
        return self._about

    async def place(self, name: str) -> str:
        """Return an endpoint of the provider. Raises Unavailable if it has none of that name."""
        found = (await self.about()).get(name)
        if not isinstance(found, str):
            raise Unavailable(
                f"the identity provider {self.issuer} publishes no {name}",
                "contact the administrators of the identity provider",
            )
        return found

    async def keys(self, key_id: str | None) -> KeySet:
        """Return the provider's signing keys, fetched again if a requested one is missing."""
        now_ms = self._clock.now_ms()
        is_old = _apart(now_ms, self._keys_at_ms, FRESH_MS)
        is_missing = self._keys is None or (key_id is not None and key_id not in {key.kid for key in self._keys.keys})
        # Invented key names must not cause a request to the provider each time.
        if self._keys is None or is_old or (is_missing and _apart(now_ms, self._keys_at_ms, RELOAD_MIN_MS)):
            found = _readable(await self.json("GET", await self.place("jwks_uri")))
            if not found.keys:
                raise Unavailable(
                    f"the keys of {self.issuer} cannot be read", "contact the administrators of the identity provider"
                )
            self._keys, self._keys_at_ms = found, now_ms
        return self._keys

    async def json(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        """Return a JSON answer of the provider. Raises Unavailable for anything else."""
        status, document = await self.ask(method, url, **more)
        if status != 200:
            message = f"the identity provider {self.issuer} answers {status}"
            raise Unavailable(message, "try again in a moment, or log in with a local account")
        if not isinstance(document, dict):
            raise Unavailable(
                f"the identity provider {self.issuer} answers with no JSON object",
                "contact the administrators of the identity provider",
            )
        return document

    async def ask(self, method: str, url: str, **more: Any) -> tuple[int, Any]:
        """Return the status of an answer and its JSON (None if it is not JSON), bounded in time and size.

        Raises Unavailable if there is no answer.
        """
        content = bytearray()
        try:
            async with asyncio.timeout(ANSWER_S), self.http.stream(method, url, **more) as answer:
                async for piece in answer.aiter_bytes():
                    content += piece
                    if len(content) > ANSWER_BYTES_MAX:
                        message = f"the identity provider {self.issuer} answers with more than {ANSWER_BYTES_MAX} bytes"
                        raise Unavailable(message, "contact the administrators of the identity provider")
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            message = f"the identity provider {self.issuer} does not answer as it should ({type(error).__name__})"
            raise Unavailable(message, "try again in a moment, or log in with a local account") from error
        try:
            return answer.status_code, json.loads(content)
        except (ValueError, RecursionError):
            return answer.status_code, None


def _apart(now_ms: int, then_ms: int, least_ms: int) -> bool:
    """Return whether two times are this far apart, also if the clock was set back in between."""
    return abs(now_ms - then_ms) >= least_ms


def _readable(document: Mapping[str, Any]) -> KeySet:
    """Return the supported keys of a set: one of an unknown type must not hide the others (RFC 7517, 5)."""
    listed = document.get("keys")
    keys = []
    for each in listed if isinstance(listed, list) else ():
        try:
            keys.append(JWKRegistry.import_key(each))
        except (JoseError, AttributeError, KeyError, TypeError, ValueError):
            continue
    return KeySet(keys)
