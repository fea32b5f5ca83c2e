"""Single sign-on: the way to the identity provider and back, and from the browser to the program that began the login.

A token is never part of an address. The client begins a login with the challenge of a secret, and receives a sealed
code that is valid for a minute; only with the secret, and only once, can the code be exchanged for a token.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from openpai.access.accounts import User
from openpai.access.pkce import challenge_of
from openpai.api.accounts import login_answer
from openpai.api.client_address import sealed_text
from openpai.api.context import ApiContext
from openpai.api.services import SignOn
from openpai.api.token_format import new_token
from openpai.orchestrator import accounts
from openpai.ports.identity import Sealer, Vouched
from openpai.ports.store import Sealed
from openpai.protocol.errors import InvalidParameters, Refused
from openpai.wire.tokens import Login

CODE_MS: Final = 60_000
_CODE: Final = "login code"
CHALLENGE: Final = r"^[A-Za-z0-9_-]{43}$"
_HERE: Final = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.IGNORECASE | re.ASCII)
_PATH: Final = re.compile(r"/(?![/\\])[^\\\x00-\x1f\x7f]*")


def checked_target(target: str, sign_on: SignOn) -> str:
    """Return the address to which a login returns: a path of this server, the user's own machine, or an allowed origin.

    Any other address could receive the logins of other people.
    """
    if _PATH.fullmatch(target):
        return target
    try:
        place = urlsplit(target)
        is_odd = "\\" in target or not target.isprintable() or target != target.strip()
    except ValueError:
        is_odd = True
    if not is_odd and place.scheme in ("http", "https"):
        # Compare the whole network location: programs differ about where the name of a host ends.
        if place.scheme == "http" and _HERE.fullmatch(place.netloc):
            return target
        if f"{place.scheme}://{place.netloc}".lower() in {origin.rstrip("/").lower() for origin in sign_on.origins}:
            return target
    message = f"a login may not go back to {target[:200]!r}"
    raise InvalidParameters(message, "use a path such as /, or ask an administrator to allow its origin")


def onward(target: str, **values: str) -> str:
    """Return an address with these values added to its query."""
    place, hash_, fragment = target.partition("#")
    query = urlencode({key: value for key, value in values.items() if value})
    return f"{place}{'&' if '?' in place else '?'}{query}{hash_}{fragment}"


async def admit(context: ApiContext, sign_on: SignOn, person: Vouched) -> User:
    """Return the user of a person that a provider authenticated; raise ForbiddenUserError if not admitted."""
    users, now_ms = context.services.users, context.services.clock.now_ms()
    # Their groups may have changed, and with them the rights of their other logins.
    changed, is_group_required = context.sessions.forget, sign_on.is_group_required
    return await accounts.admit(users, person, now_ms, changed, is_group_required=is_group_required)


def code_for(context: ApiContext, user: User, challenge: str) -> str:
    """Return a code that, with the secret of `challenge`, can be exchanged for a user's token within a minute."""
    now_ms = context.services.clock.now_ms()
    until_ms = now_ms + CODE_MS
    lasts_until_ms = now_ms + context.services.settings.token_lifetime_s * 1000
    token = new_token(user.name, is_application=False, created_at_ms=now_ms, expires_at_ms=lasts_until_ms)
    who = {"user": user.name, "since_ms": user.created_at_ms}
    content = {**who, "token": token, "challenge": challenge, "until_ms": until_ms}
    return sealed_text(context.services.sealer, {_CODE: content})


async def redeem(context: ApiContext, code: str, verifier: str) -> Login:
    """Return OpenPAI's answer to a login for a code and its secret. Raises UnauthorizedUserError for any other code."""
    wrong = Refused("UnauthorizedUserError", "this code is unknown, too old or was used already", "log in again")
    content = _opened(context.services.sealer, code)
    if not content or context.services.clock.now_ms() >= content["until_ms"]:
        raise wrong
    if not hmac.compare_digest(challenge_of(verifier), content["challenge"]):
        raise wrong
    user = await context.services.users.user(content["user"])
    if user is None or user.created_at_ms != content.get("since_ms"):
        raise wrong
    lifetime_s = context.services.settings.token_lifetime_s
    try:
        # The token was generated with the code, so every server recognises a second use of the code.
        token = await context.sessions.open(user.name, lifetime_s=lifetime_s, token=content["token"])
    except Refused as error:
        raise wrong from error
    return login_answer(user, token)


def _opened(sealer: Sealer, code: str) -> Mapping[str, Any]:
    """Return the content of a code; empty for anything else, also for other sealed values."""
    try:
        content = sealer.open(Sealed(code.encode("utf-8", "replace"))).get(_CODE)
    except Refused:
        return {}
    return content if isinstance(content, dict) else {}
