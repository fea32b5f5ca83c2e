"""Users and tokens in OpenPAI's shapes; passwords and their hashes are in none of them."""

from __future__ import annotations

from openpai.api.shapes.exits import Document
from openpai.ports.accounts import Token, User
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER


def user(found: User) -> Document:
    """Return a user."""
    return {
        "username": found.name,
        "email": found.email,
        "grouplist": [],
        "extension": {},
        "admin": found.is_admin,
        "virtualCluster": [DEFAULT_VIRTUAL_CLUSTER],
        "storageConfig": [],
    }


def checked(token: Token, is_admin: bool) -> Document:
    """Return what a valid token stands for, with times in seconds as in a JWT."""
    expiry = {} if token.expires_at_ms is None else {"exp": token.expires_at_ms // 1000}
    return {
        "username": token.user,
        "application": token.is_application,
        "jobSpecific": False,
        "encodedFrameworkName": "",
        "iat": token.created_at_ms // 1000,
        **expiry,
        "admin": is_admin,
    }


def token(found: Token, current: Token) -> Document:
    """Return one of a user's tokens; `id` names it, and nobody can log in with it."""
    return {
        "id": found.digest,
        "application": found.is_application,
        "createdTime": found.created_at_ms,
        "expirationTime": found.expires_at_ms,
        "current": found.digest == current.digest,
    }
