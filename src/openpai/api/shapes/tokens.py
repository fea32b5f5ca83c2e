"""Tokens in OpenPAI's shapes."""

from __future__ import annotations

from typing import cast

from openpai.access.accounts import Token
from openpai.wire import tokens


def checked(token: Token, is_admin: bool) -> tokens.TokenInfo:
    """Return the user, scope and times of a valid token; times are in seconds, as in a JWT."""
    document: tokens.TokenInfo = {
        "username": token.user,
        "application": token.is_application,
        "jobSpecific": False,
        "encodedFrameworkName": "",
        "iat": token.created_at_ms // 1000,
        "admin": is_admin,
        "scope": cast("tokens.Scope", token.scope),
    }
    if token.expires_at_ms is not None:
        document["exp"] = token.expires_at_ms // 1000
    return document


def token(found: Token, current: Token) -> tokens.Token:
    """Return one of a user's tokens; `id` names it and is no credential."""
    return {
        "id": found.digest,
        "name": found.name,
        "application": found.is_application,
        "scope": cast("tokens.Scope", found.scope),
        "createdTime": found.created_at_ms,
        "expirationTime": found.expires_at_ms,
        "current": found.digest == current.digest,
    }
