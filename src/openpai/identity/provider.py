"""What an OpenID provider publishes about itself: its addresses and its keys, read when needed and kept for a while."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from openpai.ports.clock import Clock
from openpai.protocol.errors import Unavailable

FRESH_MS: Final = 3_600_000
RELOAD_MIN_MS: Final = 30_000
TIMEOUT_S: Final = 10.0


class Provider:
    """One OpenID provider, found by its issuer address."""

    def __init__(self, issuer: str, clock: Clock, http: httpx.AsyncClient | None = None) -> None:
        self.issuer = issuer.rstrip("/")
        self._clock = clock
        self.http = http or httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)
        self._about: Mapping[str, Any] = {}
        self._about_until_ms = 0
        self._keys: KeySet | None = None
        self._keys_at_ms = 0

    async def close(self) -> None:
        """Let go of the connections."""
        await self.http.aclose()

    async def about(self) -> Mapping[str, Any]:
        """Return the provider's own description. Raises Unavailable when it cannot be had or names another issuer."""
        now_ms = self._clock.now_ms()
        if now_ms >= self._about_until_ms:
            found = await self.json("GET", f"{self.issuer}/.well-known/openid-configuration")
            if str(found.get("issuer", "")).rstrip("/") != self.issuer:
                told = f"{self.issuer} describes itself as {found.get('issuer')!r}"
                raise Unavailable(told, "the issuer in the identity file must be exactly the provider's own")
            self._about, self._about_until_ms = found, now_ms + FRESH_MS
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
        is_old = now_ms - self._keys_at_ms >= FRESH_MS
        is_missing = self._keys is None or (key_id is not None and key_id not in {key.kid for key in self._keys.keys})
        # Made-up key names must not make us ask the provider each time.
        if self._keys is None or is_old or (is_missing and now_ms - self._keys_at_ms >= RELOAD_MIN_MS):
            document = await self.json("GET", await self.place("jwks_uri"))
            try:
                self._keys = KeySet.import_key_set(document)  # type: ignore[arg-type]
            except (JoseError, KeyError, TypeError, ValueError) as error:
                raise Unavailable(f"the keys of {self.issuer} cannot be read", "ask who runs it") from error
            self._keys_at_ms = now_ms
        return self._keys

    async def json(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        """Return a JSON answer of the provider. Raises Unavailable for anything else."""
        try:
            answer = await self.http.request(method, url, **more)
            answer.raise_for_status()
            document = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            told = f"the identity provider {self.issuer} does not answer as it should ({type(error).__name__})"
            raise Unavailable(told, "try again in a moment, or log in with a local account") from error
        if not isinstance(document, dict):
            raise Unavailable(f"the identity provider {self.issuer} answers with no JSON object", "ask who runs it")
        return document
