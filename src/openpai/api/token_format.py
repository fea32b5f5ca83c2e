"""Tokens in the shape of a JWT, because clients of OpenPAI read a user's name and dates out of one.

The server trusts nothing in such a token: it looks the token up by its hash. The place of the signature holds the
random bits that make it impossible to guess. A token's id has the same form and is no credential: its hash is not
stored.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from typing import Any, Final

from openpai.access.accounts import Token

_HEADER: Final = {"alg": "HS256", "typ": "JWT"}
_DIGEST: Final = re.compile(r"(?:[\w-]+\.[\w-]+\.)?([0-9a-f]{64})", re.ASCII)
_SECRET_BYTES: Final = 32


def new_token(user: str, *, is_application: bool, created_at_ms: int, expires_at_ms: int | None) -> str:
    """Return a token that cannot be guessed."""
    claims = _claims(user, is_application, created_at_ms, expires_at_ms)
    return f"{claims}.{secrets.token_urlsafe(_SECRET_BYTES)}"


def id_of(token: Token) -> str:
    """Return an id for a token, from which clients read its user and its expiry."""
    return f"{_claims(token.user, token.is_application, token.created_at_ms, token.expires_at_ms)}.{token.digest}"


def digest_in(text: str) -> str | None:
    """Return the digest in an id, in either of its forms; None for any other text."""
    found = _DIGEST.fullmatch(text)
    return found[1] if found else None


def _claims(user: str, is_application: bool, created_at_ms: int, expires_at_ms: int | None) -> str:
    expiry = {} if expires_at_ms is None else {"exp": expires_at_ms // 1000}
    claims = {"username": user, "application": is_application, "iat": created_at_ms // 1000, **expiry}
    return f"{_encoded(_HEADER)}.{_encoded(claims)}"


def _encoded(document: dict[str, Any]) -> str:
    text = json.dumps(document, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
