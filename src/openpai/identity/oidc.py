"""Single sign-on with any OpenID provider: authorization code, PKCE, and an answer bound to the browser.

The state, the nonce and the PKCE verifier of a login are sealed and carried by the browser, so any server can finish a
login that another one began.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import httpx
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jws import extract_compact

from openpai.access.pkce import challenge_of
from openpai.identity.provider import Provider
from openpai.ports.clock import Clock
from openpai.ports.identity import Finished, Sealer, SignOnFailed, Started, Vouched
from openpai.ports.store import Sealed
from openpai.protocol.errors import Refused, Unavailable

LOGIN_MS: Final = 10 * 60 * 1000
LEEWAY_S: Final = 60
SPENT_MAX: Final = 100_000
# Only algorithms with keys that the provider alone holds: no `none`, and none with a shared secret.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
NAME_CLAIMS: Final = ("upn", "preferred_username", "email", "unique_name")
_KEPT: Final = "sign-on"


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """The registration of this platform at an OpenID provider."""

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = ""
    """The claim that names the user; empty: the first of NAME_CLAIMS that is present."""
    groups_claim: str = "groups"
    label: str = "single sign-on"


class Oidc:
    """`ports.identity.SingleSignOn` over OpenID Connect."""

    def __init__(self, settings: OidcSettings, sealer: Sealer, clock: Clock, provider: Provider) -> None:
        self._settings = settings
        self._sealer = sealer
        self._clock = clock
        self._provider = provider
        self._spent: dict[str, int] = {}
        """Answered states, with the time until which each is remembered, oldest first."""

    @property
    def label(self) -> str:
        """Return the label of the login button."""
        return self._settings.label

    async def start(self, redirect_uri: str, back: Mapping[str, str]) -> Started:
        place = await self._provider.place("authorization_endpoint")
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self._settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        until_ms = self._clock.now_ms() + LOGIN_MS
        kept = {"state": state, "nonce": nonce, "verifier": verifier, "until_ms": until_ms, "back": dict(back)}
        sealed = self._sealer.seal({_KEPT: kept})
        if sealed is None:
            raise ValueError("nothing was sealed")
        return Started(f"{place}{'&' if '?' in place else '?'}{urlencode(query)}", sealed.data.decode())

    async def finish(self, redirect_uri: str, answer: Mapping[str, str], keepsake: str) -> Finished:
        kept = self._kept(answer, keepsake)
        back: Mapping[str, str] = kept["back"]
        if "error" in answer:
            message = answer.get("error_description") or answer["error"]
            raise SignOnFailed(f"the identity provider refused the login: {message[:200]}", back)
        if not answer.get("code"):
            raise SignOnFailed("the identity provider's answer carries no code", back)
        if "iss" in answer and answer["iss"].rstrip("/") != self._provider.issuer:
            raise SignOnFailed("the answer comes from another identity provider", back)
        try:
            tokens = await self._exchange(redirect_uri, answer["code"], kept["verifier"], back)
            claims = await self._claims(tokens.get("id_token"), kept["nonce"], back)
            return Finished(await self._person(claims, tokens.get("access_token"), back), back)
        except Unavailable as error:
            # Report the error to the client that began the login: the page in this browser may be shown to no person.
            raise SignOnFailed(f"{error.message}; {error.advice or 'try again in a moment'}", back) from error

    async def logout_url(self, back: str) -> str | None:
        place = (await self._provider.about()).get("end_session_endpoint")
        if not isinstance(place, str):
            return None
        query = urlencode({"client_id": self._settings.client_id, "post_logout_redirect_uri": back})
        return f"{place}{'&' if '?' in place else '?'}{query}"

    def _kept(self, answer: Mapping[str, str], keepsake: str) -> dict[str, Any]:
        """Return the sealed state of the login, if this answer belongs to it and is the first one."""
        strange = "this login was not begun in this browser, or too long ago; log in again"
        try:
            kept = self._sealer.open(Sealed(keepsake.encode())).get(_KEPT) if keepsake else None
        except Refused:
            raise SignOnFailed(strange) from None
        if not isinstance(kept, dict):
            raise SignOnFailed(strange)
        state, given = kept["state"], answer.get("state", "")
        now_ms = self._clock.now_ms()
        if now_ms >= kept["until_ms"] or not hmac.compare_digest(state.encode(), given.encode("utf-8", "replace")):
            raise SignOnFailed(strange)
        self._spend(state, now_ms)
        return kept

    def _spend(self, state: str, now_ms: int) -> None:
        """Remember that a state was answered; raise SignOnFailed if it was answered before."""
        if state in self._spent:
            raise SignOnFailed("this login was finished already; log in again")
        while self._spent:
            oldest = next(iter(self._spent))
            if len(self._spent) < SPENT_MAX and now_ms < self._spent[oldest]:
                break
            del self._spent[oldest]
        self._spent[state] = now_ms + LOGIN_MS

    async def _exchange(self, redirect_uri: str, code: str, verifier: str, back: Mapping[str, str]) -> dict[str, Any]:
        place = await self._provider.place("token_endpoint")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self._settings.client_id,
            "code_verifier": verifier,
        }
        methods = (await self._provider.about()).get("token_endpoint_auth_methods_supported") or (
            "client_secret_basic",
        )
        login = None
        if self._settings.client_secret and "client_secret_basic" in methods:
            # RFC 6749, 2.3.1: both are form-encoded first; otherwise a colon or percent sign would be misread.
            login = httpx.BasicAuth(quote_plus(self._settings.client_id), quote_plus(self._settings.client_secret))
        elif self._settings.client_secret:
            form["client_secret"] = self._settings.client_secret
        status, tokens = await self._provider.ask("POST", place, data=form, auth=login or httpx.USE_CLIENT_DEFAULT)
        if status >= 500:
            raise Unavailable(f"the identity provider {self._provider.issuer} answers {status}")
        if status != 200 or not isinstance(tokens, dict):
            message = str(tokens.get("error", status))[:200] if isinstance(tokens, dict) else status
            raise SignOnFailed(f"the identity provider did not accept the login's code ({message})", back)
        return tokens

    async def _claims(self, id_token: Any, nonce: str, back: Mapping[str, str]) -> dict[str, Any]:
        """Return the claims of an ID token, if it was signed for this platform and login and is still valid."""
        if not isinstance(id_token, str):
            raise SignOnFailed("the identity provider sent no ID token", back)
        try:
            header = extract_compact(id_token.encode()).headers()
            keys = await self._provider.keys(header.get("kid"))
            token = jwt.decode(id_token, keys, algorithms=list(ALGORITHMS))
            jwt.JWTClaimsRegistry(
                now=self._clock.now_ms() // 1000,
                leeway=LEEWAY_S,
                iss={"essential": True, "value": (await self._provider.about())["issuer"]},
                aud={"essential": True, "value": self._settings.client_id},
                sub={"essential": True},
                exp={"essential": True},
                iat={"essential": True},
                nonce={"essential": True, "value": nonce},
            ).validate(token.claims)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            message = f"the identity provider's ID token cannot be trusted ({type(error).__name__})"
            raise SignOnFailed(message, back) from error
        claims = dict(token.claims)
        subject = claims["sub"]
        if not isinstance(subject, str) or not subject.isprintable() or len(subject) > 255:
            raise SignOnFailed("the identity provider's ID token names no user", back)
        audience = claims["aud"]
        is_for_many = isinstance(audience, list) and len(audience) > 1
        if claims.get("azp", self._settings.client_id if not is_for_many else "") != self._settings.client_id:
            raise SignOnFailed("the identity provider's ID token is for another application", back)
        return claims

    async def _person(self, claims: dict[str, Any], access_token: Any, back: Mapping[str, str]) -> Vouched:
        place = (await self._provider.about()).get("userinfo_endpoint")
        if isinstance(place, str) and isinstance(access_token, str) and not self._is_enough(claims):
            more = await self._provider.json("GET", place, headers={"Authorization": f"Bearer {access_token}"})
            if more.get("sub") != claims["sub"]:
                raise SignOnFailed("the identity provider describes another user than the one who logged in", back)
            claims = {**more, **claims}
        wanted = (self._settings.name_claim,) if self._settings.name_claim else NAME_CLAIMS
        name = next((claims[claim] for claim in wanted if claims.get(claim) and isinstance(claims[claim], str)), "")
        if not name:
            raise SignOnFailed(f"the identity provider does not say {' or '.join(wanted)} of this person", back)
        email = claims.get("email")
        return Vouched(
            source="oidc",
            subject=f"{self._provider.issuer}#{claims['sub']}",
            name=name.rpartition("@")[0] or name,
            email=email if isinstance(email, str) else "",
            groups=self._groups(claims, back),
        )

    def _groups(self, claims: Mapping[str, Any], back: Mapping[str, str]) -> frozenset[str]:
        claim = self._settings.groups_claim
        elsewhere = claims.get("_claim_names")
        if claim not in claims and isinstance(elsewhere, dict) and claim in elsewhere:
            # Admitting them without groups would take their rights away.
            message = "the identity provider omits the groups of this user, who is in too many groups"
            raise SignOnFailed(
                f"{message}; an administrator can configure it to send only the groups of this platform", back
            )
        listed = claims.get(claim)
        groups = listed if isinstance(listed, list) else [listed]
        return frozenset(group for group in groups if isinstance(group, str))

    def _is_enough(self, claims: Mapping[str, Any]) -> bool:
        wanted = self._settings.name_claim
        return self._settings.groups_claim in claims and (wanted in claims if wanted else "email" in claims)
