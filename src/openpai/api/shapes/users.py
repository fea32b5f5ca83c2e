"""Users and tokens in OpenPAI's shapes; passwords and their hashes are in none of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from openpai.access.accounts import Group, Token, User
from openpai.access.memberships import GRANTED_TO_ALL, granted_clusters
from openpai.wire import people, tokens


def user(found: User, groups: Iterable[Group]) -> people.User:
    """Return a user in full, for themselves and administrators; `groups` are all there are."""
    return {
        "username": found.name,
        "email": found.email,
        "grouplist": [group.name for group in found.groups],
        "extension": dict(found.extension),
        "admin": found.is_admin,
        "viewer": found.is_viewer,
        "virtualCluster": sorted(GRANTED_TO_ALL | granted_clusters(groups if found.is_admin else found.groups)),
        "storageConfig": list(dict.fromkeys(name for group in found.groups for name in group.storages)),
        "source": found.source,
        "createdTime": found.created_at_ms,
    }


def public_user(found: User) -> people.PublicUser:
    """Return what every user may know of another."""
    return {"username": found.name}


def member(found: User) -> people.Member:
    """Return a member of a group."""
    return {"username": found.name, "clusterAdmin": found.is_admin}


def checked(token: Token, is_admin: bool) -> tokens.TokenInfo:
    """Return what a valid token stands for, with times in seconds as in a JWT."""
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
