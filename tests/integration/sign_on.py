"""Identity providers for tests: a real OpenID provider in a process of its own, and one that lies in chosen ways."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from cryptography.fernet import Fernet
from joserfc import jwt
from joserfc.jwk import RSAKey

from openpai.access.pkce import challenge_of
from openpai.api.services import SignOn
from openpai.identity.oidc import Oidc, OidcSettings
from openpai.identity.provider import Provider
from openpai.ports.identity import PasswordDirectory
from openpai.store.vault import Vault
from tests.ports import free_port

from .api_world import World

BASE = "http://pai"
VERIFIER = "a-secret-that-only-this-browser-knows-0123456789"


@contextmanager
def real_provider() -> Iterator[str]:
    """Start an OpenID provider; yield its issuer address."""
    port = free_port()
    issuer = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port), "-n", "true"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            deadline = time.monotonic() + 60
            while True:
                assert process.poll() is None, process.stderr.read()
                assert time.monotonic() < deadline, "the provider does not answer"
                try:
                    httpx.get(f"{issuer}/.well-known/openid-configuration", trust_env=False).raise_for_status()
                    break
                except httpx.TransportError:
                    # Nothing announces that it listens: asking is the only way to know.
                    time.sleep(0.05)
            yield issuer
        finally:
            process.terminate()
            process.wait(60)


def sign_on_with(
    world: World, provider: Provider | None, *, directory: PasswordDirectory | None = None, **more: Any
) -> None:
    """Use a provider for logins in a world, from now on."""
    sealer = Vault(Fernet.generate_key().decode())
    sso = None
    if provider is not None:
        sso = Oidc(OidcSettings(provider.issuer, "pai", "client secret"), sealer, world.clock, provider)
    context = world.api.state.context
    services = replace(context.services, sign_on=SignOn(sso, directory, BASE, **more), sealer=sealer)
    world.api.state.context = replace(context, services=services)


class Browser:
    """A person at a browser: keeps cookies of the platform, and follows where it is sent, one step at a time."""

    def __init__(self, world: World) -> None:
        self._transport = httpx.ASGITransport(world.api, client=("192.0.2.7", 4711))
        self.http = httpx.AsyncClient(transport=self._transport, base_url=BASE)

    async def begin(self, **query: str) -> httpx.Response:
        asked = {"challenge": challenge_of(VERIFIER), **query}
        return await self.http.get("/api/v2/authn/oidc/login", params=asked)

    async def come_back(self, location: str) -> httpx.Response:
        parts = urlsplit(location)
        assert f"{parts.scheme}://{parts.netloc}" == BASE
        return await self.http.get(f"{parts.path}?{parts.query}")

    async def redeem(self, code: str, verifier: str = VERIFIER) -> httpx.Response:
        return await self.http.post("/api/v2/authn/oidc/token", json={"code": code, "verifier": verifier})


def query_of(location: str) -> dict[str, str]:
    """Return the query of an address, one value per name."""
    return {key: values[0] for key, values in parse_qs(urlsplit(location).query).items()}


async def log_in_at(issuer: str, location: str, subject: str, claims: dict[str, Any] | None = None) -> str:
    """Log a user in at the real provider's page; return where it sends the browser."""
    async with httpx.AsyncClient(trust_env=False) as http:
        described = await http.put(f"{issuer}/users/{subject}", json=claims or {})
        assert described.status_code == 204, described.text
        page = await http.get(location)
        assert page.status_code == 200, page.text
        assert re.search("<form", page.text)
        answer = await http.post(location, data={"sub": subject})
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]


class Liar:
    """A provider that signs any claims with any key."""

    issuer = "https://id.example.org"

    def __init__(self, world: World) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
        self.world = world
        self.claims: dict[str, Any] = {}
        self.header: dict[str, Any] = {"alg": "RS256", "kid": "one"}
        self.signing_key: Any = self.key
        self.token: str | None = None
        self.nonce = ""
        self.forms: list[dict[str, str]] = []
        self.described: dict[str, Any] = {}
        """What it says of itself besides."""
        self.more_keys: list[Any] = []
        self.replies: dict[str, httpx.Response] = {}
        """What it answers at a path instead."""

    def provider(self) -> Provider:
        http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        return Provider(self.issuer, self.world.clock, http)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path in self.replies:
            return self.replies[path]
        if path == "/.well-known/openid-configuration":
            places = {name: f"{self.issuer}/{name}" for name in ("authorization_endpoint", "token_endpoint")}
            places |= {"jwks_uri": f"{self.issuer}/keys", "end_session_endpoint": f"{self.issuer}/bye"}
            return httpx.Response(200, json={"issuer": self.issuer, **places, **self.described})
        if path == "/keys":
            return httpx.Response(200, json={"keys": [*self.more_keys, self.key.as_dict(private=False)]})
        self.forms.append({key: values[0] for key, values in parse_qs(request.content.decode()).items()})
        return httpx.Response(200, json={"access_token": "a", "token_type": "Bearer", "id_token": self._proof()})

    def _proof(self) -> str:
        if self.token is not None:
            return self.token
        now_s = self.world.clock.now_ms() // 1000
        honest = {"iss": self.issuer, "sub": "u1", "aud": "pai", "iat": now_s, "exp": now_s + 300, "nonce": self.nonce}
        message = {**honest, "preferred_username": "carol", "email": "carol@example.org", "groups": ["team-a"]}
        message = {key: value for key, value in {**message, **self.claims}.items() if value is not None}
        return jwt.encode(self.header, message, self.signing_key, algorithms=[self.header["alg"]])
